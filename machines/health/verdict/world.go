package verdict

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// World is a snapshot of all Machines that drover manages, and of their Nodes.
type World struct {
	Now time.Time
	// Began is when the snapshots became trustworthy: when this process acquired the lease, or when the API servers could be
	// reached again. No problem of a Machine counts from an earlier time.
	Began time.Time
	// Stale is why the snapshot may be out of date. While Stale is not empty, nothing is decided.
	Stale    string
	Settings Settings
	Machines []Machine
	// Missing is how many Machines of earlier snapshots this snapshot lacks, see [Known].
	Missing int
	Groups  []*Group
	// Host returns the physical host of a Machine's server, as the cloud last showed it; empty when the host is not known. A
	// nil Host means that no host is known.
	Host func(*v1alpha1.Machine) string
}

// hostOf returns the physical host of a Machine's server; empty when the host is not known.
func (w *World) hostOf(m *Machine) string {
	if w.Host == nil {
		return ""
	}
	return w.Host(m.Machine)
}

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
	// MaxUnhealthy is how many percent of the Machines of a group, of a zone or of the cluster may be unhealthy. While more are
	// unhealthy, none of these Machines is replaced.
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
	// Noticed is when this process first saw that the Machine is unhealthy; zero means that it has not seen this before. Times
	// in a Node's conditions come from the clock of that Node, which may be wrong.
	Noticed time.Time
	// Starting is since when this process has seen that the Machine's Node is starting ([IsStarting]); zero when it is not.
	Starting time.Time
	// Held is the last time at which this process did not replace the Machine because too many Machines were unhealthy; zero
	// means never.
	Held time.Time
	// Refused is when this process may repeat a deletion that the API server has refused; zero means that no deletion was
	// refused.
	Refused time.Time
}

// Group is a MachineDeployment, or a MachineSet without a deployment.
type Group struct {
	Kind, Namespace, Name string
	UID                   types.UID
	Annotations           map[string]string
	// Size is the desired number of Machines.
	Size int
	// Replacements are the entries of status.healthReplacements.
	Replacements []v1alpha1.HealthReplacement
}

func (g *Group) String() string { return g.Kind + " " + g.Namespace + "/" + g.Name }

// Plan is the decision about a snapshot.
type Plan struct {
	// Replace are the Machines to replace now, the most urgent first. Their replacements are also in the plans of their
	// groups, see Groups.
	Replace []*Verdict
	// Verdicts are the verdicts on all Machines that are unhealthy or whose replacement is requested, including those in
	// Replace, and on all Machines whose condition Healthy must change.
	Verdicts []*Verdict
	// Groups are the plans for the groups with an unhealthy Machine, with a requested replacement, or with a replacement
	// recorded in their status.
	Groups []GroupPlan
	// Unhealthy is the number of unhealthy Machines.
	Unhealthy int
	// NextLook is when the plan may change although no object changes; zero means never.
	NextLook time.Time
}

// GroupPlan is what must be stored in the status of a group.
type GroupPlan struct {
	*Group
	// Replacements are the earlier replacements that are still recorded, and those of the Machines in [Plan.Replace].
	Replacements []v1alpha1.HealthReplacement
	// Held is the brake that applies when none of the group's unhealthy Machines is replaced. It is empty when no Machine is
	// unhealthy, or when brakes apply only to single Machines.
	Held Brake
	// Message explains Held.
	Message string
}

// Verdict is the decision about one Machine.
type Verdict struct {
	Machine *Machine
	Finding
	// Due is when the Machine may be replaced for being unhealthy; zero means never.
	Due time.Time
	// Overdue reports whether the Machine has been unhealthy for its timeout. It is false when the Machine has no timeout.
	Overdue bool
	// Brake is the reason why the Machine is not replaced, or will not be replaced when it is due; empty when there is no
	// such reason.
	Brake Brake
	// Condition is the new condition Healthy of the Machine. nil means that the condition does not change.
	Condition *Condition

	host string
	// attempt is one more than the latest attempt in the group that began before the Machine was created; 1 when there was none.
	attempt int32
}

// Condition is a value of condition Healthy.
type Condition struct {
	Status          corev1.ConditionStatus
	Reason, Message string
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
	// brakeMachinesMissing means that too many Machines of the cluster are missing.
	brakeMachinesMissing Brake = "TooManyMachinesMissing"
	// brakeNodesMissing means that too many Nodes of the cluster are missing.
	brakeNodesMissing Brake = "TooManyNodesMissing"
	// brakeCluster, brakeZone and brakeGroup mean that too many Machines of the cluster, the zone or the group are unhealthy.
	brakeCluster Brake = "ClusterUnhealthy"
	brakeZone    Brake = "ZoneUnhealthy"
	brakeGroup   Brake = "GroupUnhealthy"
	// brakeReplacing means that the group already has its maximum number of simultaneous replacements.
	brakeReplacing Brake = "OthersBeingReplaced"
	// brakeRefused means that the API server has refused the deletion. The deletion is repeated later.
	brakeRefused Brake = "DeletionRefused"
)

// OfMany reports whether the brake applies because too many Machines are unhealthy, or because too many Machines or Nodes are
// missing at the same time.
func (b Brake) OfMany() bool {
	return b == brakeMachinesMissing || b == brakeNodesMissing || b == brakeCluster || b == brakeZone || b == brakeGroup
}

// Brakes lists all values of the type Brake.
var Brakes = []Brake{
	brakeNoOwner, brakeOptedOut, brakeSwitchedOff, brakeRollout, brakeMachinesMissing, brakeNodesMissing, brakeCluster, brakeZone, brakeGroup,
	brakeReplacing, brakeRefused,
}
