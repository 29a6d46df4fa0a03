package machine_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
)

// shutDown shuts the Machine's server down in the cloud, without drover.
func (b *bench) shutDown() {
	b.cloud.change("u", func(s *fakeServer) { s.State, s.Status = cloud.ServerStopped, "SHUTOFF" })
}

// becomes sets another state of the Machine's server, as if another user had acted on the server.
func (b *bench) becomes(status, busy string) {
	b.cloud.change("u", func(s *fakeServer) { s.State, s.Status, s.Busy = cloud.ServerOther, status, busy })
}

// nodeReady writes the condition Ready of the Machine's Node.
func (b *bench) nodeReady(status corev1.ConditionStatus) {
	b.t.Helper()
	b.changes(func(n *corev1.Node) {
		n.Status.Conditions[0].Status, n.Status.Conditions[0].LastTransitionTime = status, metav1.NewTime(b.clock.Now())
	})
}

func (b *bench) serverReady() v1alpha1.MachineCondition {
	b.t.Helper()
	return find(b.read(), v1alpha1.ConditionServerReady)
}

// shows checks the status and the reason of condition ServerReady, and how often the server was started.
func (b *bench) shows(status corev1.ConditionStatus, reason string, starts int) {
	b.t.Helper()
	if c := b.serverReady(); c.Status != status || c.Reason != reason {
		b.t.Errorf("ServerReady is %s, %s (%s), want %s, %s", c.Status, c.Reason, c.Message, status, reason)
	}
	if n := b.cloud.count("StartServer"); n != starts {
		b.t.Errorf("the server was started %d times, want %d", n, starts)
	}
}

// refusing is the answer of a cloud that refuses a request to start the server.
func refusing(*fakeServer) error {
	return fault.New(fault.Conflict, fault.CodeConflict, "starting server m: Instance is locked (HTTP 409)")
}

// silent is the answer of a cloud that accepts a request to start the server but does not carry it out.
func silent(*fakeServer) error { return nil }

// wontStart returns a bench whose Machine has a server that the cloud refuses to start.
func wontStart(t *testing.T) *bench {
	t.Helper()
	b := joined(t, owned)
	b.cloud.starting = refusing
	b.shutDown()
	b.pass()
	b.shows(corev1.ConditionFalse, "ServerWontStart", 1)
	b.nodeReady(corev1.ConditionUnknown)
	return b
}

