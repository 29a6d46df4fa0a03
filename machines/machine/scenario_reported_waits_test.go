package machine_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/fault"
)

func TestACloudThatRefusesForHoursAndIsRepaired(t *testing.T) {
	for name, failure := range map[string]*fault.Error{
		"refused credentials": fault.New(fault.Auth, fault.CodeUnauthorized, "the sign-in is refused"),
		"missing credentials": fault.New(fault.Auth, fault.CodeCredentialsMissing, "Secret kube-system/openstack is missing"),
		"a wrong spec":        fault.New(fault.Invalid, fault.CodeInvalidSpec, "MachineClass workers is missing"),
	} {
		for call, stage := range map[string]string{"Instance": "the sign-in", "Prepare": "the port", "EnsureServer": "the server"} {
			t.Run("a Machine gets its server within five minutes after "+name+" for "+stage+" were repaired, and shows no failure any more (report 64)", func(t *testing.T) {
				b := newBench(t, deployed)
				broken := true
				b.cloud.failing = func(made string) error {
					if broken && made == call {
						return failure
					}
					return nil
				}
				b.tries(360)
				if b.cloud.made != 0 || b.read().DeletionTimestamp != nil {
					t.Fatalf("%d servers, %+v", b.cloud.made, b.read().Status)
				}
				broken = false
				if failure.Class == fault.Invalid {
					// An author repairs the object, which is a change that drover sees.
					b.annotate("example.com/repaired", "true")
				}
				b.restart()
				b.tries(11)
				if m := b.read(); b.cloud.made != 1 || m.Status.ErrorReason != nil || m.Status.ErrorMessage != nil {
					t.Errorf("%d servers, error %v", b.cloud.made, ptr.Deref(m.Status.ErrorMessage, ""))
				}
			})
		}
	}
}

func TestAForcedDeletionWithoutACloud(t *testing.T) {
	for stage, prepare := range map[string]func(t *testing.T) *bench{
		"that has no server yet": func(t *testing.T) *bench {
			b := newBench(t, owned)
			b.cloud.queued = fault.New(fault.Transient, fault.CodeCloudUnavailable, "no connection")
			b.tries(2)
			return b
		},
		"whose server is being made":       func(t *testing.T) *bench { b := newBench(t, owned); b.tries(2); return b },
		"whose server has not joined":      func(t *testing.T) *bench { return booted(t, owned) },
		"whose Node is Ready and has pods": func(t *testing.T) *bench { return toForce(t, false) },
		"whose deletion has begun long ago": func(t *testing.T) *bench {
			b := toForce(t, false)
			b.cloud.slow = true
			b.end()
			b.drains(3 * time.Hour)
			return b
		},
	} {
		for name, failure := range map[string]*fault.Error{
			"cannot be reached":       fault.New(fault.Transient, fault.CodeCloudUnavailable, "no connection"),
			"refuses the credentials": fault.New(fault.Auth, fault.CodeUnauthorized, "HTTP 401"),
		} {
			t.Run("of a Machine "+stage+" ends within five minutes when the cloud "+name+" for good, although drover restarts every 20 s (report 70)", func(t *testing.T) {
				b := prepare(t)
				b.cloud.slow = true
				b.cloud.failing = func(string) error { return failure }
				b.annotate(v1alpha1.AnnotationForceDelete, "true")
				if b.read().DeletionTimestamp == nil {
					b.end()
				}
				for range 15 {
					b.pass()
					b.wait(20 * time.Second)
					b.restart()
				}
				if m := b.read(); m.Name != "" {
					t.Errorf("the Machine still exists: %+v", b.deleting())
				}
			})
		}
	}
}

func TestTheJoinTokenOfASlowServer(t *testing.T) {
	t.Run("is valid and stays the same as long as the server boots, when drover looks only as often as it has asked for, and restarts (report 82, report 83)", func(t *testing.T) {
		b := newBench(t, deployed)
		d := b.pool()
		metav1.SetMetaDataAnnotation(&d.ObjectMeta, v1alpha1.AnnotationJoinTimeout, "0")
		b.update(d)
		token := func() *corev1.Secret {
			t.Helper()
			var all corev1.SecretList
			if err := b.memory.client.List(t.Context(), &all, client.HasLabels{v1alpha1.LabelTokenMachine}); err != nil || len(all.Items) != 1 {
				t.Fatalf("%d tokens, %v", len(all.Items), err)
			}
			return &all.Items[0]
		}
		b.pass()
		first := token()
		for began, n := b.clock.Now(), 0; b.clock.Since(began) < 6*time.Hour; n++ {
			if n == 100 {
				b.cloud.change("u", func(s *fakeServer) { b.cloud.active(s) })
			}
			after := b.pass().RequeueAfter
			if after <= 0 {
				t.Fatalf("after %s nothing makes drover look again", b.clock.Since(began))
			}
			b.wait(after)
			expires, err := time.Parse(time.RFC3339, string(token().Data["expiration"]))
			if err != nil || !expires.After(b.clock.Now()) {
				t.Fatalf("after %s the token is valid until %s, error %v", b.clock.Since(began), expires, err)
			}
			if now := token(); now.Name != first.Name || string(now.Data["token-secret"]) != string(first.Data["token-secret"]) {
				t.Fatalf("after %s it is another token", b.clock.Since(began))
			}
			if n%7 == 0 {
				b.restart()
			}
		}
	})
}

func TestTheStartupTaintAndADriverOfVolumes(t *testing.T) {
	t.Run("the taint stays until the driver's pod on that Node is Ready, whatever its pods elsewhere are, and although drover restarts (report 123)", func(t *testing.T) {
		b := newBench(t, deployed)
		start := func() {
			o := b.options
			o.Nodes.Start.Taint, o.Nodes.Start.DaemonSets = startup, []types.NamespacedName{{Namespace: "kube-system", Name: "csi"}}
			b.start(o)
		}
		start()
		b.pass()
		b.cloud.change("u", func(s *fakeServer) { b.cloud.active(s) })
		b.pass()
		b.registers(corev1.ConditionTrue)
		driver := func(name, node string, ready corev1.ConditionStatus) *corev1.Pod {
			return &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name, OwnerReferences: []metav1.OwnerReference{{Kind: "DaemonSet", Name: "csi", Controller: ptr.To(true)}}},
				Spec:       corev1.PodSpec{NodeName: node}, Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}},
			}
		}
		b.create(driver("csi-elsewhere", "elsewhere", corev1.ConditionTrue))
		own := driver("csi-own", "m", corev1.ConditionFalse)
		b.create(own)
		for range 20 {
			b.pass()
			start()
			b.wait(time.Minute)
			if !hasTaint(b.node(), startup) {
				t.Fatal("the taint was removed before the driver's pod was Ready")
			}
		}
		own.Status.Conditions[0].Status = corev1.ConditionTrue
		if err := b.memory.client.Status().Update(t.Context(), own); err != nil {
			t.Fatal(err)
		}
		b.shown()
		b.hasStarted()
	})
}
