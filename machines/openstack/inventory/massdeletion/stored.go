package massdeletion

// IsLoaded reports whether the state of the previous leader has been loaded.
func (g *Guard) IsLoaded() bool { return g.loaded }

// Load sets the state to that of the previous leader.
func (g *Guard) Load(h Held) {
	for _, id := range h.Servers {
		g.held[id] = true
	}
	for id, since := range h.Lost {
		g.lost[id], g.stored[id] = since, true
	}
	g.known = max(g.known, len(g.held))
	g.loaded = true
}

// ToStore returns the guard's state, and reports whether it differs from the stored one. Before Load it reports false.
func (g *Guard) ToStore() (Held, bool) { return g.state(), g.dirty && g.loaded }

// Stored records that state h was stored. It returns the servers whose loss the guard accepts from now on.
func (g *Guard) Stored(h Held) (believed []string) {
	stored := make(map[string]bool, len(h.Lost))
	for id := range h.Lost {
		if stored[id] = true; !g.stored[id] && !g.held[id] {
			believed = append(believed, id)
		}
	}
	g.stored = stored
	g.dirty = !h.equal(g.state())
	return believed
}