func TestAServerThatIsShutDownIsStartedOnce(t *testing.T) {
	t.Run("drover records the start before the start request, and does not change the Node (CAPI-33)", func(t *testing.T) {
		b := joined(t, owned)
		node := b.node()
		recorded := false
		b.cloud.during = func(string) { recorded = b.read().Status.ServerStart != nil }
		b.written = tally{}
		b.shutDown()
		b.pass()
		b.shows(corev1.ConditionFalse, "ServerStarting", 1)
		if start := b.read().Status.ServerStart; !recorded || start == nil || start.Server != b.cloud.servers["u"].ID || start.Failure != "" {
			t.Fatalf("recorded %v, %+v", recorded, start)
		}
		b.pass()
		b.wait(longestUnwritten)
		b.pass()
		b.shows(corev1.ConditionTrue, "ServerActive", 1)
		if n := b.written.all(); n != 2 || len(b.patches.idle) > 0 {
			t.Errorf("%d writes: %v; without change: %q", n, b.written.made, b.patches.idle)
		}
		if now := b.node(); now.UID != node.UID || len(now.Spec.Taints) != len(node.Spec.Taints) || now.Spec.Unschedulable {
			t.Errorf("the Node was %+v, now it is %+v", node.Spec, now.Spec)
		}
		if events := b.events(); strings.Count(events, "ServerStarted") != 1 {
			t.Errorf("Events: %s", events)
		}
	})
	t.Run("does not start the server again before the Node has been Ready for an hour", func(t *testing.T) {
		b := joined(t, owned)
		b.shutDown()
		b.pass()
		b.nodeReady(corev1.ConditionFalse)
		b.wait(2 * time.Hour)
		b.nodeReady(corev1.ConditionTrue)
		b.wait(time.Hour - time.Second)
		if result := b.pass(); b.read().Status.ServerStart == nil || result.RequeueAfter > 2*time.Second {
			t.Fatalf("within the hour: %+v, the next reconcile is after %v", b.read().Status.ServerStart, result.RequeueAfter)
		}
		b.wait(time.Second)
		if b.pass(); b.read().Status.ServerStart != nil {
			t.Fatalf("after: %+v", b.read().Status.ServerStart)
		}
		b.shutDown()
		b.pass()
		b.shows(corev1.ConditionFalse, "ServerStarting", 2)
	})
	t.Run("does not start a server that is shut down again within an hour after its start, even when drover restarts", func(t *testing.T) {
		b := joined(t, owned)
		b.shutDown()
		b.pass()
		b.pass()
		b.wait(30 * time.Minute)
		b.shutDown()
		b.pass()
		b.shows(corev1.ConditionFalse, "ServerWontStart", 1)
		if text := b.serverReady().Message; !strings.Contains(text, "its state in the cloud was SHUTOFF") || strings.Count(b.events(), "ServerWontStart") != 1 {
			t.Errorf("message %q", text)
		}
		b.restart()
		b.wait(100 * time.Hour)
		b.pass()
		b.shows(corev1.ConditionFalse, "ServerWontStart", 1)
		if m := b.read(); m.DeletionTimestamp != nil {
			t.Errorf("the Machine is being deleted, which only the health controller may do: %+v", m)
		}
	})
	t.Run("gives up a start after a minute when the previous process recorded the start and was killed before the start request", func(t *testing.T) {
		b := joined(t, owned)
		m := b.read()
		m.Status.ServerStart = &v1alpha1.ServerStart{Server: b.cloud.servers["u"].ID, Time: metav1.NewTime(b.clock.Now())}
		b.update(m)
		b.shutDown()
		b.restart()
		b.pass()
		b.shows(corev1.ConditionFalse, "ServerStarting", 0)
		b.wait(time.Minute)
		b.pass()
		b.shows(corev1.ConditionFalse, "ServerWontStart", 0)
	})
	t.Run("waits for the server to run when the previous process was killed after the start request", func(t *testing.T) {
		b := joined(t, owned)
		b.cloud.starting = silent
		b.shutDown()
		b.pass()
		for range 3 {
			b.restart()
			b.wait(10 * time.Second)
			b.pass()
		}
		b.shows(corev1.ConditionFalse, "ServerStarting", 1)
	})
	t.Run("starts the server only after the start is recorded, even if the first write of the record was refused", func(t *testing.T) {
		b := joined(t, owned)
		b.shutDown()
		b.written.counting, b.failing = true, func(call string) error {
			if call != "PATCH *v1alpha1.Machine" {
				return nil
			}
			b.failing = nil
			return apierrors.NewInternalError(errors.New("etcdserver: request timed out"))
		}
		if _, err := b.machine.Reconcile(t.Context(), ctrl.Request{NamespacedName: b.key}); err == nil {
			t.Fatal("the refused write returned no error")
		}
		if n := b.cloud.count("StartServer"); n != 0 {
			t.Fatalf("%d starts before the record is written", n)
		}
		b.pass()
		b.shows(corev1.ConditionFalse, "ServerStarting", 1)
		b.wait(time.Minute)
		b.shown()
		b.shows(corev1.ConditionTrue, "ServerActive", 1)
	})
	t.Run("starts a server whose Node has not registered yet", func(t *testing.T) {
		b := newBench(t, owned)
		b.pass()
		b.shutDown()
		b.pass()
		b.shows(corev1.ConditionFalse, "ServerStarting", 1)
		b.wait(10 * time.Minute)
		b.pass()
		if m := b.read(); m.Name != "" && m.DeletionTimestamp == nil {
			t.Errorf("the join deadline does not hold: %+v", m.Status)
		}
	})
	t.Run("does not start the server while drover has not renewed its lease in time", func(t *testing.T) {
		b := joined(t, owned)
		lease := &term{}
		b.under(lease)
		b.shutDown()
		b.wait(time.Minute)
		b.pass()
		b.shows(corev1.ConditionTrue, "ServerActive", 0)
		lease.renewed = b.clock.Now()
		b.pass()
		b.shows(corev1.ConditionFalse, "ServerStarting", 1)
	})
}

