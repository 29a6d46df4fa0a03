package machine_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
)

// forcedWithin is how long a forced deletion may take.
const forcedWithin = 5 * time.Minute

// bootVolume is a volume of the Machine's server.
const bootVolume = "22222222-2222-4222-8222-222222222222"

// toForce returns a bench with a Machine that has everything that can be left behind: a server with a port, a floating IP and
// a volume, and a Node with a pod that never terminates and a volume that is never detached. dead means that the kubelet does
// not answer.
func toForce(t *testing.T, dead bool) *bench {
	t.Helper()
	b := joined(t, nil)
	b.cloud.change("u", func(s *fakeServer) { s.record.VolumeIDs = []string{bootVolume} })
	b.pass()
	b.create(stubborn("p"))
	b.attach("pv-1")
	if dead {
		n := b.node()
		n.Status.Conditions[0].Status = corev1.ConditionUnknown
		if err := b.memory.client.Status().Update(t.Context(), n); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

// force requests the forced deletion of the Machine.
func (b *bench) force() {
	b.t.Helper()
	b.annotate(v1alpha1.AnnotationForceDelete, "true")
	b.end()
	b.events()
}

// forcedEvents reconciles the Machine whenever it is due, until the Machine is gone. It returns the Events. It fails the test
// when the deletion takes too long or nothing requeues the Machine.
func (b *bench) forcedEvents() string {
	b.t.Helper()
	begin := b.clock.Now()
	for {
		after := b.pass().RequeueAfter
		took := b.clock.Now().Sub(begin)
		switch gone := b.read().Name == ""; {
		case took > forcedWithin:
			b.t.Fatalf("gone %v after %v: %+v", gone, took, b.deleting())
		case gone:
			return b.events()
		case after == 0:
			b.t.Fatalf("nothing wakes the Machine: %+v", b.deleting())
		}
		b.wait(after)
	}
}

// listsWhatIsLeft fails the test unless one Event names the server, its port, its floating IP and its volume, and contains
// the texts in more.
func (b *bench) listsWhatIsLeft(events string, more ...string) {
	b.t.Helper()
	if n := strings.Count(events, "ForceDelete"); n != 1 {
		b.t.Errorf("%d Events, want one: %s", n, events)
	}
	for _, text := range append(more, "may be left", "00000000-0000-4000-8000-000000000001", "port-m", "address-m", bootVolume) {
		if !strings.Contains(events, text) {
			b.t.Errorf("%q is not in %s", text, events)
		}
	}
}

// cloudFailures holds failures of a call to the cloud, as drover's OpenStack driver reports them.
var cloudFailures = map[string]func(b *bench) error{
	"gets no connection": func(*bench) error {
		return fault.New(fault.Transient, fault.CodeCloudUnavailable, "the call failed: no connection")
	},
	"times out after a minute": func(b *bench) error {
		b.wait(time.Minute)
		return fault.New(fault.Transient, fault.CodeCloudUnavailable, "the call failed: no answer within 1m0s")
	},
	"is answered with 500": func(*bench) error {
		return fault.New(fault.Transient, fault.CodeServerError, "the call failed: HTTP 500")
	},
	"is answered with 401 each time": func(*bench) error { return fault.New(fault.Auth, fault.CodeUnauthorized, "the call failed: HTTP 401") },
	"is answered with 403":           func(*bench) error { return fault.New(fault.Auth, fault.CodeForbidden, "the call failed: HTTP 403") },
	"is answered with 404 by a proxy": func(*bench) error {
		return fault.New(fault.Transient, fault.CodeForeignAnswer, "the call failed: HTTP 404")
	},
	"is answered with 409": func(*bench) error { return fault.New(fault.Conflict, fault.CodeConflict, "the call failed: HTTP 409") },
	"is answered with 429 and a Retry-After of a day": func(*bench) error {
		err := fault.New(fault.RateLimited, fault.CodeRateLimited, "the call failed: HTTP 429")
		err.RetryAfter = 5 * time.Minute
		return err
	},
	"must wait until drover's other calls are done": func(*bench) error {
		err := fault.New(fault.RateLimited, fault.CodeWaitingForTurn, "the call failed: it waits for its turn")
		err.RetryAfter = 5 * time.Minute
		return err
	},
}

// both maps the ending of a test's name to whether the kubelet of the Machine does not answer.
var both = map[string]bool{"": false, " and the kubelet does not answer": true}

func TestForcedDeletionEndsWhateverTheCloudAnswers(t *testing.T) {
	for call, request := range map[string]string{
		"Instance": "the sign-in", "Observe": "the read of the server", "DeleteServer": "the deletion of the server",
		"Release": "the deletion of its ports and floating IP",
	} {
		for name, failure := range cloudFailures {
			for node, dead := range both {
				t.Run("ends within five minutes, and an Event lists what may be left, when "+request+" "+name+node+" (F-28)", func(t *testing.T) {
					b := toForce(t, dead)
					b.force()
					b.cloud.failing = func(made string) error {
						if made != call {
							return nil
						}
						return failure(b)
					}
					events := b.forcedEvents()
					b.listsWhatIsLeft(events)
					if !strings.HasPrefix(name, "must wait") && !strings.Contains(events, "the call failed") {
						t.Errorf("the cause of the failure is not in %s", events)
					}
				})
			}
		}
	}
}

// neverDone holds states of a cloud that accepts all requests and does not finish them, each with a text that the Event contains.
var neverDone = map[string]struct {
	begin func(c *fakeCloud)
	says  string
}{
	"the server stays ACTIVE": {func(c *fakeCloud) { c.slow = true }, "the server was in state ACTIVE"},
	"the server stays DELETING": {func(c *fakeCloud) {
		c.slow = true
		c.onDelete = func() { c.servers["u"].State, c.servers["u"].Status = cloud.ServerDeleting, "DELETING" }
	}, "the server was in state DELETING"},
	"ports and volumes are never deleted":              {func(c *fakeCloud) { c.unreleased = true }, "ports are being deleted"},
	"drover can never read a complete list of servers": {func(c *fakeCloud) { c.unsynced = true }, ""},
	"the state of the server is unknown":               {func(c *fakeCloud) { c.unknown = "another project" }, ""},
}

func TestForcedDeletionEndsInAnyStateOfTheCloud(t *testing.T) {
	for name, tt := range neverDone {
		for node, dead := range both {
			t.Run("ends within five minutes, and an Event lists what may be left, when "+name+node+" (F-25, F-28)", func(t *testing.T) {
				b := toForce(t, dead)
				b.force()
				tt.begin(b.cloud)
				b.listsWhatIsLeft(b.forcedEvents(), tt.says)
			})
		}
	}
}

// things is the resource that the errors of the API server name.
var things = schema.GroupResource{Resource: "things"}

// clusterFailures holds failures of a call to the API server.
var clusterFailures = map[string]func(b *bench) error{
	"gets no connection": func(*bench) error { return errors.New("connection refused") },
	"times out after a minute": func(b *bench) error {
		b.wait(time.Minute)
		return errors.New("context deadline exceeded")
	},
	"is answered with 500":           func(*bench) error { return apierrors.NewInternalError(errors.New("no reason")) },
	"is answered with 401 each time": func(*bench) error { return apierrors.NewUnauthorized("no") },
	"is answered with 403":           func(*bench) error { return apierrors.NewForbidden(things, "thing", errors.New("no")) },
	"is answered with 404 by a proxy": func(*bench) error {
		return apierrors.NewGenericServerResponse(http.StatusNotFound, "", things, "thing", "default backend - 404", 0, true)
	},
	"is answered with a conflict":                     func(*bench) error { return apierrors.NewConflict(things, "thing", errors.New("it has changed")) },
	"is answered with 429 and a Retry-After of a day": func(*bench) error { return apierrors.NewTooManyRequests("later", 86400) },
}

func TestForcedDeletionEndsWhateverTheClusterAnswers(t *testing.T) {
	for _, call := range []string{"eviction", "LIST *v1.PodList", "LIST *v1.VolumeAttachmentList", "PATCH *v1.Node", "DELETE *v1.Node"} {
		for name, failure := range clusterFailures {
			for node, dead := range both {
				t.Run("ends within five minutes when the API call "+strings.NewReplacer("*v1.", "", "List", "s").Replace(call)+" "+name+node+" (F-22, F-28)", func(t *testing.T) {
					b := toForce(t, dead)
					b.force()
					b.failing = func(made string) error {
						if made != call {
							return nil
						}
						return failure(b)
					}
					b.evicting = func(string) error { return b.failing("eviction") }
					events := b.forcedEvents()
					if b.cloud.servers["u"].exists || b.cloud.servers["u"].leftovers {
						t.Errorf("resources are left in a cloud that works: %s", events)
					}
					kept, named := b.node().Name != "", strings.Contains(events, "deleting node m: ")
					if kept != named && name != "is answered with 404 by a proxy" {
						t.Errorf("the Node is left: %v; events: %s", kept, events)
					}
				})
			}
		}
	}
}

func TestForcedDeletionLimitsEachWait(t *testing.T) {
	t.Run("ends without waiting until a Node with a finalizer is gone (F-28)", func(t *testing.T) {
		b := toForce(t, false)
		n := b.node()
		n.Finalizers = []string{"example.com/stays"}
		b.update(n)
		b.force()
		if events := b.forcedEvents(); b.node().DeletionTimestamp == nil || strings.Contains(events, "may be left") {
			t.Errorf("%+v, %s", b.node().ObjectMeta, events)
		}
	})
	t.Run("waits until drover has listed the servers for the first time since its start, and then deletes the server (F-28)", func(t *testing.T) {
		b := toForce(t, false)
		b.force()
		b.cloud.unsynced = true
		b.pass()
		b.wait(20 * time.Second)
		b.pass()
		b.cloud.unsynced = false
		if events := b.forcedEvents(); b.cloud.servers["u"].exists || strings.Contains(events, "ForceDelete") {
			t.Errorf("the cloud works, and the server was left: %s", events)
		}
	})
	t.Run("ends although the join token cannot be deleted, and an Event names the cause (F-28)", func(t *testing.T) {
		b := newBench(t, nil)
		b.pass()
		b.force()
		b.failing = func(made string) error {
			if made == "DELETE *v1.Secret" {
				return errors.New("connection refused")
			}
			return nil
		}
		if events := b.forcedEvents(); strings.Count(events, "ForceDelete") != 1 || !strings.Contains(events, "connection refused") {
			t.Errorf("%s", events)
		}
	})
	t.Run("ends within five minutes although drover restarts meanwhile (F-28)", func(t *testing.T) {
		b := toForce(t, false)
		b.force()
		b.cloud.unreleased = true
		begin := b.clock.Now()
		for range 7 {
			b.pass()
			b.wait(15 * time.Second)
		}
		b.restart()
		b.listsWhatIsLeft(b.forcedEvents(), "ports are being deleted")
		if took := b.clock.Now().Sub(begin); took > forcedWithin {
			t.Errorf("it took %v", took)
		}
	})
	t.Run("the five minutes count from the annotation that forces the deletion, not from the delete call (F-28)", func(t *testing.T) {
		b := toForce(t, false)
		b.end()
		b.wait(time.Hour)
		b.pass()
		b.annotate(v1alpha1.AnnotationForceDelete, "true")
		b.events()
		if events := b.forcedEvents(); b.cloud.servers["u"].exists || strings.Contains(events, "ForceDelete") {
			t.Errorf("the cloud works, and the server was left: %s", events)
		}
	})
	t.Run("an Event lists what may be left even if the first removal of the finalizers was refused (F-28)", func(t *testing.T) {
		b := toForce(t, false)
		b.force()
		b.cloud.failing = func(string) error { return fault.New(fault.Auth, fault.CodeForbidden, "you may not") }
		refused := false
		b.patches.before = func(o client.Object) error {
			if _, ours := o.(*v1alpha1.Machine); ours && len(o.GetFinalizers()) == 0 && !refused {
				refused = true
				return apierrors.NewConflict(things, "m", errors.New("it has changed"))
			}
			return nil
		}
		if events := b.forcedEvents(); !refused || !strings.Contains(events, "may be left") {
			t.Errorf("refused %v: %s", refused, events)
		}
	})
	t.Run("removes the finalizers with a second patch when the first patch is answered with 404 although the Machine exists (F-28)", func(t *testing.T) {
		b := toForce(t, false)
		b.force()
		found := false
		b.patches.before = func(o client.Object) error {
			if _, ours := o.(*v1alpha1.Machine); ours && len(o.GetFinalizers()) == 0 && !found {
				found = true
				return apierrors.NewNotFound(things, "m")
			}
			return nil
		}
		b.forcedEvents()
	})
}

func TestTheNodeOfAGoneServerIsDeleted(t *testing.T) {
	for name, failing := range map[string]func(c *fakeCloud){
		"deletes the Node and keeps the Machine when the cloud never deletes the ports and volumes": func(c *fakeCloud) { c.unreleased = true },
		"deletes the Node and keeps the Machine when the cloud answers the deletion of the ports with 500": func(c *fakeCloud) {
			c.failing = func(call string) error {
				if call == "Release" {
					return fault.New(fault.Transient, fault.CodeServerError, "ports are being deleted: HTTP 500")
				}
				return nil
			}
		},
	} {
		for node, dead := range both {
			t.Run(name+node+" (F-25)", func(t *testing.T) {
				b := joined(t, nil)
				if dead {
					b = toForce(t, dead)
				}
				failing(b.cloud)
				b.end()
				for range 100 {
					b.pass()
					b.wait(30 * time.Second)
				}
				c := b.deleting()
				if b.node().Name != "" || c.Reason != "ReleasingResources" || !strings.Contains(c.Message, "ports are being deleted") || b.read().Name == "" {
					t.Errorf("node %q, %+v", b.node().Name, c)
				}
			})
		}
	}
}
