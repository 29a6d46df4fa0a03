package scope

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// When this process has added a label, an annotation or a taint to a Node mostAdditions times, each within contestWindow of the time
// before, another program removes it. From then on it is added once in contestPause.
const (
	mostAdditions = 3
	contestWindow = 10 * time.Minute
	contestPause  = time.Hour
)

// additions are the recent additions of one label, annotation or taint to a Node.
type additions struct {
	count int
	last  time.Time
}

// contested reports whether another program keeps removing a label, an annotation or a taint, so that it must not be added now.
func (a additions) contested(now time.Time) bool {
	return a.count >= mostAdditions && now.Sub(a.last) < contestPause
}

// Contested reports whether another program keeps removing what mark names from the Node with the given UID, so that it must not be added
// now. It is known to this process only, so a new leader tries again.
func (s *Scope) Contested(node types.UID, mark string) bool {
	mem := s.store.memory
	mem.mu.Lock()
	defer mem.mu.Unlock()
	return mem.additionsTo(s.Machine, node)[mark].contested(s.Now())
}

// Added records that the marks were added to the Node with the given UID.
func (s *Scope) Added(node types.UID, marks []string) {
	mem, now := s.store.memory, s.Now()
	mem.mu.Lock()
	defer mem.mu.Unlock()
	all := mem.additionsTo(s.Machine, node)
	for _, mark := range marks {
		a := all[mark]
		if a.count < mostAdditions && now.Sub(a.last) > contestWindow {
			a.count = 0
		}
		all[mark] = additions{min(a.count+1, mostAdditions), now}
	}
}

// additionsTo returns the additions to a Machine's Node; none when the Node is another one than before. The caller must hold mu.
func (mem *memory) additionsTo(m *v1alpha1.Machine, node types.UID) map[string]additions {
	e := mem.stateOf(m)
	if e.additions == nil || e.addedTo != node {
		e.additions, e.addedTo = map[string]additions{}, node
	}
	return e.additions
}