// late is a cluster whose cache lags behind: it shows deployments without their annotations.
type late struct{ *memory }

func (l late) GetClient() client.Client { return unannotated{l.client} }

type unannotated struct{ client.Client }

func (u unannotated) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	err := u.Client.Get(ctx, key, o, opts...)
	if d, ok := o.(*v1alpha1.MachineDeployment); ok {
		d.Annotations = nil
	}
	return err
}

func TestAServerShutDownOnPurposeIsNotStarted(t *testing.T) {
	onPool := func(key, value string) func(*bench) {
		return func(b *bench) {
			pool := b.pool()
			metav1.SetMetaDataAnnotation(&pool.ObjectMeta, key, value)
			b.update(pool)
		}
	}
	for name, mark := range map[string]func(*bench){
		"the annotation skip-health of the deployment with the value True forbids the start": onPool(v1alpha1.AnnotationSkipHealth, "True"),
		"Cluster API's annotation skip-remediation of the deployment forbids the start":      onPool(v1alpha1.AnnotationSkipHealthCAPI, ""),
		"a paused deployment forbids the start":                                              onPool(v1alpha1.AnnotationPaused, ""),
		"a deployment with Cluster API's paused annotation forbids the start":                onPool(v1alpha1.AnnotationPausedCAPI, ""),
		"the annotation skip-health of the deployment forbids the start although the cache does not show the annotation yet": func(b *bench) {
			onPool(v1alpha1.AnnotationSkipHealth, "true")(b)
			b.options.Control = late{b.memory}
			b.start(b.options)
		},
		"the annotation skip-health of the Machine forbids the start":    func(b *bench) { b.annotate(v1alpha1.AnnotationSkipHealth, "true") },
		"the annotation skip-health of the deployment forbids the start": onPool(v1alpha1.AnnotationSkipHealth, "true"),
	} {
		t.Run(name, func(t *testing.T) {
			b := joined(t, deployed)
			mark(b)
			b.shutDown()
			for range 3 {
				b.pass()
				b.wait(time.Hour)
			}
			b.shows(corev1.ConditionUnknown, "ServerNotActive", 0)
			if c := b.serverReady(); !strings.Contains(c.Message, v1alpha1.AnnotationSkipHealth) || b.read().Status.ServerStart != nil {
				t.Errorf("%+v", c)
			}
		})
	}
}

