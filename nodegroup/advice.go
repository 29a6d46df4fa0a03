package nodegroup

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// advice is something that people should know of a group's object: an Event's reason and its text.
type advice struct{ reason, text string }

const (
	// reasonOptions: the group's options cannot be used as they are, or cost something.
	reasonOptions = "AutoscalingOptions"
	// reasonBeyond: the size is outside of the bounds.
	reasonBeyond = "SizeOutOfBounds"
)

// advise tells people once of what is wrong with a group. What follows from its object is told by the replica that leads,
// so that it is told once however many there are; what an autoscaler has said, by the replica that it said it to.
func (g *Groups) advise() {
	next := map[types.UID]map[advice]bool{}
	for _, grp := range g.view.Load().snapshot.groups {
		if grp.refusal != "" {
			continue
		}
		uid := grp.owner.GetUID()
		next[uid] = map[advice]bool{}
		for _, a := range g.adviceOn(grp) {
			if !g.advised[uid][a] {
				g.recorder.Eventf(grp.owner.Object, nil, corev1.EventTypeWarning, a.reason, "Configure", "%s", a.text)
			}
			next[uid][a] = true
		}
	}
	g.advised = next
}

// leads tells whether this replica leads, or is the only one.
func (g *Groups) leads() bool {
	if g.options.Elected == nil {
		return true
	}
	select {
	case <-g.options.Elected:
		return true
	default:
		return false
	}
}

func (g *Groups) adviceOn(grp *group) (list []advice) {
	if g.leads() {
		for _, problem := range grp.options.problems {
			list = append(list, advice{reasonOptions, problem})
		}
		if grp.target < grp.min || grp.target > grp.max {
			list = append(list, advice{reasonBeyond, fmt.Sprintf(
				"the size is %d, and its bounds are %d and %d: it stays as it is until somebody changes it; the autoscaler goes no further out, and comes back when pods need more or nodes are empty", grp.target, grp.min, grp.max)})
		}
	}
	if provision := time.Duration(g.provision.Load()); provision > 0 && provision < g.options.JoinTimeout+repairTime {
		list = append(list, advice{reasonOptions, fmt.Sprintf(
			"the autoscaler waits %s for a node (--max-node-provision-time): it should be at least %s, so that drover replaces a server that does not join before the autoscaler gives the order up", provision, g.options.JoinTimeout+repairTime)})
	}
	return list
}
