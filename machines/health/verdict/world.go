package verdict

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// World is a snapshot of all Machines that drover manages, and of their Nodes.
type World struct {
	Now time.Time
	// Began is when the snapshots became trustworthy: when this process acquired the lease, or when the API servers could be
	// reached again. No problem of a Machine counts from an earlier time.
	Began    time.Time
	Settings Settings
	Machines []Machine
	Groups   []*Group
	// Seen is the Seen of the plan for the previous snapshot; empty for the first snapshot of a process.
	Seen Seen
}

// Seen is since when this process has seen Machines that are starting, and Machines that are unhealthy, and when it last asked for the
// deletion of a Machine. Times in a Node's conditions come from the clock of that Node, which may be wrong.
type Seen map[sighting]time.Time

// sighting is what was seen of a Machine.
type sighting struct {
	machine types.UID
	state   state
}

type state int

const (
	unhealthy state = iota
	starting
	asked
)

// Settings apply where no annotation overrides them.
type Settings struct {
	// Timeout is how long a Machine may be unhealthy before it is replaced. 0 means that it is never replaced for being
	// unhealthy.
	Timeout time.Duration
	// StartTimeout is how long a Node that has registered may take to complete its first start before its Machine counts as
	// unhealthy. 0 means without a limit.
	StartTimeout time.Duration
	// MaxReplacing is how many Machines of a group may be replaced at the same time: a number, or a percentage of the group's
	// size, rounded up. At least one may always be replaced.
	MaxReplacing intstr.IntOrString
	// MaxUnhealthy is how many percent of the Machines of a group or of the cluster may be unhealthy. While more are unhealthy,
	// none of these Machines is replaced.
	MaxUnhealthy int
	// Conditions are the conditions of a Node that must be False or absent. In addition, Ready must be True.
	Conditions []corev1.NodeConditionType
	// Join is how long a server may take to become a Node.
	Join time.Duration
}

// Machine is one Machine of the snapshot.
type Machine struct {
	*v1alpha1.Machine
	// Node is the Node that status.nodeRef names; nil when the snapshot has no Node with that name.
	Node *corev1.Node
	// Group is the MachineDeployment, or the set without a deployment, that would create a successor; nil when nothing would
	// create one.
	Group *Group
	// Aside reports whether the Machine is ignored and not counted, because a list of removals names it, or because its set or
	// deployment is paused or being deleted.
	Aside bool
	// Outdated reports whether a rollout is replacing the Machines of this Machine's set.
	Outdated bool
}

// Group is a MachineDeployment, or a MachineSet without a deployment.
type Group struct {
	metav1.Object
	Kind string
	// Size is the desired number of Machines.
	Size int
	// Wanted is the sum of the sizes of those of its sets whose Machines no rollout is replacing; 0 for a set without a deployment. It exceeds
	// Size by the surge of a rollout that stands still.
	Wanted int
	// Replacements are the entries of status.healthReplacements. Held is condition RepairHeld of the status; nil when it has none.
	Replacements []v1alpha1.HealthReplacement
	Held         *metav1.Condition
}

func (g *Group) String() string { return g.Kind + " " + g.GetNamespace() + "/" + g.GetName() }

// Plan is the decision about a snapshot.
type Plan struct {
	// Verdicts are the verdicts on all Machines that are unhealthy or whose replacement is requested, and on all Machines
	// whose condition Healthy must change.
	Verdicts []*Verdict
	// Groups are the plans for the groups with an unhealthy Machine or a requested replacement, and for those whose status
	// shows replacements or a brake.
	Groups []GroupPlan
	// Unhealthy is the number of unhealthy Machines, Replacing that of the replacements that have begun or begin now, and have not
	// ended.
	Unhealthy, Replacing int
	// NextLook is when the plan may change although no object changes; zero means never.
	NextLook time.Time
	// Seen must be passed on to the next snapshot.
	Seen Seen
}

// GroupPlan is the decision about a group.
type GroupPlan struct {
	*Group
	// Replace are the Machines to replace now, the most urgent first.
	Replace []*Verdict
	// Replacements and Held are what the status of the group must show. Replacements has no new entries for the Machines in
	// Replace: see [GroupPlan.Record]. Held shows the brake that applies because too many Machines are unhealthy.
	Replacements []v1alpha1.HealthReplacement
	Held         *metav1.Condition
}

// Verdict is the decision about one Machine.
type Verdict struct {
	Machine *Machine
	Finding
	// Due is when the Machine may be replaced; zero means never.
	Due time.Time
	// Brake is the reason why the Machine is not replaced, or will not be replaced when it is due; empty when there is no
	// such reason.
	Brake Brake
	// Condition is the new condition Healthy of the Machine, without times. nil means that the condition does not change.
	Condition *v1alpha1.MachineCondition

	// attempt is one more than the latest attempt in the group that began before the Machine was created; 1 when there was none.
	attempt int32
	// began is when the replacement of the Machine began; zero when none is recorded that still counts. rank orders the Machines of a
	// group that are due, the lowest first.
	began time.Time
	rank  int
}

// Brake is a reason not to replace a Machine.
type Brake string

// The brakes.
const (
	// brakeNoOwner means that no set would create a successor.
	brakeNoOwner Brake = "NoOwner"
	// brakeOptedOut means that an annotation forbids the replacement of the Machine.
	brakeOptedOut Brake = "OptedOut"
	// brakeSwitchedOff means that the timeout is 0 or never.
	brakeSwitchedOff Brake = "SwitchedOff"
	// brakeRollout means that the rollout of the Machine's deployment replaces the Machine.
	brakeRollout Brake = "LeftToRollout"
	// brakeCluster and brakeGroup mean that too many Machines of the cluster or the group are unhealthy.
	brakeCluster Brake = "ClusterUnhealthy"
	brakeGroup   Brake = "GroupUnhealthy"
	// brakeReplacing means that the group already has its maximum number of simultaneous replacements.
	brakeReplacing Brake = "OthersBeingReplaced"
	// brakeRefused means that the API server has refused the deletion. The deletion is repeated.
	brakeRefused Brake = "DeletionRefused"
)

// Brakes lists all values of the type Brake.
var Brakes = []Brake{brakeNoOwner, brakeOptedOut, brakeSwitchedOff, brakeRollout, brakeCluster, brakeGroup, brakeReplacing, brakeRefused}