func TestWhetherTheStartOfAServerIsRepeated(t *testing.T) {
	t.Run("shows at once that the cloud refused the start, and does not repeat the start", func(t *testing.T) {
		b := wontStart(t)
		if c := b.serverReady(); !strings.Contains(c.Message, "Instance is locked") || strings.Count(b.events(), "ServerWontStart") != 1 {
			t.Errorf("message %q", c.Message)
		}
		for range 5 {
			b.wait(24 * time.Hour)
			b.restart()
			b.pass()
		}
		b.shows(corev1.ConditionFalse, "ServerWontStart", 1)
	})
	t.Run("does not repeat a start that takes longer than a minute", func(t *testing.T) {
		b := joined(t, owned)
		b.cloud.starting = silent
		b.shutDown()
		if result := b.pass(); result.RequeueAfter == 0 || result.RequeueAfter > time.Minute {
			t.Errorf("the next reconcile is after %v", result.RequeueAfter)
		}
		b.wait(59 * time.Second)
		b.pass()
		b.shows(corev1.ConditionFalse, "ServerStarting", 1)
		b.wait(time.Second)
		b.pass()
		b.shows(corev1.ConditionFalse, "ServerWontStart", 1)
	})
	t.Run("does not treat a start as failed when only an outdated list shows the server shut down", func(t *testing.T) {
		b := joined(t, owned)
		b.cloud.starting = silent
		b.shutDown()
		b.pass()
		b.wait(time.Minute)
		b.cloud.failing = func(call string) error {
			if call == "ObserveNow" {
				b.cloud.active(b.cloud.servers["u"])
			}
			return nil
		}
		b.shown()
		b.shows(corev1.ConditionTrue, "ServerActive", 1)
	})
	t.Run("does not treat a start as failed while the cloud does not answer", func(t *testing.T) {
		b := joined(t, owned)
		b.cloud.starting = silent
		b.shutDown()
		b.pass()
		b.cloud.failing = func(call string) error {
			if call == "ObserveNow" {
				return fault.New(fault.Transient, fault.CodeCloudUnavailable, "503")
			}
			return nil
		}
		for range 10 {
			b.wait(time.Minute)
			b.pass()
		}
		b.shows(corev1.ConditionFalse, "ServerStarting", 1)
		b.cloud.failing = nil
		b.pass()
		b.shows(corev1.ConditionFalse, "ServerWontStart", 1)
	})
	t.Run("does not repeat a start request that got no answer", func(t *testing.T) {
		b := joined(t, owned)
		b.cloud.starting = func(*fakeServer) error { return fault.New(fault.Transient, fault.CodeServerError, "timeout") }
		b.shutDown()
		b.pass()
		b.wait(50 * time.Second)
		b.pass()
		b.shows(corev1.ConditionFalse, "ServerStarting", 1)
		b.wait(10 * time.Second)
		b.pass()
		b.shows(corev1.ConditionFalse, "ServerWontStart", 1)
	})
	for name, refusal := range map[string]*fault.Error{
		"repeats a start request that was not sent because it had to wait for drover's other calls": inLine(),
		"repeats a start request that the cloud's rate limit refused (F-26)":                        fault.New(fault.RateLimited, fault.CodeRateLimited, "429"),
		"repeats a start request whose credentials the cloud refused (F-23)":                        fault.New(fault.Auth, fault.CodeUnauthorized, "401"),
	} {
		t.Run(name, func(t *testing.T) {
			b := joined(t, owned)
			b.cloud.starting = func(*fakeServer) error { return refusal }
			b.shutDown()
			b.written = tally{}
			for range 20 {
				if result := b.pass(); result.RequeueAfter == 0 {
					t.Fatalf("the next reconcile is after %v", result.RequeueAfter)
				}
				b.wait(30 * time.Second)
			}
			// One write records the start, and one explains why it waits.
			if n := b.written.all(); n != 2 {
				t.Errorf("%d writes while it waits: %v", n, b.written.made)
			}
			b.shows(corev1.ConditionFalse, "ServerStarting", 20)
			b.cloud.starting = silent
			b.pass()
			b.wait(59 * time.Second)
			b.pass()
			b.shows(corev1.ConditionFalse, "ServerStarting", 21)
			if strings.Count(b.events(), "ServerStarted") != 1 {
				t.Error("requests that were not sent recorded Events")
			}
			b.wait(time.Second)
			b.pass()
			b.shows(corev1.ConditionFalse, "ServerWontStart", 21)
		})
	}
}

