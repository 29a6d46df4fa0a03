package machine_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
)

// asked returns how often the cloud was asked to create or delete a resource.
func (b *bench) asked() (n int) {
	for _, call := range []string{"Prepare", "EnsureServer", "DeleteServer", "Release"} {
		n += b.cloud.count(call)
	}
	return n
}

func TestTheControllerLabelAndTheInitializersOfAMachine(t *testing.T) {
	label := func(value string) func(*v1alpha1.Machine) {
		return func(m *v1alpha1.Machine) { m.Labels = map[string]string{v1alpha1.LabelController: value} }
	}
	t.Run("writes nothing and creates nothing for a Machine of another controller (MC-79)", func(t *testing.T) {
		b := newBench(t, label("theirs"))
		before := b.read().ResourceVersion
		if result := b.pass(); !result.IsZero() || b.read().ResourceVersion != before || b.asked() != 0 {
			t.Errorf("result %v, %d calls, %+v", result, b.asked(), b.read())
		}
	})
	t.Run("when drover has a controller name, it creates servers only for Machines whose label has that name (MC-79)", func(t *testing.T) {
		for value, ours := range map[string]bool{"mine": true, "": false, "theirs": false} {
			b := newBench(t, label(value))
			o := b.options
			o.Name = "mine"
			b.start(o)
			b.pass()
			if made := b.read().Spec.ProviderID != nil; made != ours {
				t.Errorf("%q: made %v", value, made)
			}
		}
	})
	t.Run("still deletes a Machine's server and Node after the Machine's label was changed to another controller (MC-79)", func(t *testing.T) {
		b := joined(t, nil)
		m := b.read()
		label("theirs")(m)
		b.update(m)
		b.end()
		b.pass()
		b.pass()
		if b.read().Name != "" || b.cloud.servers["u"].exists || b.node().Name != "" {
			t.Errorf("%+v", b.read())
		}
	})
	t.Run("initializers delay the creation of the server and do not delay a deletion (MC-79)", func(t *testing.T) {
		for _, end := range []func(*bench){
			func(b *bench) { b.annotate(v1alpha1.AnnotationInitializers, ""); b.pass() },
			func(b *bench) { b.end(); b.pass() },
		} {
			b := newBench(t, func(m *v1alpha1.Machine) {
				m.Annotations = map[string]string{v1alpha1.AnnotationInitializers: "ipam"}
			})
			b.pass()
			if b.asked() != 0 || b.read().Spec.ProviderID != nil {
				t.Fatalf("%d calls, %+v", b.asked(), b.read())
			}
			end(b)
			if m := b.read(); m.Name != "" && m.Spec.ProviderID == nil {
				t.Errorf("%+v", m)
			}
		}
	})
}

func TestAFailedDeleteOfAMachineIsRepeated(t *testing.T) {
	t.Run("drover repeats a failed delete call, and until then does not show the Machine as being deleted (MCM-33)", func(t *testing.T) {
		b := newBench(t, owned)
		b.pass()
		b.cloud.change("u", func(s *fakeServer) { s.exists = false })
		b.undeletable = errors.New("the API server is out of reach")
		for range 2 {
			if _, err := b.machine.Reconcile(t.Context(), ctrl.Request{NamespacedName: b.key}); err == nil {
				t.Error("the failure returned no error, so that it would not be repeated")
			}
		}
		if m := b.read(); *m.Status.Phase != v1alpha1.PhaseFailed || find(m, v1alpha1.ConditionDeleting).Type != "" || m.DeletionTimestamp != nil {
			t.Errorf("%+v", m.Status)
		}
		b.undeletable = nil
		b.pass()
		if b.read().DeletionTimestamp == nil {
			t.Error("the delete was not repeated")
		}
	})
}

