package lifecycle

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/backoff"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
)

// Facts are the input of [Next], grouped by how long they are valid.
type Facts struct {
	*Observed
	*Policy
	*Progress
}

// Observed are the facts that are read at the start of a reconcile: the Machine, its server and its Node. A step that writes the
// Machine or the Node updates these facts.
type Observed struct {
	Paused, Deleting, Initializing, Force bool
	// OtherController reports whether the Machine belongs to another controller.
	OtherController bool
	// Finalizers reports whether the Machine has all finalizers that it must have before anything is created for it.
	// AnyFinalizer reports whether it has at least one of the finalizers that drover removes.
	Finalizers, AnyFinalizer        bool
	ServerFinalizer, CloudFinalizer bool
	// Owned reports whether a MachineSet of drover's API group controls the Machine and would replace it.
	Owned bool
	// Named reports whether spec.providerID names a server. HadServer reports whether the Machine records that a server was
	// created. Placed reports whether its status records the project and region of its resources.
	Named, HadServer, Placed bool
	// Joined reports whether status.nodeRef names a Node.
	Joined bool

	// CloudErr is the reason why the cloud provides no facts; Cloud is then empty. SpecUnreadable reports whether the only reason
	// is that the Machine's spec cannot be read.
	CloudErr       *fault.Error
	SpecUnreadable bool
	Cloud          cloud.Facts
	// Mismatched reports whether spec.providerID names a server that is not the Machine's own and that is gone.
	Mismatched bool

	// Node is the Machine's Node; nil when the Machine has no Node. Taken explains why a Node with the expected name or
	// server is not the Machine's.
	Node  *corev1.Node
	Taken string
	// Reregistered reports whether the Node was created again since it joined.
	Reregistered bool
	// StartRecorded reports whether the Machine's status records that the first start of the Node is complete.
	StartRecorded bool
	// StartFailed reports whether the Machine records that the server could not be started after it was shut down.
	StartFailed bool
}

// Policy are the facts that follow from the observed facts together with the clock, the settings, the lease and other Machines.
type Policy struct {
	Timeouts Timeouts
	// LeaseOld reports whether the lease was not renewed in time, so that another process may be the leader. It is updated before
	// each step.
	LeaseOld bool
	// Stale is why the observed facts may be out of date: an API server does not answer, or has only just begun to answer again.
	// It is empty while the API servers answer, and is updated together with LeaseOld.
	Stale string
	// BackingOff reports whether the Machine waits after a failure of its own. Permission is the decision of the group's
	// back-offs whether the Machine may create a server.
	BackingOff bool
	Permission backoff.Permission
	// JoinDeadline is when the join timeout ends, not counting the time in which the API servers could not be reached; zero
	// means never. Late reports whether the join timeout has ended.
	JoinDeadline time.Time
	Late         bool
	// Start is the state of the start of a server that was shut down.
	Start Start
	// Unreachable reports whether the Node's kubelet does not report.
	Unreachable bool
	// NodeReady reports whether the Node is Ready. NodeReports reports whether the Node's kubelet reports its state, Ready or not. NodeOutOfService reports whether the Node has the
	// out-of-service taint, because of which Kubernetes deletes its pods and detaches its volumes.
	NodeReady, NodeReports, NodeOutOfService bool
	// DrainDue reports whether the Node's pods are to be evicted before the server is deleted. DrainTimedOut reports whether
	// the drain timeout has ended: the pods that are left are then evicted at once. DrainOver reports whether the time for their
	// grace periods has ended, too. NoTarget reports whether no other Node can take the pods.
	DrainDue, DrainTimedOut, DrainOver, NoTarget bool
	// ForcedDrainOver reports whether the time in which a forced deletion waits for pods and for the first lists of servers has
	// ended. ForceOver reports whether its time for the cloud and for volumes has ended, too. Both are false when the deletion is
	// not forced.
	ForcedDrainOver, ForceOver bool
	// Withheld is the reason why the deletion is blocked; empty when it may go on. WithheldMessage explains the reason to users.
	Withheld, WithheldMessage string
}

// Timeouts limit the steps of one Machine. Zero or less has a special meaning: pods are not evicted (Drain), the controller
// does not wait for volumes (Volumes), and a server may take any time to join (Join).
type Timeouts struct{ Drain, Volumes, Join time.Duration }

// Progress is what the present reconcile has done already.
type Progress struct {
	// UserData reports whether the user data has been generated. Reserved reports whether the cloud's driver has checked that it
	// may create the server, and has reserved quota for it. Prepared reports whether the resources that the server needs in the cloud
	// exist.
	UserData, Reserved, Prepared bool
	// Refused is why the cloud's driver creates nothing for the Machine now, as far as a reconcile has asked it: a name in the spec
	// that the cloud does not have, an earlier create whose outcome is not known, or an exhausted quota.
	Refused *fault.Error
	// Synced reports whether the Node has its labels, annotations and taints. Started reports whether its first start is
	// complete.
	Synced, Started bool
	// StartHandled reports whether this reconcile asked the cloud to start the server, or looked up why it did not start.
	// ShutDownSeen reports whether this reconcile asked the cloud whether the server of a Machine that is being deleted is
	// still shut down.
	StartHandled, ShutDownSeen bool
	// Drained reports whether no pod is left to evict. Attached reports whether volumes are still attached to the empty Node.
	// DetachOver reports whether the time for detaching volumes has ended.
	Drained, Attached, DetachOver bool
	// CloudRefused reports whether, during the deletion, a call to the cloud failed, or the cloud did not carry out a request
	// within the time of a forced deletion.
	CloudRefused bool
	// Unreleased reports whether the deletion of the server's resources was requested and they still exist.
	Unreleased bool
	// Released reports whether nothing is left to delete in the cloud. OutOfService reports whether the Node has the
	// out-of-service taint.
	Released, OutOfService, NodeGone, TokenGone bool
}