func TestWhetherADeletionPutsTheNodeOutOfService(t *testing.T) {
	// dies deletes the Machine. Its Node has a pod that never terminates and an attached volume.
	dies := func(b *bench) *storagev1.VolumeAttachment {
		b.create(stubborn("p"))
		a := b.attach("volume")
		b.end()
		return a
	}
	t.Run("puts the Node out of service and then deletes the server when drover could not start the server", func(t *testing.T) {
		b := wontStart(t)
		tainted := false
		b.cloud.onDelete = func() { tainted = outOfService(b.node()) }
		a := dies(b)
		b.pass()
		if !outOfService(b.node()) || b.cloud.count("DeleteServer") != 0 || b.deleting().Reason != "WaitingForVolumes" {
			t.Fatalf("out of service: %v, %d servers deleted, %+v", outOfService(b.node()), b.cloud.count("DeleteServer"), b.deleting())
		}
		if looks := b.cloud.count("ObserveNow"); looks != 1 || strings.Count(b.events(), "NodeOutOfService") != 1 {
			t.Errorf("%d looks", looks)
		}
		b.pass()
		if looks := b.cloud.count("ObserveNow"); looks != 1 {
			t.Errorf("%d calls for a Node that is out of service already", looks)
		}
		// Kubernetes detaches the volumes of a Node that is out of service.
		b.remove(a)
		for range 5 {
			b.wait(10 * time.Second)
			b.pass()
		}
		if !tainted || b.read().Name != "" || b.cloud.servers["u"].exists || b.node().Name != "" {
			t.Errorf("out of service before the server's end: %v; left: %+v", tainted, b.read().Status)
		}
	})
	for name, now := range map[string]func(*bench){
		"does not put the Node out of service when a live read shows that the server runs (MCM-56)": func(b *bench) { b.cloud.active(b.cloud.servers["u"]) },
		"does not put the Node out of service when somebody is starting the server (MCM-56)":        func(b *bench) { b.cloud.servers["u"].State = cloud.ServerStarting },
		"does not put the Node out of service when the server is paused (MCM-56)":                   func(b *bench) { b.cloud.servers["u"].State = cloud.ServerOther },
	} {
		t.Run(name, func(t *testing.T) {
			b := wontStart(t)
			dies(b)
			b.cloud.failing = func(call string) error {
				if call == "ObserveNow" {
					now(b)
				}
				return nil
			}
			b.pass()
			if outOfService(b.node()) || b.cloud.count("ObserveNow") != 1 {
				t.Errorf("out of service: %v, %d calls", outOfService(b.node()), b.cloud.count("ObserveNow"))
			}
		})
	}
	t.Run("does not put the Node out of service when the cloud does not answer (MCM-56)", func(t *testing.T) {
		b := wontStart(t)
		dies(b)
		b.cloud.failing = func(call string) error {
			if call == "ObserveNow" {
				return fault.New(fault.Transient, fault.CodeCloudUnavailable, "503")
			}
			return nil
		}
		b.pass()
		if outOfService(b.node()) || b.deleting().Reason != "" && b.deleting().Reason != "DrainingNode" {
			t.Errorf("out of service: %v, %+v", outOfService(b.node()), b.deleting())
		}
	})
	t.Run("does not put the Node out of service while the Node is Ready (MCM-56)", func(t *testing.T) {
		b := wontStart(t)
		b.nodeReady(corev1.ConditionTrue)
		dies(b)
		b.pass()
		if outOfService(b.node()) || b.cloud.count("ObserveNow") != 0 {
			t.Errorf("out of service: %v, %d calls", outOfService(b.node()), b.cloud.count("ObserveNow"))
		}
	})
	t.Run("puts the Node back in service when somebody has started the server (MCM-56)", func(t *testing.T) {
		b := wontStart(t)
		dies(b)
		b.pass()
		if !outOfService(b.node()) {
			t.Fatal("the Node is not out of service")
		}
		tainted := false
		b.cloud.onDelete = func() { tainted = outOfService(b.node()) }
		b.cloud.change("u", func(s *fakeServer) { b.cloud.active(s) })
		b.pass()
		if outOfService(b.node()) || tainted {
			t.Errorf("out of service: %v, and when its server was deleted %v", outOfService(b.node()), tainted)
		}
	})
	t.Run("records no Event NodeOutOfService when a live read finds the server deleted, because the Event is about a shut-down server", func(t *testing.T) {
		b := wontStart(t)
		dies(b)
		b.cloud.failing = func(call string) error {
			if call == "ObserveNow" {
				b.cloud.servers["u"].exists = false
			}
			return nil
		}
		b.pass()
		if events := b.events(); strings.Contains(events, "NodeOutOfService") || b.cloud.count("ObserveNow") != 1 {
			t.Errorf("%d calls, Events: %s", b.cloud.count("ObserveNow"), events)
		}
	})
	t.Run("does not put the Node out of service when the start of the server has not failed", func(t *testing.T) {
		b := joined(t, owned)
		dies(b)
		b.shutDown()
		b.pass()
		if outOfService(b.node()) || b.cloud.count("ObserveNow") != 0 || b.cloud.count("StartServer") != 0 {
			t.Errorf("out of service: %v, %v", outOfService(b.node()), b.cloud.calls)
		}
	})
	for _, word := range []string{"ERROR", "PAUSED", "SUSPENDED", "SHELVED_OFFLOADED", "UNKNOWN"} {
		t.Run("puts the Node of a server in state "+word+" out of service only after the server is proven gone (MCM-56)", func(t *testing.T) {
			b := joined(t, owned)
			b.becomes(word, "")
			if word == "ERROR" {
				b.cloud.change("u", func(s *fakeServer) { s.State = cloud.ServerError })
			}
			b.nodeReady(corev1.ConditionUnknown)
			b.pass()
			if m := b.read(); m.DeletionTimestamp != nil || b.cloud.count("StartServer") != 0 || b.serverReady().Status == corev1.ConditionTrue {
				t.Fatalf("%+v", m.Status)
			}
			b.wait(10 * time.Minute)
			b.cloud.slow = true
			dies(b)
			for range 5 {
				b.wait(10 * time.Second)
				b.pass()
			}
			if outOfService(b.node()) || b.cloud.count("DeleteServer") == 0 {
				t.Fatalf("the Node is out of service while its server exists: %v", b.cloud.calls)
			}
			b.cloud.change("u", func(s *fakeServer) { s.exists = false })
			b.pass()
			if !outOfService(b.node()) {
				t.Errorf("the Node is not out of service: %+v", b.node())
			}
		})
	}
}

