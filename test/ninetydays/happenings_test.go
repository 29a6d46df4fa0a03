package ninetydays

import "time"

// happenings plans random changes and faults of the cluster and its cloud, up to the given time.
func (w *world) happenings(until time.Time) {
	w.often(24, until, w.churn)
	w.often(6, until, w.breakOne)
	w.often(15, until, w.blip)
	w.often(0.25, until, w.breakHost)
	w.often(0.15, until, w.zoneOutage)
	w.often(0.5, until, w.apiOutage)
	w.often(3, until, func() { w.whenAnswering(w.stripOne) })
	w.often(1, until, func() { w.whenAnswering(w.lateOrder) })
	w.often(0.1, until, func() {
		w.counts.clones++
		w.clone()
	})
}

// churn does what the autoscaler does: it removes a Machine from one group, and adds one to another.
func (w *world) churn() {
	s := w.pick()
	if s.leaving() || !w.answers() {
		return
	}
	w.counts.churned++
	s.group.Size--
	w.remove(s)
	w.grow(w.groups[w.random.IntN(len(w.groups))])
}

// stripOne does what a careless user does: it deletes a Machine and removes its finalizers.
func (w *world) stripOne() {
	w.counts.stripped++
	w.strip(w.pick())
}

// breakOne breaks a random server, which never works again.
func (w *world) breakOne() {
	if s := w.pick(); s.broken.IsZero() {
		w.counts.broken++
		w.breaks(s)
	}
}

func (w *world) breaks(s *server) {
	s.broken = w.now
	w.broken = append(w.broken, s)
	w.fallSilent(s)
}

// blip makes a kubelet stop reporting for less than the health timeout.
func (w *world) blip() {
	s := w.pick()
	if !w.works(s) {
		return
	}
	w.counts.blips++
	s.silent = w.now.Add(w.between(time.Second, 8*time.Minute))
	w.fallSilent(s)
	w.at(s.silent, func() { w.comeBack(s, time.Minute) })
}

// breakHost breaks all servers of a physical host, which never work again.
func (w *world) breakHost() {
	w.counts.hosts++
	host := w.pick().host
	for _, s := range w.all() {
		if s.host == host && s.broken.IsZero() {
			w.breaks(s)
		}
	}
}

// zoneOutage makes all kubelets of a zone stop reporting for a while. Afterwards the kubelets on working servers report
// again, one after the other.
func (w *world) zoneOutage() {
	zone := w.zones[w.random.IntN(len(w.zones))]
	w.counts.zones++
	if back := w.now.Add(w.between(15*time.Minute, 3*time.Hour)); back.After(zone.back) {
		zone.back = back
	}
	for _, s := range w.all() {
		if s.zone == zone {
			w.fallSilent(s)
		}
	}
	w.at(zone.back, func() {
		for _, s := range w.all() {
			if s.zone == zone {
				w.comeBack(s, 4*time.Minute)
			}
		}
	})
}

// all returns the servers that have a Machine.
func (w *world) all() []*server {
	all := make([]*server, len(w.api.machines.rows))
	for i := range w.api.machines.rows {
		all[i] = w.servers[w.api.machines.rows[i].UID]
	}
	return all
}

// apiOutage stops the API server for a while.
func (w *world) apiOutage() {
	w.counts.outages++
	if away := w.now.Add(w.between(time.Minute, 2*time.Hour)); away.After(w.away) {
		w.away = away
	}
}
