package world

import (
	"slices"
	"time"
)

// Disturbance is a way in which watches of one kind are in trouble.
type Disturbance struct {
	Name string
	// Rest is how much longer than usual a run may take with it.
	Rest time.Duration
	// Settle is how long after it was written the last change is shown at the latest.
	Settle time.Duration
	// reach is how long after its beginning a change must come to be concerned.
	reach time.Duration
	// others: it concerns all kinds but the one that it is about.
	others bool
	// lag returns how late a change of a kind is shown that is written so long after the trouble of the kind about began; nil: no
	// change is late.
	lag func(about, kind string, written time.Duration) time.Duration
	// strike, unless nil, is done to the watches of a kind that much time after the trouble began.
	strike func(w *World, kind string)
	after  time.Duration
}

const (
	// gap is how long an informer may be blind before its history is gone, and how long most other kinds are held back while one is
	// ahead of them. between is how much later the next of them comes.
	gap     = 30 * time.Second
	between = 2 * time.Second
	// again is how long an informer takes to watch again.
	again = 5 * time.Second
)

// lastKinds are the kinds that come last when another is ahead of them, in this order.
var lastKinds = []string{"nodes", "machines", "machinesets", "machinedeployments"}

// Disturbances returns all ways in which watches are in trouble.
func Disturbances() []Disturbance {
	return []Disturbance{
		late("late 1 s", time.Second),
		late("late 30 s", 30*time.Second),
		late("late 5 min", 5*time.Minute),
		{
			Name: "30 s behind for good", Rest: 15 * time.Minute, Settle: gap, reach: time.Hour,
			lag: only(func(time.Duration) time.Duration { return gap }),
		},
		{Name: "cut", Rest: again, Settle: again, reach: again, strike: func(w *World, kind string) { w.Kube.CutWatches(kind) }},
		{
			Name: "listed again after 30 s", Rest: gap + again, Settle: gap + again, reach: gap, after: gap,
			lag:    only(func(written time.Duration) time.Duration { return gap + time.Second - written }),
			strike: func(w *World, kind string) { w.Kube.Forget(kind) },
		},
		{Name: "30 s ahead of the others", Rest: 2 * gap, Settle: 2 * gap, reach: gap, others: true, lag: ahead},
	}
}

// late holds the changes of a kind back for so long: all that come in that time are shown at its end.
func late(name string, d time.Duration) Disturbance {
	return Disturbance{
		Name: name, Rest: d, Settle: d, reach: d,
		lag: only(func(written time.Duration) time.Duration { return d - written }),
	}
}

// only makes changes of the kind late that the trouble is about.
func only(lag func(written time.Duration) time.Duration) func(about, kind string, written time.Duration) time.Duration {
	return func(about, kind string, written time.Duration) time.Duration {
		if kind != about {
			return 0
		}
		return lag(written)
	}
}

// ahead makes the changes of all other kinds late, which come one kind after the other.
func ahead(about, kind string, written time.Duration) time.Duration {
	if kind == about {
		return 0
	}
	place := 1 + slices.Index(lastKinds, kind)
	return gap + time.Duration(place)*between - written
}

// Concerns reports whether a trouble of a kind that begins with the first of these changes meets any that is watched.
func (d *Disturbance) Concerns(kind string, steps []Step, watched []string) bool {
	for _, s := range steps {
		if s.At.Sub(steps[0].At) > d.reach {
			return false
		}
		if (s.Resource == kind) != d.others && slices.Contains(watched, s.Resource) {
			return true
		}
	}
	return false
}
