package world

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"
)

// Disturbance is a way in which the watches of one kind fail.
type Disturbance struct {
	// Name describes, in a sentence about the watch, how it fails.
	Name string
	// Rest is how much longer than usual a run with this disturbance may take.
	Rest time.Duration
	// Settle is the longest delay between the write of a change and the delivery of its event.
	Settle time.Duration
	// reach is how long the disturbance lasts. It affects only changes that are written during this time.
	reach time.Duration
	// others is true when the disturbance affects all kinds of objects except the kind that is chosen for it.
	others bool
	// lag returns the delay of the event of a change. Nil means that no event is late. about is the kind that is chosen for the
	// disturbance, kind is the kind of the changed object, and written is the time from the beginning of the disturbance to the
	// change.
	lag func(about, kind string, written time.Duration) time.Duration
	// disturb is called when the time in after has passed since the beginning of the disturbance. kind is the kind that is chosen
	// for the disturbance. Nil means that no function is called.
	disturb func(w *World, kind string)
	after   time.Duration
}

const (
	// gap is how long a watch is interrupted before its history is lost. When the events of one kind are delivered first, gap is
	// also the delay of the events of all other kinds. The kinds in lastKinds come one after the other, and between is the
	// additional delay of each.
	gap     = 30 * time.Second
	between = 2 * time.Second
	// again is how long an informer takes to start a watch again after the watch has ended.
	again = 5 * time.Second
)

// lastKinds are the kinds whose events are delivered last, in this order, when a disturbance delivers the events of another kind
// first.
var lastKinds = []string{"nodes", "machines", "machinesets", "machinedeployments"}

// Disturbances returns all ways in which watches fail.
func Disturbances() []Disturbance {
	return []Disturbance{
		late(time.Second),
		late(30 * time.Second),
		late(5 * time.Minute),
		{
			Name: "delivers each of its events 30 s late until the run ends", Rest: 15 * time.Minute, Settle: gap, reach: time.Hour,
			lag: only(func(time.Duration) time.Duration { return gap }),
		},
		{Name: "loses its connection", Rest: again, Settle: again, reach: again, disturb: func(w *World, kind string) { w.Kube.CutWatches(kind) }},
		{
			Name: "delivers nothing for 30 s, and its history is lost", Rest: gap + again, Settle: gap + again, reach: gap, after: gap,
			lag:     only(func(written time.Duration) time.Duration { return gap + time.Second - written }),
			disturb: func(w *World, kind string) { w.Kube.Forget(kind) },
		},
		{Name: "delivers its events at once, and the watches of all other kinds deliver nothing for at least 30 s", Rest: 2 * gap, Settle: 2 * gap, reach: gap, others: true, lag: ahead},
	}
}

// late returns a disturbance that lasts for d and delivers all its events at its end.
func late(d time.Duration) Disturbance {
	return Disturbance{
		Name: "delivers its next events together after " + duration.HumanDuration(d), Rest: d, Settle: d, reach: d,
		lag: only(func(written time.Duration) time.Duration { return d - written }),
	}
}

// only returns a function for the delay of an event: the result of lag for events of the kind about, and no delay for other
// kinds.
func only(lag func(written time.Duration) time.Duration) func(about, kind string, written time.Duration) time.Duration {
	return func(about, kind string, written time.Duration) time.Duration {
		if kind != about {
			return 0
		}
		return lag(written)
	}
}

// ahead returns the delay of an event. Events of the kind about have no delay. Those of the other kinds are delivered later, one
// kind after the other.
func ahead(about, kind string, written time.Duration) time.Duration {
	if kind == about {
		return 0
	}
	place := 1 + slices.Index(lastKinds, kind)
	return gap + time.Duration(place)*between - written
}

// Concerns reports whether the disturbance, if it is chosen for the kind and begins with the first step, affects a step that
// drover watches. watched holds the kinds that drover watches.
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
