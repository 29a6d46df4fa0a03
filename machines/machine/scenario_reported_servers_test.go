package machine_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
)

func TestServersThatFailOneAfterTheOther(t *testing.T) {
	for name, code := range map[string]fault.Code{
		"of one Machine are each deleted, and a server that works follows, although drover restarts all the time (report 30)":      fault.CodeServerError,
		"for lack of resources are each deleted, and a server that works follows, although drover restarts (report 30, report 31)": fault.CodeNoValidHost,
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, deployed)
			const failures = 5
			exists := map[string]bool{}
			b.cloud.onServer = func(id, _ string, _ []byte) { exists[id] = true }
			b.cloud.onGone = func(id string) { delete(exists, id) }
			for n := 0; b.cloud.made <= failures && n < 400; n++ {
				b.restart()
				b.pass()
				b.cloud.change("u", func(s *fakeServer) {
					if b.cloud.made <= failures && s.State == cloud.ServerBuilding {
						s.State, s.Status, s.Fault = cloud.ServerError, "ERROR", fault.New(fault.NoCapacity, code, "No valid host was found.")
					}
				})
				if phase := ptr.Deref(b.read().Status.Phase, ""); phase == v1alpha1.PhaseRunning {
					t.Fatalf("the Machine is shown as %s", phase)
				}
				if len(exists) > 1 {
					t.Fatalf("%d servers exist at once", len(exists))
				}
				b.wait(time.Minute)
			}
			if b.cloud.made != failures+1 {
				t.Fatalf("%d servers were made in 400 minutes: %+v", b.cloud.made, b.read().Status)
			}
			b.cloud.change("u", func(s *fakeServer) { b.cloud.active(s) })
			b.pass()
			b.create(b.nodeOf())
			b.shown()
			if m := b.read(); len(exists) != 1 || !isReady(m) || m.Status.ErrorReason != nil {
				t.Errorf("%d servers exist, status %+v", len(exists), m.Status)
			}
		})
	}
}

func TestAServerThatSomebodyWorksOn(t *testing.T) {
	for _, state := range []string{"RESCUE", "VERIFY_RESIZE", "MIGRATING", "REBOOT", "PAUSED", "SUSPENDED", "SHELVED_OFFLOADED"} {
		t.Run("in state "+state+" is neither failed nor deleted nor started for a day, and works again afterwards (report 34)", func(t *testing.T) {
			b := joined(t, owned)
			b.becomes(state, strings.ToLower(state))
			b.nodeReadyWithoutPass(corev1.ConditionUnknown)
			for range 48 {
				b.pass()
				b.wait(30 * time.Minute)
				b.restart()
			}
			if m := b.read(); m.DeletionTimestamp != nil || *m.Status.Phase == v1alpha1.PhaseFailed || b.cloud.count("DeleteServer")+b.cloud.count("StartServer") != 0 {
				t.Errorf("calls %v, status %+v", b.cloud.calls, m.Status)
			}
			if c := b.serverReady(); c.Status == corev1.ConditionTrue || !strings.Contains(strings.ToUpper(c.Message), state) {
				t.Errorf("ServerReady is %+v", c)
			}
			b.cloud.change("u", func(s *fakeServer) { b.cloud.active(s) })
			b.nodeReadyWithoutPass(corev1.ConditionTrue)
			b.shown()
			if c := b.serverReady(); c.Status != corev1.ConditionTrue || !isReady(b.read()) {
				t.Errorf("ServerReady is %+v", c)
			}
		})
	}
}

func TestAServerThatNovaNeverFinishes(t *testing.T) {
	for name, every := range map[string]time.Duration{"": time.Minute, ", and drover is away for most of the time": 25 * time.Minute} {
		for owner, change := range map[string]func(*v1alpha1.Machine){"set": owned, "deployment": deployed} {
			t.Run("is deleted with its Machine after the join timeout, so that the "+owner+" makes another one"+name+" (report 35)", func(t *testing.T) {
				b := newBench(t, change)
				b.pass()
				for range 3 {
					b.wait(every)
					b.restart()
					b.pass()
				}
				b.wait(10 * time.Minute)
				b.tries(6)
				if b.read().Name != "" || b.cloud.made != 1 || b.cloud.servers["u"].exists || b.cloud.servers["u"].leftovers {
					t.Errorf("the Machine is %q, %d servers were made, the last is %+v", b.read().Name, b.cloud.made, b.cloud.servers["u"])
				}
			})
		}
	}
}

func TestAServerThatARepairHasLeftShutDown(t *testing.T) {
	for name, starting := range map[string]func(*fakeServer) error{
		"the cloud refuses it": refusing,
		"the cloud accepts it, and the server stays where it is": silent,
	} {
		t.Run("gets one request to start when "+name+", also when drover ends after each write, and is then shown as one that does not start (report 37)", func(t *testing.T) {
			b := joined(t, owned)
			b.cloud.starting = starting
			b.shutDown()
			b.nodeReadyWithoutPass(corev1.ConditionUnknown)
			for range 60 {
				b.restart()
				b.pass()
				b.wait(time.Minute)
			}
			b.shows(corev1.ConditionFalse, "ServerWontStart", 1)
		})
	}
}

