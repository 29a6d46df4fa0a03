package rollout

import (
	"fmt"
	"time"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// Snapshot is what was observed of a MachineDeployment. Compute does not change it.
type Snapshot struct {
	Deployment *v1alpha1.MachineDeployment
	// ReplacementLimit is how many Machines of this deployment may be in replacement at the same time: new Machines that are not available
	// yet, and old Machines that are leaving. Nil means that only the strategy limits replacements.
	ReplacementLimit *int32 `json:"Brake"`
	// Bounds limits a size that drover restores after a client's write has removed spec.replicas. It is the zero value when the deployment
	// is not a node group.
	Bounds v1alpha1.Bounds
	// Named holds the entries of earlier versions of spec.removals that drover still remembers. When spec.removals lacks some of these
	// entries now, the write of a client that does not know the field has removed them.
	Named []v1alpha1.Removal
	// Seen is the last spec.replicas that drover remembers; nil when it remembers none, for example after a restart.
	Seen *int32
	// Sets holds the sets that the deployment controls, in any order.
	Sets []SetState
	// Lost holds the sets that were made for the deployment and do not belong to it any more.
	Lost []LostSet
	Now  time.Time
}

// SetState is a set and the Machines that it controls, including those that are being deleted.
type SetState struct {
	Set      *v1alpha1.MachineSet
	Machines []*v1alpha1.Machine
	// Named holds the entries of earlier versions of spec.rolloutRemovals that drover still remembers.
	Named []v1alpha1.Removal
}

// Plan holds what has to be written, and why.
type Plan struct {
	// Replicas is the size of the deployment. RestoreReplicas is true when it must be written to spec.replicas, because a client's write
	// has removed it.
	Replicas        int32
	RestoreReplicas bool
	// Create is the set to create, or nil. Instead holds the sets that were made for the same template and have another one, and that Create
	// is to replace: Create is needed only if the API server shows the same versions of them.
	Create  *v1alpha1.MachineSet
	Instead []*v1alpha1.MachineSet
	// Restore is the set whose template another client has changed, with the template to write back; nil when there is none. The caller
	// writes it before anything else of the plan.
	Restore *TemplateChange
	// Changes lists the sets to write, each with one conditional patch.
	Changes []SetChange
	// Delete lists old sets without Machines that are beyond the history limit.
	Delete []*v1alpha1.MachineSet
	// WriteRemovals is true when Removals must replace the deployment's spec.removals, because entries have been carried out or a client's
	// write has removed some.
	WriteRemovals bool
	Removals      []v1alpha1.Removal
	// PlaceholderSeries is the value to write to spec.placeholderSeries, because a client's write has removed the field. Nil means no
	// change.
	PlaceholderSeries *int32
	// Warning describes what the API server has changed in the template of the current set. Empty means nothing.
	Warning string
	// Revision is the new revision annotation of the deployment. Empty means no change.
	Revision string
	// Replacing counts the Machines in replacement once the plan is carried out. Limited is true when ReplacementLimit stopped some
	// replacements.
	Replacing int32
	Limited   bool
	// Rolled names the Nodes of Machines of an old template, while the rollout continues.
	Rolled []string
	// Replacements names the Nodes that wait for the pods of draining Machines. None of these Nodes is also in Rolled.
	Replacements []string
	// Leaving names the Nodes of Machines that are leaving. The deployment controller keeps its taints and annotations on these Nodes until
	// the Nodes are deleted.
	Leaving []string
	// Status holds the fields of the status that the deployment controller writes; its other fields are zero.
	Status v1alpha1.MachineDeploymentStatus
	// Steps lists what is done and why, for operators.
	Steps []Step
	// RequeueAfter is the time after which the plan may change without an event; 0 means never.
	RequeueAfter time.Duration
}

// SetChange is one write to a set: its size, its share of the removals, and the Machines that the rollout removes.
type SetChange struct {
	Set             *v1alpha1.MachineSet
	Replicas        int32
	Removals        []v1alpha1.Removal
	RolloutRemovals []v1alpha1.Removal
	MinReadySeconds int32
	// Annotations holds the annotations that change. An empty value removes the key.
	Annotations map[string]string
	// Found is the size that another client has written, and that this change sets back; nil when there is none.
	Found *int32
}

// TemplateChange is a set whose template is to be replaced.
type TemplateChange struct {
	Set      *v1alpha1.MachineSet
	Template *v1alpha1.MachineTemplateSpec
}

// Step is one decision of a plan.
type Step struct {
	// Set is the name of the set; empty for a decision about the deployment.
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
