package lifecycle

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/backoff"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/machine/record"
)

// Facts are what [Next] decides by, grouped by how long they hold.
type Facts struct {
	*Observed
	*Policy
	*Progress
}

// Observed is what was seen when the reconcile began: the Machine, its server and its Node. A step that writes the Machine or
// the Node brings it up to date.
type Observed struct {
	Paused, Deleting, Initializing, Force bool
	// OtherController: another program looks after the Machine.
	OtherController bool
	// Finalizers: the Machine has all finalizers that a living one must have. AnyFinalizer: it has one of drover's.
	Finalizers, AnyFinalizer        bool
	ServerFinalizer, CloudFinalizer bool
	// Owned: a set controls the Machine and would replace it.
	Owned bool
	// Named: spec.providerID names a server. HadServer: the Machine shows that a server was made once. Placed: its status
	// records the project and region that its resources are made in.
	Named, HadServer, Placed bool
	// Joined: status.nodeRef names a Node.
	Joined bool

	// CloudErr is why the cloud cannot be asked; then Cloud is empty. SpecUnreadable: because of the spec alone.
	CloudErr       *fault.Error
	SpecUnreadable bool
	Cloud          cloud.Facts
	// Mismatched: the Machine names another server than the one it has, and the one that it names is gone.
	Mismatched bool

	// Node is the Machine's Node; nil when there is none. Taken is why a Node with its name or server is not the Machine's.
	Node  *corev1.Node
	Taken string
	// Reregistered: the Node is another object than the one that joined.
	Reregistered bool
	// StartRecorded: the first start of the Node is complete, and the Machine's status says so.
	StartRecorded bool
	// StartFailed: the Machine records that the server could not be started after somebody had shut it down.
	StartFailed bool
}

// Policy is what follows from the observed facts together with the clock, the settings, the lease and other Machines.
type Policy struct {
	Timeouts Timeouts
	// LeaseOld: another process may be the leader by now. It is checked before each step.
	LeaseOld bool
	// APIFrozen: an API server cannot be reached, or has only just answered again, so that what was observed may be old.
	APIFrozen bool
	// BackingOff: an earlier failure of the Machine's own forbids another attempt yet. Permission is what its group allows.
	BackingOff bool
	Permission backoff.Permission
	// JoinDeadline is when the server will have had the whole join timeout, during which the API servers could be reached; zero:
	// never. Late: it is over.
	JoinDeadline time.Time
	Late         bool
	// Start is how far the start of a server is that somebody has shut down.
	Start Start
	// Unreachable: the kubelet of the Node does not answer.
	Unreachable bool
	// NodeRuns: the Node is Ready. NodeOutOfService: it has the taint that lets Kubernetes end its pods and detach its volumes.
	NodeRuns, NodeOutOfService bool
	// DrainDue: the Node's pods are to be evicted before the server is deleted. DrainTimedOut: the time for that is over.
	DrainDue, DrainTimedOut bool
	// ForcedDrainOver: the deletion is forced, and the time is over that the pods, and the first lists of servers, have then. ForceOver:
	// so is that of the cloud and the volumes.
	ForcedDrainOver, ForceOver bool
	// Withheld is the reason why the deletion must not go on; empty when it may. WithheldMessage explains it to people.
	Withheld, WithheldMessage string
}

// Timeouts are how long the steps of one Machine may take. Zero or less: pods are not evicted, volumes not waited for, a
// server may take for ever to join.
type Timeouts struct{ Drain, Volumes, Join time.Duration }

// Progress is what this reconcile has done. It is lost with the end of the reconcile.
type Progress struct {
	// UserData: the user data is made. Prepared: what the server needs in the cloud exists.
	UserData, Prepared bool
	// Synced: the Node has the labels, annotations and taints that it is to have. Started: its first start is complete.
	Synced, Started bool
	// StartHandled: the server was asked to start, or it was looked why it did not. ShutDownSeen: the cloud was asked whether the
	// server of a Machine that is being deleted is still shut down.
	StartHandled, ShutDownSeen bool
	// Drained: no pod that must be evicted is left. Attached: volumes are still attached to the empty Node; DetachOver: they
	// have had their time.
	Drained, Attached, DetachOver bool
	// CloudRefused: what the deletion asked of the cloud failed, or was not done within the time of a forced deletion.
	CloudRefused bool
	// Unreleased: what belonged to the server was asked to go, and is still there.
	Unreleased bool
	// Released: nothing in the cloud is left to remove. OutOfService: the Node has the taint that lets Kubernetes end its pods and
	// detach its volumes.
	Released, OutOfService, NodeGone, TokenGone bool
}

