package status

import (
	"cmp"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/machine/lifecycle"
)

// wait describes a reason of a condition to users.
type wait struct {
	// what is what drover waits for. It is not shown when the step itself names more details, and is empty when [lifecycle.Why] has it.
	what string
	// do is what a person can do about it. It is empty when what, or the text of the step, contains that already.
	do string
	// alone is true when the remedy of the failure's class does not apply.
	alone bool
}

// The parts that several waits share.
const (
	nothing = "no action is needed: drover goes on automatically"
	force   = "if this lasts, the annotation " + v1alpha1.AnnotationForceDelete + `: "true" on this Machine ends the deletion without the cloud`
)

// waits has a row for each reason with which a Machine waits. A test compares it with the rows of the lifecycle table.
var waits = map[string]wait{
	lifecycle.ReasonNotSynced: {
		do: "it reads the list automatically; if this lasts, drover's log shows why the list fails",
	},
	lifecycle.ReasonInitializers: {
		do: "wait for these programs, or remove the annotation if none of them runs",
	},
	lifecycle.ReasonServerUnknown: {
		do: "drover looks again automatically; look for the server in the cloud, and check the credentials, the project and the region of this Machine",
	},
	lifecycle.ReasonHeld:           {do: "find out why the servers are gone; drover replaces this Machine when its Node is not Ready any more; delete the Machine to replace it now"},
	lifecycle.ReasonForeign:        {do: "delete this Machine, or allow it to adopt the server", alone: true},
	lifecycle.ReasonAPIUnreachable: {do: nothing + " when it answers"},
	lifecycle.ReasonBackOff:        {},
	lifecycle.ReasonGroupBackoff:   {do: nothing},
	lifecycle.ReasonJoinsFail: {
		do: "look at status.joinOutcomes of the group and at the Events JoinTimeout of its Machines",
	},
	lifecycle.ReasonCreating:       {what: "drover is creating the server", do: nothing},
	lifecycle.ReasonServerBuilding: {what: "the cloud is building the server", do: nothing + ", at the latest when the join timeout is over"},
	lifecycle.ReasonServerError:    {what: "the server has failed", do: "drover replaces it automatically; if each server fails, show this text to the operator of the cloud"},
	lifecycle.ReasonServerDeleting: {what: "the server is being deleted in the cloud", do: "drover goes on when it is gone; if this lasts, ask the operator of the cloud"},
	lifecycle.ReasonServerGone:     {what: "the server was deleted in the cloud", do: "a set replaces this Machine automatically; delete a Machine that has no set", alone: true},
	lifecycle.ReasonServerStopped:  {what: "the server does not run", do: "start the server in the cloud, or delete this Machine"},
	lifecycle.ReasonServerStarting: {what: "the server is being started", do: nothing},
	lifecycle.ReasonServerWontStart: {
		what: "the server could not be started",
		do:   "start it in the cloud, or delete this Machine",
	},
	lifecycle.ReasonServerBusy:     {what: "the server has a task in the cloud", do: "no action is needed while the task runs"},
	lifecycle.ReasonWaitingForNode: {what: "drover waits for the Node of the server; look at the console of the server"},
	lifecycle.ReasonNodeTaken: {
		what: "the Node of that name belongs to another Machine",
		do:   "delete that Node if its server is gone, or else create this Machine under another name",
	},
	lifecycle.ReasonJoinTimeout: {
		what:  "the server did not become a node in time",
		do:    "read the condition " + v1alpha1.ConditionConsole + "; a set replaces this Machine automatically, and one without a set must be deleted",
		alone: true,
	},
	lifecycle.ReasonNodeMissing:      {what: "the Node does not exist although its server does", do: "look at the kubelet of the server; the health controller replaces a Machine of a set after a while, unless it is opted out"},
	lifecycle.ReasonNodeStarting:     {what: "the Node does not take pods yet", do: "no action is needed for some minutes; then look at the program that must do what is missing"},
	lifecycle.ReasonNodeNotReady:     {what: "the Node is not Ready", do: "look at the kubelet of the node; the health controller replaces a Machine of a set after a while, unless it is opted out"},
	lifecycle.ReasonJoined:           {what: "drover is writing the Node", do: nothing},
	lifecycle.ReasonKindBeingDeleted: {what: "a CustomResourceDefinition of drover is being deleted; restore it, or allow the deletion"},
	lifecycle.ReasonKindUnknown:      {what: "drover cannot read its CustomResourceDefinitions; give it the right to read them"},
	lifecycle.ReasonDraining: {
		what: "drover evicts the pods of the Node",
		do:   "remove what holds the pods, or set the annotation " + v1alpha1.AnnotationSkipEviction + " on the Node; the drain ends automatically after its timeout",
	},
	lifecycle.ReasonDetaching:      {what: "volumes are still attached to the Node", do: "no action is needed: drover goes on when they are detached, or when the volume detach timeout is over"},
	lifecycle.ReasonDeletingServer: {what: "drover is deleting the server", do: force},
	lifecycle.ReasonReleasing:      {what: "drover is deleting the ports, the floating IP and the volumes of the server", do: force},
	lifecycle.ReasonDeletingNode:   {what: "drover is deleting the Node and the join token", do: nothing},
	lifecycle.ReasonServerLeft:     {do: nothing},
	lifecycle.ReasonLeaseOld:       {do: nothing},
	lifecycle.ReasonNothingWasMade: {what: "nothing was created for this Machine", do: nothing},
	lifecycle.ReasonForced:         {what: "the deletion is forced", do: nothing},
	lifecycle.ReasonDone:           {what: "everything of this Machine is deleted, and drover removes its finalizers", do: nothing},
	lifecycle.ReasonFinalizers:     {what: "other programs have finalizers on this Machine", do: "look at these programs, or remove their finalizers by hand"},
	lifecycle.ReasonCloudUnusable: {
		what: "the cloud cannot be asked for the resources of this Machine",
		do:   "restore what this Machine refers to; " + force,
	},
	lifecycle.ReasonMachineDeleting: {what: "this Machine is being deleted", do: "the condition " + v1alpha1.ConditionDeleting + " says what its deletion waits for"},
	lifecycle.ReasonFactsUnread:     {what: "drover could not read what it needs to go on"},
}