func TestAServerWithATaskOfAnotherUserIsLeftAlone(t *testing.T) {
	t.Run("condition ServerReady shows ServerBusy for the first half hour of a resize, even when drover restarts", func(t *testing.T) {
		b := joined(t, owned)
		b.becomes("RESIZE", "RESIZE")
		result := b.pass()
		b.shows(corev1.ConditionFalse, "ServerBusy", 0)
		if result.RequeueAfter != 30*time.Minute || !strings.Contains(b.serverReady().Message, "RESIZE") {
			t.Errorf("the next reconcile is after %v, %+v", result.RequeueAfter, b.serverReady())
		}
		since := b.serverReady().LastTransitionTime
		b.wait(29 * time.Minute)
		b.restart()
		b.becomes("VERIFY_RESIZE", "VERIFY_RESIZE")
		b.pass()
		b.shows(corev1.ConditionFalse, "ServerBusy", 0)
		b.wait(time.Minute)
		b.pass()
		b.shows(corev1.ConditionFalse, "ServerNotActive", 0)
		b.wait(24 * time.Hour)
		b.pass()
		b.shows(corev1.ConditionFalse, "ServerNotActive", 0)
		if c := b.serverReady(); !c.LastTransitionTime.Equal(since) {
			t.Errorf("since %v, now since %v", since, c.LastTransitionTime)
		}
	})
	t.Run("writes nothing during a task of a server that is ACTIVE and whose Node is Ready", func(t *testing.T) {
		b := joined(t, owned)
		b.pass()
		b.written = tally{}
		b.cloud.change("u", func(s *fakeServer) { s.Busy = "image_snapshot" })
		b.shown()
		b.shows(corev1.ConditionTrue, "ServerActive", 0)
		if n := b.written.all(); n != 0 {
			t.Errorf("%d writes", n)
		}
		b.nodeReady(corev1.ConditionUnknown)
		b.pass()
		b.shows(corev1.ConditionFalse, "ServerBusy", 0)
	})
}

func TestAServerInErrorWithAReadyNodeIsLeftAlone(t *testing.T) {
	t.Run("neither deletes nor starts a server in ERROR while its Node is Ready (MCM-42)", func(t *testing.T) {
		b := joined(t, owned)
		b.cloud.change("u", func(s *fakeServer) { s.State, s.Status = cloud.ServerError, "ERROR" })
		for range 3 {
			b.shown()
			b.wait(time.Hour)
		}
		b.shows(corev1.ConditionFalse, "ServerError", 0)
		if m := b.read(); m.DeletionTimestamp != nil || !isReady(m) || b.cloud.count("DeleteServer") != 0 {
			t.Errorf("%v, %+v", b.cloud.calls, m.Status)
		}
	})
}

func TestAHealthyMachineCausesNoWritesAndNoCloudCalls(t *testing.T) {
	b := joined(t, owned)
	b.shown()
	b.written = tally{}
	b.cloud.calls = map[string]int{}
	for range 100 {
		b.wait(time.Minute)
		b.pass()
	}
	if n := b.written.all(); n != 0 || len(b.cloud.calls) != 0 {
		t.Errorf("%d writes, calls %v", n, b.cloud.calls)
	}
}
