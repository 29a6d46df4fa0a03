package rollout

import (
	"fmt"
	"time"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// Snapshot is what was seen of a MachineDeployment. Nothing of it is changed.
type Snapshot struct {
	Deployment *v1alpha1.MachineDeployment
	// Brake is how many Machines of this deployment may be in replacement at once: new ones on their way and old ones
	// leaving. Nil is no limit but the strategy's own.
	Brake *int32
	// Bounds limit a size that is put back; the zero value when the deployment is no node group.
	Bounds v1alpha1.Bounds
	// Named are entries that spec.removals had in an earlier version, as far as they are remembered. Those that it lacks now
	// were dropped by a client that does not know the field.
	Named []v1alpha1.Removal
	// Sets are the sets that the deployment controls, in any order.
	Sets []SetState
	Now  time.Time
}

// SetState is a set and the Machines that it controls, those included that are deleting.
type SetState struct {
	Set      *v1alpha1.MachineSet
	Machines []*v1alpha1.Machine
	// Named are entries that spec.rolloutRemovals had in an earlier version, as far as they are remembered.
	Named []v1alpha1.Removal
}

// Plan is what is to be written, and why.
type Plan struct {
	// Replicas is the deployment's size. RestoreReplicas asks for writing it to spec.replicas, which a writer dropped.
	Replicas        int32
	RestoreReplicas bool
	// Create is the set to make, or nil.
	Create *v1alpha1.MachineSet
	// Changes are the sets to write, each with one conditional patch.
	Changes []SetChange
	// Delete are old sets without Machines that are beyond the history limit.
	Delete []*v1alpha1.MachineSet
	// WriteRemovals asks for replacing the deployment's spec.removals by Removals: entries are over, or a client dropped some
	// that are not.
	WriteRemovals bool
	Removals      []v1alpha1.Removal
	// PlaceholderSeries is to be written to spec.placeholderSeries, which a client dropped; nil leaves it alone.
	PlaceholderSeries *int32
	// Revision is the deployment's own revision annotation; empty leaves it alone.
	Revision string
	// Replacing counts the Machines in replacement once the plan is carried out. Held reports whether the brake held some back.
	Replacing int32
	Held      bool
	// Rolled names the Nodes of Machines that are being rolled: of an old template, while the rollout goes on.
	Rolled []string
	// Replacements names the Nodes, none of them rolled, that are there for the pods of Machines which still drain.
	Replacements []string
	// Leaving names the Nodes of Machines that leave. Their marks stay as they are: they go with the Nodes.
	Leaving []string
	// Status holds the fields that this controller owns; the others are zero.
	Status v1alpha1.MachineDeploymentStatus
	// Steps say what is done and why, for people.
	Steps []Step
	// RequeueAfter is when time alone changes the plan; 0 is never.
	RequeueAfter time.Duration
}

// SetChange is one write to a set: its size together with its share of the removals, and with the Machines that
// the rollout removes.
type SetChange struct {
	Set             *v1alpha1.MachineSet
	Replicas        int32
	Removals        []v1alpha1.Removal
	RolloutRemovals []v1alpha1.Removal
	MinReadySeconds int32
	// Annotations to put; an empty value removes the key.
	Annotations map[string]string
}

// Step is one decision of a plan.
type Step struct {
	// Set is the name of the set that it is about; empty when it is about the deployment.
	Set    string `json:"set,omitempty"`
	From   int32  `json:"from"`
	To     int32  `json:"to"`
	Reason string `json:"reason"`
}

func (s Step) String() string {
	if s.Set == "" {
		return s.Reason
	}
	return fmt.Sprintf("%s %d→%d: %s", s.Set, s.From, s.To, s.Reason)
}