// retried is what a person can do when a step has failed.
const retried = "drover tries again automatically; if this lasts, look at what the message names: an API server, one of its admission webhooks, the rights of drover, or the cloud"

// show sets a condition that people look at. If the condition shows that the Machine waits, its message says what drover waits
// for and what a person can do.
func (in *Input) show(name string, v Verdict) {
	if good := name != v1alpha1.ConditionDeleting; good != (v.Status == corev1.ConditionTrue) {
		v.Message = in.explained(name, v)
	}
	in.set(name, v)
}

// explained returns the message of a condition: what drover waits for, why the reconcile did not finish, and what a person can do.
func (in *Input) explained(name string, v Verdict) string {
	row := in.rowOf(v.Reason)
	what := cmp.Or(v.Message, row.what)
	if now := in.message(); in.Facts.Cloud.Server == nil && !in.Facts.Deleting && !strings.Contains(what, now) {
		// The message shows an earlier error until the next attempt.
		what = join(what, now)
	}
	if in.Facts.Deleting && name != v1alpha1.ConditionDeleting {
		return join(what, waits[lifecycle.ReasonMachineDeleting].do)
	}
	if in.Unfinished != "" {
		unfinished := join(Since(in.Base.Condition(name).Message, in.Unfinished, in.Now.Time), retried)
		if name != v1alpha1.ConditionDeleting {
			return join(what, unfinished)
		}
		return join(what, unfinished, row.do)
	}
	return join(what, in.remedy(name, row, v.Message))
}

// rowOf returns the row of a reason. When the condition only shows that there is no server or Node, the last step has the reason.
func (in *Input) rowOf(reason string) wait {
	last, known := waits[in.Last.Reason]
	if reason == lifecycle.ReasonNoServer || known && in.Facts.Cloud.Server == nil && in.Facts.Node == nil && !in.Facts.Deleting {
		return last
	}
	return waits[reason]
}

// remedy returns what a person can do about a wait: the remedy of the failure that the message shows, and what the row says about a
// deletion, or about a wait without a failure.
func (in *Input) remedy(name string, row wait, shown string) string {
	remedy := ""
	if class := in.classOf(shown); class != "" && !row.alone {
		remedy = fault.PolicyOf(class).Remedy
	}
	if name == v1alpha1.ConditionDeleting || remedy == "" {
		return join(remedy, row.do)
	}
	return remedy
}

// classOf returns the class of the failure that a message shows; empty when it shows none, or ends with the command that helps.
func (in *Input) classOf(shown string) fault.Class {
	code, message := in.Machine.Status.ErrorReason, in.Machine.Status.ErrorMessage
	switch {
	case shown == "" || ptr.Deref(code, "") == string(fault.CodeReferenceForbidden):
	case in.Facts.Deleting && in.Failure != nil:
		return in.Failure.Class
	case in.Failure != nil && shown == fault.Line(in.Failure.Message):
		return in.Failure.Class
	case code != nil && message != nil && shown == *message:
		return fault.ClassOf(fault.Code(*code))
	}
	return ""
}

// join returns the parts of a message that are not empty, as one line.
func join(parts ...string) string {
	var text []string
	for _, part := range parts {
		if part != "" {
			text = append(text, part)
		}
	}
	return fault.Line(strings.Join(text, "; "))
}

const sinceWord = ", since "

// Since returns a text together with the time since which it holds. That is the time in the stored message, if this message has
// the text; otherwise now.
func Since(stored, text string, now time.Time) string {
	at := now.UTC().Format(time.RFC3339)
	if _, rest, ok := strings.Cut(stored, text+sinceWord); ok && len(rest) >= len(at) {
		if _, err := time.Parse(time.RFC3339, rest[:len(at)]); err == nil {
			at = rest[:len(at)]
		}
	}
	return text + sinceWord + at
}

// WithoutRemedy returns the message of a Machine's condition Deleting without what [Compute] has added for people.
func WithoutRemedy(m *v1alpha1.Machine) string {
	c := m.Condition(v1alpha1.ConditionDeleting)
	return strings.TrimSuffix(c.Message, "; "+waits[c.Reason].do)
}

// ShowUnread shows that a reconcile could not read its facts, and why. It sets only the message of the condition that people look
// at: Deleting of a Machine that is being deleted, otherwise Ready. The rest of the status follows from the facts and stays as it is, as
// does a Machine that is Ready.
func ShowUnread(m, base *v1alpha1.Machine, why string, now time.Time) {
	name, v := v1alpha1.ConditionReady, Verdict{corev1.ConditionFalse, lifecycle.ReasonFactsUnread, ""}
	if m.DeletionTimestamp != nil {
		name, v.Status = v1alpha1.ConditionDeleting, corev1.ConditionTrue
		m.Status.Phase = ptr.To(v1alpha1.PhaseDeleting)
	}
	if c := m.Condition(name); c.Reason != "" {
		v.Status, v.Reason = c.Status, c.Reason
	}
	if name == v1alpha1.ConditionReady && v.Status == corev1.ConditionTrue {
		return
	}
	v.Message = join(Since(base.Condition(name).Message, why, now), retried)
	SetCondition(m, name, v, metav1.NewTime(now))
}