func TestDeletionOfAMachineThatNeverGotAServer(t *testing.T) {
	for name, stop := range map[string]func(b *bench){
		"and whose spec has never been readable": func(b *bench) {
			b.cloud.refuse["m"] = fault.New(fault.Invalid, fault.CodeInvalidSpec, "MachineClass workers is missing")
		},
		"and whose spec names an image that never existed": func(b *bench) {
			b.cloud.queued = fault.New(fault.Invalid, fault.CodeImageNotFound, "there is no such image")
		},
		"and that drover has never reconciled": nil,
	} {
		for _, labels := range []map[string]string{nil, {"cluster.k8s.io/cluster-name": "c"}} {
			t.Run(fmt.Sprintf("%s ends at once with the labels %v (report 136, report 137)", name, labels), func(t *testing.T) {
				b := newBench(t, func(m *v1alpha1.Machine) { m.Labels = labels })
				if stop != nil {
					stop(b)
					b.tries(3)
					b.restart()
				} else {
					m := b.read()
					m.Finalizers = []string{v1alpha1.FinalizerServer, v1alpha1.FinalizerNode}
					b.update(m)
				}
				b.end()
				b.tries(2)
				if m := b.read(); m.Name != "" || b.cloud.made != 0 {
					t.Errorf("the Machine still exists after a minute: %+v", b.deleting())
				}
			})
		}
	}
}

func TestADeletionAndVolumesOfNobody(t *testing.T) {
	for name, attach := range map[string]func(b *bench){
		"that no VolumeAttachment names is not waited for (report 57)":                                          nil,
		"of an attachment whose PersistentVolume does not exist is waited for five minutes at most (report 57)": func(b *bench) { b.attach("nowhere") },
		"of an attachment that a finalizer keeps is waited for five minutes at most (report 59)": func(b *bench) {
			a := b.attach("pv-1")
			a.Finalizers = []string{"external-attacher/cinder"}
			b.update(a)
			b.remove(a)
		},
		"of an inline attachment is waited for five minutes at most (report 59)": func(b *bench) {
			a := b.attach("pv-1")
			a.Spec.Source.PersistentVolumeName, a.Spec.Source.InlineVolumeSpec = nil, &corev1.PersistentVolumeSpec{}
			b.update(a)
		},
	} {
		t.Run("a volume "+name, func(t *testing.T) {
			b := joined(t, nil)
			if attach != nil {
				attach(b)
			}
			b.end()
			b.pass()
			if early := b.cloud.count("DeleteServer"); attach == nil && early != 1 {
				t.Fatalf("%d requests to delete the server: %+v", early, b.deleting())
			}
			b.drains(3 * time.Minute)
			b.restart()
			b.drains(3 * time.Minute)
			if n := b.cloud.count("DeleteServer"); n != 1 || b.read().Name != "" && b.node().Name != "" {
				t.Errorf("%d requests to delete the server after six minutes: %+v", n, b.deleting())
			}
		})
	}
}

func TestADrainWhosePodsNeverEnd(t *testing.T) {
	t.Run("does not hold a forced deletion, whatever keeps the pods, and an Event names them (report 115)", func(t *testing.T) {
		b := joined(t, nil)
		b.create(stubborn("finalizer"))
		b.create(stubborn("budget"))
		b.evicting = func(pod string) error {
			if pod == "budget" {
				return refusedByBudget("The disruption budget guard")
			}
			return nil
		}
		b.end()
		b.drains(20 * time.Minute)
		if b.cloud.count("DeleteServer") != 0 {
			t.Fatalf("%+v", b.deleting())
		}
		b.annotate(v1alpha1.AnnotationForceDelete, "true")
		b.tries(12)
		if events := b.events(); b.read().Name != "" || b.cloud.servers["u"].exists || !strings.Contains(events, "ns/finalizer") || !strings.Contains(events, "ns/budget") {
			t.Errorf("the Machine is %q (%+v), Events: %s", b.read().Name, b.deleting(), events)
		}
	})
	t.Run("ends with the drain timeout without any annotation, although drover restarts (report 115)", func(t *testing.T) {
		b := joined(t, deployed)
		d := b.pool()
		metav1.SetMetaDataAnnotation(&d.ObjectMeta, v1alpha1.AnnotationDrainTimeout, "30m")
		b.update(d)
		b.create(stubborn("p"))
		b.end()
		for range 8 {
			b.drains(5 * time.Minute)
			b.restart()
		}
		if b.cloud.count("DeleteServer") == 0 {
			t.Errorf("%+v", b.deleting())
		}
	})
	t.Run("ends for the last worker, whose pods can run nowhere, although all of a budget are on it (report 119)", func(t *testing.T) {
		b := joined(t, nil)
		b.remove(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "elsewhere"}})
		b.create(stubborn("p"))
		b.create(stubborn("q"))
		b.evicting = func(string) error { return refusedByBudget("The disruption budget guard") }
		b.end()
		b.drains(2 * time.Minute)
		if b.cloud.count("DeleteServer") != 1 {
			t.Errorf("%+v", b.deleting())
		}
	})
	t.Run("a node gets no connections of load balancers from its cordon on, for the whole drain, although another program removes the label (report 120, report 121, report 122)", func(t *testing.T) {
		b := joined(t, deployed)
		b.create(stubborn("p"))
		b.end()
		for range 20 {
			b.drains(time.Minute)
			n := &corev1.Node{}
			if err := b.memory.client.Get(t.Context(), client.ObjectKey{Name: "m"}, n); err != nil {
				t.Fatal(err)
			}
			if _, excluded := n.Labels[corev1.LabelNodeExcludeBalancers]; !excluded || !n.Spec.Unschedulable || b.cloud.count("DeleteServer") != 0 {
				t.Fatalf("labels %v, unschedulable %v, %d requests to delete the server", n.Labels, n.Spec.Unschedulable, b.cloud.count("DeleteServer"))
			}
			delete(n.Labels, corev1.LabelNodeExcludeBalancers)
			b.update(n)
			b.restart()
		}
	})
}