// OwnFinalizers are the finalizers that drover adds to a Machine, and removes at the end of its deletion.
var OwnFinalizers = []string{v1alpha1.FinalizerServer, v1alpha1.FinalizerNode, v1alpha1.FinalizerFloatingIP}

// Removes reports whether drover removes a finalizer at the end of a deletion: its own, and those that machine-controller has put on the
// Machine, such as the one for a subscription of Red Hat. Nobody else would remove them after a migration (F-134).
func Removes(finalizer string) bool {
	return slices.Contains(OwnFinalizers, finalizer) || strings.HasPrefix(finalizer, v1alpha1.MachineControllerPrefix)
}

// ReadMachine updates the facts that come from the Machine itself, and compares the Machine with the observed server and
// Node. It is called again after each step that changes the Machine. controller is the controller name of the Machines that
// drover manages; provider parses the provider's own fields.
func (o *Observed) ReadMachine(m *v1alpha1.Machine, controller string, provider cloud.Provider) {
	has := func(name string) bool { return slices.Contains(m.Finalizers, name) }
	o.Paused = v1alpha1.Paused(m.Annotations)
	o.Deleting = m.DeletionTimestamp != nil
	o.Initializing = m.Annotations[v1alpha1.AnnotationInitializers] != ""
	o.Force = m.Annotations[v1alpha1.AnnotationForceDelete] == "true"
	o.OtherController = m.Labels[v1alpha1.LabelController] != controller
	o.Finalizers = has(v1alpha1.FinalizerServer) && has(v1alpha1.FinalizerNode)
	o.AnyFinalizer = slices.ContainsFunc(m.Finalizers, Removes)
	o.ServerFinalizer = has(v1alpha1.FinalizerServer)
	o.CloudFinalizer = has(v1alpha1.FinalizerServer) || has(v1alpha1.FinalizerFloatingIP)
	o.Owned = ownedBySet(m)
	named := cloud.RecordedServer(provider, m)
	o.Named = named != ""
	o.Joined = m.Status.NodeRef != nil
	o.HadServer = ptr.Deref(m.Spec.ProviderID, "") != "" || o.Joined || provider.Remembered(m).Server
	o.Placed = cloud.HasRecordedPlace(m, &o.Cloud)
	o.Mismatched = o.Named && o.Cloud.Server != nil && named != o.Cloud.Server.Key
	start := StartOf(o.Cloud.Server, m.Status.ServerStart)
	o.StartFailed = start != nil && start.Failure != ""
	ref := m.Status.NodeRef
	o.Reregistered = ref != nil && o.Node != nil && ref.UID != "" && ref.UID != o.Node.UID
}

// ownedBySet reports whether the Machine's controller is a MachineSet of drover's API group, in any version.
func ownedBySet(m *v1alpha1.Machine) bool {
	ref := metav1.GetControllerOfNoCopy(m)
	return ref != nil && ref.Kind == v1alpha1.MachineSetKind.Kind && strings.HasPrefix(ref.APIVersion, v1alpha1.GroupVersion.Group+"/")
}

// LeftAlone reports whether the Machine is ignored: drover looks up nothing for it and writes nothing.
func (o *Observed) LeftAlone() bool {
	return o.Paused || o.OtherController && !o.Deleting || o.Deleting && !o.AnyFinalizer
}

// ServerUnlisted reports whether the Machine had a server, but the servers of its project have not been listed since this
// process started. In that case nothing new is known about the server.
func (o *Observed) ServerUnlisted() bool {
	return o.HadServer && o.CloudErr == nil && !o.Cloud.Synced && o.Cloud.Server == nil
}

// ServerUnseen reports whether the Machine names a server that the cloud does not show now, although it is not proven that
// the server is gone or belongs to another Machine.
func (o *Observed) ServerUnseen() bool {
	return o.Named && o.Cloud.Server == nil && !o.Cloud.Gone && o.Cloud.Foreign == ""
}

// serverGone reports whether it is proven that the server is gone.
func (o *Observed) serverGone() bool {
	known := o.CloudErr == nil && o.Cloud.Synced && o.Cloud.Unknown == ""
	return known && o.Cloud.Server == nil && (o.Cloud.Gone || !o.Named)
}

// nodeOutlivesServer reports whether the Machine's Node still exists although it is proven that the server is gone.
func (f *Facts) nodeOutlivesServer() bool {
	return f.Node != nil && f.Node.DeletionTimestamp == nil && !f.NodeGone && f.Cloud.Gone && f.serverGone()
}

// HasStarted reports whether the first start of the Node is complete.
func (f *Facts) HasStarted() bool { return f.StartRecorded || f.Started }