func TestLabelsAnnotationsAndTaintsOfAMachineReachItsNode(t *testing.T) {
	t.Run("removes labels, annotations and taints that the Machine lost, and keeps those that others set (MCM-4, MC-55)", func(t *testing.T) {
		since := metav1.NewTime(time.Unix(1700000000, 0))
		b := joined(t, func(m *v1alpha1.Machine) {
			m.Labels = map[string]string{"team": "blue", "tier": "web"}
			m.Spec.Metadata = v1alpha1.EmbeddedMetadata{Labels: map[string]string{"zone": "a", "old": "1"}, Annotations: map[string]string{"note": "x", "stale": "y"}}
			m.Spec.Taints = []corev1.Taint{{Key: "gpu", Effect: corev1.TaintEffectNoExecute}, {Key: "old", Effect: corev1.TaintEffectNoSchedule}}
		})
		n := b.node()
		n.Labels["theirs"], n.Annotations["theirs"] = "1", "1"
		n.Spec.Taints[0].TimeAdded = &since
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "theirs", Effect: corev1.TaintEffectNoSchedule})
		b.update(n)
		m := b.read()
		m.Labels = map[string]string{"team": "green"}
		m.Spec.Metadata = v1alpha1.EmbeddedMetadata{Labels: map[string]string{"zone": "a"}, Annotations: map[string]string{"note": "x"}}
		m.Spec.Taints = m.Spec.Taints[:1]
		b.update(m)
		b.pass()
		n = b.node()
		for key, want := range map[string]string{"team": "green", "zone": "a", "theirs": "1", "tier": "", "old": ""} {
			if got, there := n.Labels[key]; got != want || there != (want != "") {
				t.Errorf("label %s: %q (exists: %v)", key, got, there)
			}
		}
		_, stale := n.Annotations["stale"]
		if stale || n.Annotations["note"] != "x" || n.Annotations["theirs"] != "1" {
			t.Errorf("annotations %v", n.Annotations)
		}
		if len(n.Spec.Taints) != 2 || n.Spec.Taints[0].TimeAdded == nil || !n.Spec.Taints[0].TimeAdded.Time.Equal(since.Time) || n.Spec.Taints[1].Key != "theirs" {
			t.Errorf("taints %+v", n.Spec.Taints)
		}
	})
	t.Run("sets all labels, annotations and taints before the Node is Ready (MC-55)", func(t *testing.T) {
		b := newBench(t, func(m *v1alpha1.Machine) {
			m.Spec.Metadata = v1alpha1.EmbeddedMetadata{Labels: map[string]string{"node-role.kubernetes.io/worker": ""}, Annotations: map[string]string{"note": "x"}}
			m.Spec.Taints = []corev1.Taint{{Key: "gpu", Effect: corev1.TaintEffectNoSchedule}}
		})
		b.pass()
		b.cloud.change("u", func(s *fakeServer) { b.cloud.active(s) })
		n := b.nodeOf()
		n.Status.Conditions[0].Status = corev1.ConditionFalse
		b.create(n)
		b.pass()
		n = b.node()
		_, role := n.Labels["node-role.kubernetes.io/worker"]
		if !role || n.Annotations["note"] != "x" || len(n.Spec.Taints) != 1 || n.Annotations[v1alpha1.AnnotationOwnedBy] != "u" {
			t.Errorf("%+v %+v", n.ObjectMeta, n.Spec)
		}
	})
}

func TestADeletionWaitsForCredentialsAndMachineClass(t *testing.T) {
	for _, missing := range []*fault.Error{
		fault.New(fault.Auth, fault.CodeCredentialsMissing, "Secret kube-system/openstack is missing"),
		fault.New(fault.Invalid, fault.CodeInvalidSpec, "MachineClass workers is missing"),
	} {
		t.Run("keeps the Machine and shows the reason while "+missing.Message+", and continues the deletion afterwards (MCM-6, CAPI-45)", func(t *testing.T) {
			b := newBench(t, nil)
			b.pass()
			b.cloud.refuse["m"] = missing
			b.end()
			for range 20 {
				b.wait(10 * time.Minute)
				b.pass()
			}
			m := b.read()
			if c := b.deleting(); c.Reason != "CloudNotUsable" || !strings.Contains(c.Message, missing.Message) || len(m.Finalizers) != 2 || b.cloud.count("DeleteServer") != 0 {
				t.Fatalf("%+v, %d deletions", c, b.cloud.count("DeleteServer"))
			}
			b.restart()
			delete(b.cloud.refuse, "m")
			b.wait(10 * time.Minute)
			b.pass()
			b.pass()
			if b.read().Name != "" || b.cloud.servers["u"].exists || b.cloud.servers["u"].leftovers {
				t.Errorf("%+v, %+v", b.read(), b.cloud.servers["u"])
			}
		})
	}
}

