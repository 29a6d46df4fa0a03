package massdeletion

// IsLoaded reports whether what a predecessor stored has been loaded.
func (g *Guard) IsLoaded() bool { return g.loaded }

// Load begins with what a predecessor stored.
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

// ToStore returns what the guard keeps, and reports whether it differs from what is stored. It never does before Load.
func (g *Guard) ToStore() (Held, bool) { return g.state(), g.dirty && g.loaded }

// Stored notes that this was stored. It returns the servers whose loss may be believed from now on.
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
