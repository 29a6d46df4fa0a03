package machine_test

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/ownership"
)

// patience is how long a Machine may wait before it must show why.
const patience = 2 * time.Minute

// The rule that the tests of this file hold. Two minutes after a Machine began to wait, its object shows
//
//   - what it waits for: the message of Deleting if the Machine is being deleted, else of Ready, else, if Ready is True, of ServerReady
//     or Warnings;
//   - what to do: the same message has the action of a person, or says that none is needed;
//   - since when: a time in the message; or the time of status.lastOperation, whose description is the reason or the error; or, once
//     the Node has joined, the transition time of the condition.
//
// A message has no value that changes with each reconcile, so a wait costs no more writes than the throttle allows.
//
// Three waits cannot be shown on the object. When the API server refuses to store the Machine, an Event of the reason
// MachineNotWritten has the reason. A Machine that is paused, or whose label names another controller, is not written at all: the annotation
// or the label is the sign. A process without a fresh lease writes nothing either; the next leader does.

// sign returns the condition in which a Machine shows what it waits for. Its type is empty when the Machine waits for nothing.
func sign(m *v1alpha1.Machine) v1alpha1.MachineCondition {
	if m.DeletionTimestamp != nil {
		c := find(m, v1alpha1.ConditionDeleting)
		c.Type = v1alpha1.ConditionDeleting
		return c
	}
	ready := find(m, v1alpha1.ConditionReady)
	if ready.Type = v1alpha1.ConditionReady; ready.Status != corev1.ConditionTrue {
		return ready
	}
	if c := find(m, v1alpha1.ConditionServerReady); c.Type != "" && c.Status != corev1.ConditionTrue {
		return c
	}
	if c := find(m, v1alpha1.ConditionWarnings); c.Status == corev1.ConditionTrue {
		return c
	}
	return v1alpha1.MachineCondition{}
}

// remedies matches the part of a message that says what a person can do.
var remedies = regexp.MustCompile(`no action is needed|the annotation|automatically|look (at|for) |ask the operator|read the condition|(delete|restore|remove|correct|raise|annotate|start|confirm) |kubectl|wait for these programs`)