func TestADeletionDuringTheCreationOfAServerLeavesNothing(t *testing.T) {
	for call, creates := range map[string]string{"Prepare": "creates the server's ports", "EnsureServer": "creates the server"} {
		t.Run("a Machine that is deleted while drover "+creates+" leaves no cloud resource and no join token (MCM-55)", func(t *testing.T) {
			b := newBench(t, nil)
			b.cloud.during = func(now string) {
				if now == call {
					b.cloud.during = nil
					b.remove(b.read())
				}
			}
			for range 5 {
				if _, err := b.machine.Reconcile(t.Context(), ctrl.Request{NamespacedName: b.key}); err != nil {
					t.Fatal(err)
				}
			}
			s := b.cloud.servers["u"]
			if b.read().Name != "" || s != nil && (s.exists || s.leftovers) || b.cloud.count("Release") == 0 {
				t.Errorf("%+v, %+v", b.read(), s)
			}
			b.noTokens()
		})
	}
}

// noTokens checks that no join token is left.
func (b *bench) noTokens() {
	b.t.Helper()
	var tokens corev1.SecretList
	if err := b.memory.client.List(b.t.Context(), &tokens, client.HasLabels{v1alpha1.LabelTokenMachine}); err != nil || len(tokens.Items) > 0 {
		b.t.Errorf("%d tokens, %v", len(tokens.Items), err)
	}
}

func TestTheStepsOfADeletion(t *testing.T) {
	t.Run("a new process continues a deletion from any interrupted step: drain, volumes, server, ports, finalizers (MCM-52)", func(t *testing.T) {
		b := joined(t, nil)
		pod, volume := stubborn("p"), b.attach("pv-1")
		b.create(pod)
		b.end()
		again := func(what string, ok func() bool) {
			t.Helper()
			for range 3 {
				b.restart()
				b.shown()
				if !ok() {
					t.Errorf("%s: %+v, node %q, %+v", what, b.deleting(), b.node().Name, b.cloud.calls)
				}
			}
		}
		untouched := func() bool {
			return b.cloud.count("DeleteServer")+b.cloud.count("Release") == 0 && b.node().Name != "" && len(b.read().Finalizers) == 2
		}
		again("the drain", func() bool { return b.deleting().Reason == "DrainingNode" && untouched() })
		p := &corev1.Pod{}
		if err := b.memory.client.Get(t.Context(), client.ObjectKeyFromObject(pod), p); err != nil {
			t.Fatal(err)
		}
		p.Finalizers = nil
		b.update(p)
		again("the volumes", func() bool { return b.deleting().Reason == "WaitingForVolumes" && untouched() })
		b.remove(volume)
		b.cloud.slow = true
		again("the server", func() bool {
			return b.deleting().Reason == "DeletingServer" && b.cloud.count("Release") == 0 && b.node().Name != "" && len(b.read().Finalizers) == 2
		})
		b.cloud.slow, b.cloud.unreleased = false, true
		b.cloud.change("u", func(s *fakeServer) { s.exists = false })
		again("its ports", func() bool {
			return b.deleting().Reason == "ReleasingResources" && b.node().Name == "" && len(b.read().Finalizers) == 2
		})
		b.cloud.unreleased = false
		b.restart()
		b.pass()
		if b.read().Name != "" || b.node().Name != "" {
			t.Errorf("%+v, node %q", b.read(), b.node().Name)
		}
	})
	t.Run("keeps the Machine while its Node cannot be deleted (MCM-52)", func(t *testing.T) {
		b := joined(t, nil)
		b.end()
		b.pass()
		b.undeletable = errors.New("the API server is out of reach")
		if _, err := b.machine.Reconcile(t.Context(), ctrl.Request{NamespacedName: b.key}); err == nil || len(b.read().Finalizers) != 2 {
			t.Errorf("error %v, %+v", err, b.read())
		}
	})
	t.Run("deletes the ports and the Node of a server that is already gone (MCM-53)", func(t *testing.T) {
		b := joined(t, nil)
		b.cloud.change("u", func(s *fakeServer) { s.exists = false })
		b.end()
		b.pass()
		if b.read().Name != "" || b.cloud.count("DeleteServer") != 0 || b.cloud.count("Release") != 1 || b.cloud.servers["u"].leftovers || b.node().Name != "" {
			t.Errorf("%+v, %v", b.read(), b.cloud.calls)
		}
	})
	t.Run("evicts no pod when the server's Node never registered (MCM-54)", func(t *testing.T) {
		b := newBench(t, nil)
		b.pass()
		b.cloud.change("u", func(s *fakeServer) { b.cloud.active(s) })
		b.pass()
		b.create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "elsewhere"}})
		b.create(stubborn("p"))
		b.end()
		b.pass()
		b.pass()
		p := &corev1.Pod{}
		if err := b.memory.client.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "p"}, p); err != nil || p.DeletionTimestamp != nil {
			t.Errorf("pod %v, %v", p.DeletionTimestamp, err)
		}
		if b.read().Name != "" || b.cloud.servers["u"].exists {
			t.Errorf("%+v", b.read())
		}
		b.noTokens()
	})
	t.Run("deletes the server without a drain when its Node has the annotation kubermatic.io/skip-eviction", func(t *testing.T) {
		b := joined(t, nil)
		b.create(stubborn("p"))
		n := b.node()
		metav1.SetMetaDataAnnotation(&n.ObjectMeta, v1alpha1.AnnotationSkipEviction, "true")
		b.update(n)
		b.end()
		b.pass()
		if b.cloud.count("DeleteServer") != 1 {
			t.Errorf("%+v", b.deleting())
		}
	})
	t.Run("ends a running drain when the deployment's annotation shortens the drain timeout (CAPI-42)", func(t *testing.T) {
		b := joined(t, deployed)
		b.create(stubborn("p"))
		b.end()
		b.drains(10 * time.Minute)
		d := b.pool()
		metav1.SetMetaDataAnnotation(&d.ObjectMeta, v1alpha1.AnnotationDrainTimeout, "10m")
		b.update(d)
		if b.drains(time.Minute); b.cloud.count("DeleteServer") != 1 {
			t.Errorf("%+v", b.deleting())
		}
	})
}

