package orphans

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/types"
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
	// unstored reports whether an end was observed since the collector stored the ends.
	unstored atomic.Bool
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
	e.unstored.Store(true)
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
		e.all = newest(e.all, nil, mostEnds-mostEnds/10)
	}
}

// forget forgets the ends that a round found to be over. An end of the same Machine that was observed since the round judged them stays.
func (e *ends) forget(over []types.UID, judged verdict.Ends) {
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

// newest returns n of the ends: first the latest of those of Machines that have something left.
func newest(all verdict.Ends, left map[types.UID]bool, n int) verdict.Ends {
	for _, end := range slices.SortedFunc(maps.Values(all), func(a, b verdict.End) int {
		if left[a.UID] != left[b.UID] {
			return map[bool]int{true: 1, false: -1}[left[b.UID]]
		}
		return cmp.Or(b.Time.Compare(a.Time), cmp.Compare(a.UID, b.UID))
	})[min(n, len(all)):] {
		delete(all, end.UID)
	}
	return all
}
