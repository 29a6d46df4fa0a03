package orphans

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/safety/orphans/verdict"
)

// mostEnds is how many ends of Machines a process remembers. Of more, it forgets the oldest.
const mostEnds = 10_000

// ends are the ends of Machines that this process knows. Every replica observes them, because every replica may become the leader.
type ends struct {
	provider cloud.Provider
	clock    clock.PassiveClock
	mu       sync.Mutex
	all      verdict.Ends
	// observed has a value when an end was observed since the last receive.
	observed chan struct{}
}

func newEnds(p cloud.Provider, c clock.PassiveClock) *ends {
	return &ends{provider: p, clock: c, all: verdict.Ends{}, observed: make(chan struct{}, 1)}
}

// handler returns the handler of the events of an informer of Machines.
func (e *ends) handler() toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerFuncs{AddFunc: e.exists, DeleteFunc: e.observe}
}

// exists forgets the end of a Machine that exists again, as after a restore of etcd.
func (e *ends) exists(o any) {
	if m, ok := o.(*v1alpha1.Machine); ok {
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(e.all, m.UID)
	}
}

// observe records the end of a Machine whose deletion the API server has reported. When the watch was interrupted, the informer passes
// another type, which means only that the Machine is missing now: it is missing after a restore of etcd, too.
func (e *ends) observe(o any) {
	m, ok := o.(*v1alpha1.Machine)
	if !ok {
		return
	}
	end := verdict.End{UID: m.UID, Place: e.provider.Remembered(m).Place, Time: e.clock.Now().UTC()}
	if end.Ordered = end.Time; m.DeletionTimestamp != nil && m.DeletionTimestamp.Time.Before(end.Time) {
		end.Ordered = m.DeletionTimestamp.UTC()
	}
	e.add(verdict.Ends{m.UID: end})
	e.signal()
}

// signal makes the collector store the ends that it has observed.
func (e *ends) signal() {
	select {
	case e.observed <- struct{}{}:
	default:
	}
}

// unsignal takes the signal back: a round stores the ends, too.
func (e *ends) unsignal() {
	select {
	case <-e.observed:
	default:
	}
}

// add adds ends. Of two ends of a Machine the one that a person has confirmed counts, otherwise the later one.
func (e *ends) add(more verdict.Ends) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for uid, end := range more {
		if known, ok := e.all[uid]; !ok || end.Confirmed && !known.Confirmed || end.Confirmed == known.Confirmed && end.Time.After(known.Time) {
			e.all[uid] = end
		}
	}
	if len(e.all) > mostEnds {
		// More than one end is forgotten, so that this is not done for each new one.
		e.all = newest(e.all, mostEnds-mostEnds/10)
	}
}

// forget forgets those of the ends that a round has judged that are over. An end that was observed since stays.
func (e *ends) forget(judged verdict.Ends, over []types.UID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, uid := range over {
		if e.all[uid] == judged[uid] {
			delete(e.all, uid)
		}
	}
}

// known returns a copy of the ends.
func (e *ends) known() verdict.Ends {
	e.mu.Lock()
	defer e.mu.Unlock()
	return maps.Clone(e.all)
}

// sorted returns ends, with the latest first.
func sorted(all verdict.Ends) []verdict.End {
	return slices.SortedFunc(maps.Values(all), func(a, b verdict.End) int {
		return cmp.Or(b.Time.Compare(a.Time), cmp.Compare(a.UID, b.UID))
	})
}

// newest returns the latest ends, at most n.
func newest(all verdict.Ends, n int) verdict.Ends {
	some := verdict.Ends{}
	for _, end := range sorted(all)[:min(n, len(all))] {
		some[end.UID] = end
	}
	return some
}