func TestWhatDroverDoesWhenOthersChangeAServer(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*fakeServer)
		reason string
	}{
		{"condition ServerReady shows that the server is shut off, and the Machine is kept (CAPI-33)", func(s *fakeServer) { s.State, s.Status = cloud.ServerOther, "SHUTOFF" }, "ServerNotActive"},
		{"condition ServerReady shows why the server failed, and the Machine is kept (CAPI-33)", func(s *fakeServer) {
			s.State, s.Fault = cloud.ServerError, fault.New(fault.Unknown, fault.CodeServerError, "the host caught fire")
		}, "ServerError"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := joined(t, owned)
			b.cloud.change("u", tt.change)
			b.pass()
			m := b.read()
			if c := find(m, v1alpha1.ConditionServerReady); c.Reason != tt.reason || c.Message == "" || m.DeletionTimestamp != nil || b.cloud.count("DeleteServer") != 0 {
				t.Errorf("%+v, %+v", c, m)
			}
		})
	}
	t.Run("deletes the Machine when a user deleted its server, even when the user deleted the Node too (MC-66)", func(t *testing.T) {
		for _, nodeFirst := range []bool{true, false} {
			b := joined(t, owned)
			b.cloud.change("u", func(s *fakeServer) { s.exists = false })
			if nodeFirst {
				b.remove(b.node())
			}
			b.pass()
			m := b.read()
			if m.DeletionTimestamp == nil || ptr.Deref(m.Spec.ProviderID, "") == "" || b.cloud.made != 1 {
				t.Fatalf("node first %v: %+v, %d servers", nodeFirst, m, b.cloud.made)
			}
			b.pass()
			b.pass()
			if b.read().Name != "" || b.node().Name != "" || b.cloud.servers["u"].leftovers || b.cloud.made != 1 {
				t.Errorf("node first %v: %+v", nodeFirst, b.read())
			}
		}
	})
}