// OwnFinalizers are the finalizers that drover adds to a Machine, or removes when it is gone.
var OwnFinalizers = []string{v1alpha1.FinalizerServer, v1alpha1.FinalizerNode, v1alpha1.FinalizerFloatingIP}

// ReadMachine reads what stands in the Machine, and compares it with the server and the Node as far as these were observed. A
// step that changes the Machine has it read again. controller is the controller name that drover looks after, and provider reads what is the provider's own.
func (o *Observed) ReadMachine(m *v1alpha1.Machine, controller string, provider cloud.Provider) {
	has := func(name string) bool { return slices.Contains(m.Finalizers, name) }
	o.Paused = v1alpha1.Paused(m.Annotations)
	o.Deleting = m.DeletionTimestamp != nil
	o.Initializing = m.Annotations[v1alpha1.AnnotationInitializers] != ""
	o.Force = m.Annotations[v1alpha1.AnnotationForceDelete] == "true"
	o.OtherController = m.Labels[v1alpha1.LabelController] != controller
	o.Finalizers = has(v1alpha1.FinalizerServer) && has(v1alpha1.FinalizerNode)
	o.AnyFinalizer = slices.ContainsFunc(OwnFinalizers, has)
	o.ServerFinalizer = has(v1alpha1.FinalizerServer)
	o.CloudFinalizer = has(v1alpha1.FinalizerServer) || has(v1alpha1.FinalizerFloatingIP)
	o.Owned = metav1.GetControllerOf(m) != nil
	named := record.ServerID(provider, m)
	o.Named = named != ""
	o.Joined = m.Status.NodeRef != nil
	o.HadServer = ptr.Deref(m.Spec.ProviderID, "") != "" || o.Joined || provider.Remembered(m).Server
	o.Placed = record.HasPlace(m, &o.Cloud)
	o.Mismatched = o.Named && o.Cloud.Server != nil && named != o.Cloud.Server.Key
	start := StartOf(o.Cloud.Server, m.Status.ServerStart)
	o.StartFailed = start != nil && start.Failure != ""
	ref := m.Status.NodeRef
	o.Reregistered = ref != nil && o.Node != nil && ref.UID != "" && ref.UID != o.Node.UID
}

// LeftAlone reports whether nothing is looked up for the Machine, and nothing written.
func (o *Observed) LeftAlone() bool {
	return o.Paused || o.OtherController && !o.Deleting || o.Deleting && !o.AnyFinalizer
}

// ServerUnlisted reports whether the Machine had a server, and the servers of its project have not been listed since this process
// began. Nothing new is known of the server then.
func (o *Observed) ServerUnlisted() bool {
	return o.HadServer && o.CloudErr == nil && !o.Cloud.Synced && o.Cloud.Server == nil
}

// ServerUnseen reports whether the Machine names a server that is not seen now, and of which nothing proves that it is gone or
// that it belongs to another Machine.
func (o *Observed) ServerUnseen() bool {
	return o.Named && o.Cloud.Server == nil && !o.Cloud.Gone && o.Cloud.Foreign == ""
}

// serverGone reports whether the end of the server is proven.
func (o *Observed) serverGone() bool {
	known := o.CloudErr == nil && o.Cloud.Synced && o.Cloud.Held == "" && o.Cloud.Unknown == ""
	return known && o.Cloud.Server == nil && (o.Cloud.Gone || !o.Named)
}

// nodeOutlivesServer reports whether the Machine's Node is still there although the cloud has proven that its server is gone.
func (f *Facts) nodeOutlivesServer() bool {
	return f.Node != nil && f.Node.DeletionTimestamp == nil && !f.NodeGone && f.Cloud.Gone && f.serverGone()
}

// HasStarted reports whether the first start of the Node is complete.
func (f *Facts) HasStarted() bool { return f.StartRecorded || f.Started }
