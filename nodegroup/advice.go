package nodegroup

import (
	"fmt"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"

	"github.com/drover-project/drover/nodegroup/model"
)

// warning is the reason and the text of an Event that warns users about a group's object.
type warning struct{ reason, text string }

const (
	// reasonOptions is the Event reason for a warning about a group's autoscaling options, such as one that drover ignores.
	reasonOptions = "AutoscalingOptions"
	// reasonBeyond is the Event reason for a size outside the bounds.
	reasonBeyond = "SizeOutOfBounds"
	// reasonJoins is the Event reason for a maximum that is lowered because new servers do not become nodes.
	reasonJoins = "JoinsKeepFailing"
)

// advisor records Events with warnings.
type advisor struct {
	recorder events.EventRecorder
	// elected is closed once this replica leads. nil means that this replica is the only one.
	elected <-chan struct{}
	join    time.Duration
	// provision is how long an autoscaler waits for a node, in nanoseconds. 0 means that no autoscaler has sent it yet.
	provision atomic.Int64
	// recorded holds the warnings that applied at the last call of advise, by UID of the object. Only advise reads and writes it.
	recorded map[types.UID]map[warning]bool
}

// advise records each warning once. Only the leading replica records warnings about an object, so that there is one Event however
// many replicas run. Only the replica that the autoscaler has called knows the autoscaler's settings, so this replica records the
// warnings about them. advise must not be called concurrently.
func (a *advisor) advise(s *model.Snapshot) {
	next := map[types.UID]map[warning]bool{}
	for _, g := range s.Groups {
		if g.Refusal != "" {
			continue
		}
		uid := g.Owner.GetUID()
		next[uid] = map[warning]bool{}
		for _, w := range a.warnings(g) {
			if !a.recorded[uid][w] {
				a.recorder.Eventf(g.Owner.Object, nil, corev1.EventTypeWarning, w.reason, "Configure", "%s", w.text)
			}
			next[uid][w] = true
		}
	}
	a.recorded = next
}

// leads reports whether this replica leads, or is the only one.
func (a *advisor) leads() bool {
	if a.elected == nil {
		return true
	}
	select {
	case <-a.elected:
		return true
	default:
		return false
	}
}

func (a *advisor) warnings(g *model.Group) (list []warning) {
	if a.leads() {
		for _, problem := range g.Options.Problems {
			list = append(list, warning{reasonOptions, problem})
		}
		if g.Target < g.Min || g.Target > g.Max {
			list = append(list, warning{reasonBeyond, fmt.Sprintf(
				"the size %d is outside the bounds %d and %d: it stays as it is until a user changes it; the autoscaler moves the size no further out, and brings it back when pods need more nodes or nodes are empty", g.Target, g.Min, g.Max)})
		}
		if g.Most < g.Max {
			list = append(list, warning{reasonJoins, "new servers of the group do not become nodes: until they do, the autoscaler can order at most one node more than have joined, and orders nodes of other groups instead; the conditions of the Machines name the cause"})
		}
	}
	if provision := time.Duration(a.provision.Load()); provision > 0 && provision < a.join+model.RepairTime {
		list = append(list, warning{reasonOptions, fmt.Sprintf(
			"the autoscaler waits %s for a node (--max-node-provision-time): it should be at least %s, so that drover can replace a server that does not join before the autoscaler abandons the scale-up", provision, a.join+model.RepairTime)})
	}
	return list
}
