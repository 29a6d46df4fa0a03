package set

import (
	"time"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/rollout"
)

// Foresee returns what the controller would do with a set and the Machines that it controls: how many it would create, and which it would
// delete. It changes nothing. For a set of a deployment, this is after the deployment has confirmed the set's size and template. It returns
// an error when the set is invalid; the controller would then do nothing.
func Foresee(set *v1alpha1.MachineSet, machines []*v1alpha1.Machine, now time.Time) (create int, remove []*v1alpha1.Machine, err error) {
	if !set.DeletionTimestamp.IsZero() || v1alpha1.Paused(set.Annotations) {
		return 0, nil, nil
	}
	if _, err := check(set); err != nil {
		return 0, nil, err
	}
	set = set.DeepCopy()
	delete(set.Annotations, v1alpha1.AnnotationDecided) // the deployment confirms the stored size
	if err := rollout.Decide(set); err != nil {
		return 0, nil, err
	}
	d := decide(observe(set, machines, set.Spec.Removals, unconfirmed{}, now))
	return d.create, d.remove, nil
}

// ForeseeMachine returns the next Machine that the controller would create for a set, with an arbitrary name. It creates nothing.
func ForeseeMachine(set *v1alpha1.MachineSet) *v1alpha1.Machine { return newMachine(set, "next") }
