package scope

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
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
	return s.Memory.addedTo == node && s.Memory.additions[mark].contested(s.Now())
}

// Added records that the marks were added to the Node with the given UID.
func (s *Scope) Added(node types.UID, marks []string) {
	mem, now := s.Memory, s.Now()
	if mem.additions == nil || mem.addedTo != node {
		mem.additions, mem.addedTo = map[string]additions{}, node
	}
	for _, mark := range marks {
		a := mem.additions[mark]
		if a.count < mostAdditions && now.Sub(a.last) > contestWindow {
			a.count = 0
		}
		mem.additions[mark] = additions{min(a.count+1, mostAdditions), now}
	}
}