// instants matches a time in a message.
var instants = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`)

// unexplained returns what a waiting Machine does not show; empty when it shows everything.
func unexplained(m *v1alpha1.Machine) string {
	var lacks []string
	c := sign(m)
	if c.Type == "" {
		return ""
	}
	if c.Message == "" {
		lacks = append(lacks, "what it waits for")
	}
	if !remedies.MatchString(c.Message) {
		lacks = append(lacks, "what to do")
	}
	op, joined := m.Status.LastOperation, m.Status.NodeRef != nil && m.DeletionTimestamp == nil
	switch {
	case instants.MatchString(c.Message):
	case joined && c.LastTransitionTime != nil:
	case op != nil && op.LastUpdated != nil && ptr.Deref(op.Description, "") != "":
	default:
		lacks = append(lacks, "since when it waits")
	}
	for _, other := range m.Status.Conditions {
		poor := other.Status != corev1.ConditionTrue && (other.Type == v1alpha1.ConditionReady || other.Type == v1alpha1.ConditionServerReady)
		if poor && other.Message == "" {
			lacks = append(lacks, "a message of condition "+other.Type)
		}
	}
	return strings.Join(lacks, ", ")
}

// lives reconciles the Machine for the given time as the work queue does: after a failure with its back-off, else when the reconcile
// asked for it, and after each change of the Machine.
func (b *bench) lives(d time.Duration) {
	b.t.Helper()
	b.written.counting = true
	defer func() { b.written.counting = false }()
	request, retries := ctrl.Request{NamespacedName: b.key}, ownership.Retries()
	for end := b.clock.Now().Add(d); ; {
		before := b.read().ResourceVersion
		result, err := b.machine.Reconcile(b.t.Context(), request)
		wait := result.RequeueAfter
		if err != nil {
			wait = retries.When(request)
		} else {
			retries.Forget(request)
		}
		if b.read().ResourceVersion != before && (wait == 0 || wait > time.Second) {
			// The watch shows the change.
			wait = time.Second
		}
		left := end.Sub(b.clock.Now())
		if wait == 0 || wait > left {
			b.wait(left)
			return
		}
		b.wait(wait)
	}
}

// stages lists stages in the life of a Machine at which something may begin to fail. Each returns a bench at that stage.
var stages = []struct {
	name    string
	reached func(t *testing.T) *bench
}{
	{"a new Machine", func(t *testing.T) *bench { return newBench(t, deployed) }},
	{"a Machine whose server was just created", func(t *testing.T) *bench {
		b := born(t)
		b.pass()
		return b
	}},
	{"a Machine whose server is ACTIVE", func(t *testing.T) *bench {
		b := born(t)
		b.waitsForNode()
		b.wait(5 * time.Minute)
		return b
	}},
	{"a Machine whose Node registers", func(t *testing.T) *bench {
		b := born(t)
		b.waitsForNode()
		b.create(b.nodeOf())
		return b
	}},
	{"a Machine that is Ready and whose template gets a label", func(t *testing.T) *bench {
		b := joined(t, owned)
		m := b.read()
		m.Spec.Metadata.Labels = map[string]string{"team": "blue"}
		b.update(m)
		return b
	}},
	{"a Machine whose Node is gone", func(t *testing.T) *bench {
		b := joined(t, owned)
		b.remove(b.node())
		return b
	}},
	{"a Machine whose server is in ERROR", func(t *testing.T) *bench {
		b := born(t)
		b.pass()
		b.cloud.change("u", func(s *fakeServer) { s.State, s.Status = cloud.ServerError, "ERROR" })
		return b
	}},
	{"a Machine whose server was shut down", func(t *testing.T) *bench {
		b := joined(t, owned)
		b.shutDown()
		return b
	}},
	{"a Machine whose join timeout is over", func(t *testing.T) *bench {
		b := born(t)
		b.waitsForNode()
		b.wait(10 * time.Minute)
		return b
	}},
	{"a Machine whose server is gone", func(t *testing.T) *bench {
		b := joined(t, owned)
		b.cloud.change("u", func(s *fakeServer) { s.exists = false })
		return b
	}},
	{"the deletion of a Machine without a Node", func(t *testing.T) *bench {
		b := born(t)
		b.pass()
		b.end()
		return b
	}},
	{"the deletion of a Machine with a pod", func(t *testing.T) *bench {
		b := joined(t, owned)
		b.create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "p"}, Spec: corev1.PodSpec{NodeName: "m"}})
		b.end()
		return b
	}},
	{"the deletion of a Machine with a pod that does not end", func(t *testing.T) *bench {
		b := joined(t, owned)
		b.create(stubborn("p"))
		b.end()
		return b
	}},
	{"the deletion of a Machine with a volume", func(t *testing.T) *bench {
		b := joined(t, owned)
		b.attach("pv-1")
		b.end()
		return b
	}},
	{"the deletion of a Machine whose server does not go", func(t *testing.T) *bench {
		b := joined(t, owned)
		b.cloud.slow = true
		b.end()
		return b
	}},
	{"the deletion of a Machine whose server is gone", func(t *testing.T) *bench {
		b := joined(t, owned)
		b.end()
		b.cloud.change("u", func(s *fakeServer) { s.exists = false })
		return b
	}},
	{"the deletion of a Machine whose ports do not go", func(t *testing.T) *bench {
		b := joined(t, owned)
		b.end()
		b.cloud.change("u", func(s *fakeServer) { s.exists = false })
		b.cloud.unreleased = true
		return b
	}},
	{"the deletion of a Machine whose server is gone and whose Node is silent", func(t *testing.T) *bench {
		b := joined(t, owned)
		b.attach("pv-1")
		n := b.node()
		n.Status.Conditions[0].Status = corev1.ConditionUnknown
		n.Status.Conditions[0].LastTransitionTime = metav1.NewTime(b.clock.Now().Add(-time.Hour))
		if err := b.memory.client.Status().Update(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		b.end()
		b.cloud.change("u", func(s *fakeServer) { s.exists = false })
		return b
	}},
}

// breakage is a way in which a call fails: the error of its n-th failure, and a part of the error's text that people must see.
type breakage struct {
	name  string
	err   func(n int) error
	shown string
}

func answered(code int32, reason metav1.StatusReason, text string) func(int) error {
	return func(int) error {
		return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: reason, Message: text}}
	}
}

// apiBreakages are the ways in which calls to an API server fail.
var apiBreakages = []breakage{
	{"the right is missing", answered(403, metav1.StatusReasonForbidden, "it is forbidden: User drover cannot do that"), "User drover cannot do that"},
	{"an admission webhook refuses it", answered(403, metav1.StatusReasonForbidden, `admission webhook "policy.example.com" denied the request: no`), "policy.example.com"},
	{"somebody else writes the object", answered(409, metav1.StatusReasonConflict, "the object has been modified"), "the object has been modified"},
	{"the object is invalid", answered(422, metav1.StatusReasonInvalid, "is invalid: metadata.labels"), "is invalid: metadata.labels"},
	{"the API server is overloaded", answered(429, metav1.StatusReasonTooManyRequests, "too many requests"), "too many requests"},
	{"an admission webhook does not answer", answered(500, metav1.StatusReasonInternalError, `failed calling webhook "w.example.com"`), "w.example.com"},
	{"the connection breaks each time", func(n int) error {
		return fmt.Errorf("read tcp 10.0.0.5:%d->10.0.0.9:443: read: connection reset by peer", 40000+n)
	}, "connection reset by peer"},
	{"the API server does not answer in time", func(int) error { return errors.New("context deadline exceeded") }, "context deadline exceeded"},
}

// cloudBreakages are the ways in which calls to the cloud fail.
var cloudBreakages = []breakage{
	failsWith(fault.Auth, fault.CodeForbidden, "the policy does not allow it (HTTP 403)"),
	failsWith(fault.Conflict, fault.CodeConflict, "it is in use (HTTP 409)"),
	failsWith(fault.RateLimited, fault.CodeRateLimited, "too many requests (HTTP 429)"),
	failsWith(fault.RateLimited, fault.CodeWaitingForTurn, "waiting for other"),
	failsWith(fault.Transient, fault.CodeServerError, "it has failed (HTTP 500)"),
	failsWith(fault.Transient, fault.CodeCloudUnavailable, "no answer in time"),
	failsWith(fault.Quota, fault.CodeQuotaExceeded, "the quota of cores is exceeded (HTTP 403)"),
}

func failsWith(class fault.Class, code fault.Code, text string) breakage {
	err := fault.New(class, code, "%s", text)
	if class == fault.RateLimited {
		err.RetryAfter = 3 * time.Second
	}
	return breakage{string(code), func(int) error { return err }, text}
}

// outcome describes how far a Machine has come, without times and texts.
func (b *bench) outcome() string {
	m, n := b.read(), b.node()
	s := b.cloud.servers["u"]
	taints := []string{}
	for _, taint := range n.Spec.Taints {
		taints = append(taints, taint.Key)
	}
	return fmt.Sprint(m.Name, m.DeletionTimestamp != nil, ptr.Deref(m.Status.Phase, ""), sign(m).Reason, n.Name, n.Labels, taints, s != nil && s.exists, s != nil && s.leftovers, ptr.Deref(m.Spec.ProviderID, ""))
}

// calls returns the calls of the controller, to the API servers and to the cloud, in two minutes at a stage when nothing fails; and the
// outcome.
func calls(t *testing.T, reached func(t *testing.T) *bench) (api, ofCloud []string, outcome string) {
	b := reached(t)
	seen, asked := map[string]bool{}, map[string]bool{}
	b.failing = func(call string) error { seen[call] = true; return nil }
	b.cloud.failing = func(call string) error { asked[call] = true; return nil }
	b.lives(patience)
	if m := b.read(); m.Name != "" && unexplained(m) != "" {
		t.Errorf("the Machine does not show %s: %+v", unexplained(m), m.Status)
	}
	return slices.Sorted(maps.Keys(seen)), slices.Sorted(maps.Keys(asked)), b.outcome()
}

// TestAWaitIsShownWithinTwoMinutesWhateverFails makes each call of each stage fail in each way.
func TestAWaitIsShownWithinTwoMinutesWhateverFails(t *testing.T) {
	runs := 0
	for _, stage := range stages {
		t.Run(stage.name, func(t *testing.T) {
			api, ofCloud, healthy := calls(t, stage.reached)
			for _, call := range api {
				for _, broken := range apiBreakages {
					runs++
					t.Run(call+": "+broken.name+" (F-114)", func(t *testing.T) {
						b, n := stage.reached(t), 0
						b.failing = func(made string) error {
							if made != call {
								return nil
							}
							n++
							return broken.err(n)
						}
						b.mustShow(broken, healthy, call == "PATCH *v1alpha1.Machine")
					})
				}
			}
			for _, call := range ofCloud {
				for _, broken := range cloudBreakages {
					runs++
					t.Run(call+": "+broken.name+" (F-114)", func(t *testing.T) {
						b, n := stage.reached(t), 0
						b.cloud.failing = func(made string) error {
							if made != call {
								return nil
							}
							n++
							return broken.err(n)
						}
						b.mustShow(broken, healthy, false)
					})
				}
			}
		})
	}
	if t.Logf("%d failures at %d stages", runs, len(stages)); runs < 600 {
		t.Errorf("only %d failures were tried: the calls that the stages make are no longer seen", runs)
	}
}

// mustShow reconciles the Machine for two minutes while a call fails, and checks what it shows. healthy is the outcome without the
// failure: if it is reached nevertheless, the Machine does not wait for the call. unwritable is true when the failing call is the write
// of the Machine itself, which only an Event can show.
func (b *bench) mustShow(broken breakage, healthy string, unwritable bool) {
	b.t.Helper()
	b.events()
	b.written = tally{}
	b.lives(patience)
	m, events := b.read(), b.events()
	if n := b.written.made["patch *v1alpha1.Machine"] - len(b.written.refused); n > 7 {
		b.t.Errorf("the Machine was written %d times in two minutes", n)
	}
	if unwritable {
		if !strings.Contains(events, "MachineNotWritten") || !strings.Contains(events, broken.shown) {
			b.t.Errorf("no Event shows that the Machine cannot be written: %q", events)
		}
		return
	}
	if m.Name == "" {
		return
	}
	if lacks := unexplained(m); lacks != "" {
		b.t.Errorf("the Machine does not show %s: %s, %+v", lacks, sign(m).Message, m.Status)
	}
	shown := strings.Contains(sign(m).Message, broken.shown) || strings.Contains(sign(m).Message, "the API server did not answer")
	// A Machine that was Ready stays so until the cloud can be asked for its server.
	unasked := isReady(m) && m.DeletionTimestamp == nil && broken.name == string(fault.CodeWaitingForTurn)
	// A request to start the server that the cloud has not answered may have been carried out, so it is not repeated.
	started := sign(m).Reason == "ServerStarting" || sign(m).Reason == "ServerWontStart"
	if b.outcome() != healthy && !shown && !unasked && !started {
		b.t.Errorf("condition %s does not show the failure: %s %q\nwith    %s\nwithout %s", sign(m).Type, sign(m).Reason, sign(m).Message, b.outcome(), healthy)
	}
}
