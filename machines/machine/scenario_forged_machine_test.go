package machine_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
)

// The Machine's author has written the provider ID of another server into the Machine, and a status according to which the
// Machine has joined.
func TestAMachineWithAForgedProviderIDChangesNoOtherServerOrNode(t *testing.T) {
	const victim = "11111111-2222-4333-8444-555555555555"
	forged := func(m *v1alpha1.Machine) {
		m.Finalizers = []string{v1alpha1.FinalizerServer, v1alpha1.FinalizerNode}
		m.Spec.ProviderID = ptr.To("openstack:///" + victim)
		m.Spec.Taints = []corev1.Taint{{Key: "evil", Effect: corev1.TaintEffectNoExecute}}
		m.Status.NodeRef = &corev1.ObjectReference{Name: "control-plane"}
	}
	node := func() *corev1.Node {
		return &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "control-plane"}, Spec: corev1.NodeSpec{ProviderID: "openstack:///" + victim},
			Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
		}
	}
	for name, prepare := range map[string]func(*bench){
		"does not change the Node that has that provider ID when the cloud refuses the Machine's credentials (F-1)": func(b *bench) {
			b.cloud.refuse["m"] = fault.New(fault.Auth, fault.CodeUnauthorized, "no")
		},
		"does not change the Node that has that provider ID while the inventory is not complete (F-1)":       func(b *bench) { b.cloud.unsynced = true },
		"does not change the Node that has that provider ID when the cloud has no server with that ID (F-1)": func(*bench) {},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, forged)
			b.create(node())
			prepare(b)
			untouched := func(when string) {
				t.Helper()
				var n corev1.Node
				if err := b.memory.client.Get(t.Context(), client.ObjectKey{Name: "control-plane"}, &n); err != nil {
					t.Fatalf("%s: %v", when, err)
				}
				if len(n.Spec.Taints) > 0 || len(n.Labels) > 0 || len(n.Annotations) > 0 || n.Spec.Unschedulable {
					t.Errorf("%s the Node has %+v, %+v", when, n.ObjectMeta, n.Spec)
				}
			}
			b.pass()
			untouched("while the Machine lives")
			b.end()
			b.pass()
			b.pass()
			untouched("after the Machine's deletion")
		})
	}
	t.Run("condition ServerReady shows that the server with that ID belongs to another Machine, and the server is kept (F-1)", func(t *testing.T) {
		b := newBench(t, forged)
		b.create(node())
		b.cloud.servers["u"] = &fakeServer{exists: true, Server: cloud.Server{ID: victim, Owner: "another"}}
		b.pass()
		c := find(b.read(), v1alpha1.ConditionServerReady)
		if c.Status != corev1.ConditionFalse || c.Reason != "ServerBelongsToAnother" || !strings.Contains(c.Message, victim) {
			t.Errorf("%+v", c)
		}
		b.end()
		b.pass()
		if b.read().Name != "" || b.cloud.count("DeleteServer")+b.cloud.count("ConsoleOutput") > 0 || b.cloud.count("Release") != 1 {
			t.Errorf("Machine %q; calls %v", b.read().Name, b.cloud.calls)
		}
	})
	t.Run("keeps a provider ID that is not from OpenStack, and condition SpecValid shows InvalidSpec (F-20)", func(t *testing.T) {
		b := newBench(t, func(m *v1alpha1.Machine) { m.Spec.ProviderID = ptr.To("aws:///zone/i-1") })
		b.cloud.refuse["m"] = fault.New(fault.Invalid, fault.CodeInvalidSpec, "no provider ID of OpenStack")
		b.pass()
		if m := b.read(); *m.Spec.ProviderID != "aws:///zone/i-1" || find(m, v1alpha1.ConditionSpecValid).Reason != "InvalidSpec" {
			t.Errorf("%s, %+v", *m.Spec.ProviderID, m.Status)
		}
	})
}

func TestAServerInAnotherProjectIsNotTouched(t *testing.T) {
	t.Run("keeps a Machine whose credentials are not for its server's project, and a condition names both projects (F-15)", func(t *testing.T) {
		b := joined(t, owned)
		b.cloud.unknown = "the server was made in project p1, and the Machine's credentials are for project p2"
		b.pass()
		m := b.read()
		if c := find(m, v1alpha1.ConditionServerReady); m.DeletionTimestamp != nil || c.Status != corev1.ConditionUnknown || c.Reason != "ServerUnknown" || !strings.HasPrefix(c.Message, b.cloud.unknown+";") {
			t.Fatalf("%+v", c)
		}
		b.end()
		b.pass()
		if b.read().Name == "" || b.cloud.count("Release")+b.cloud.count("DeleteServer") > 0 || !strings.HasPrefix(b.deleting().Message, b.cloud.unknown+";") {
			t.Errorf("%+v", b.deleting())
		}
		b.cloud.unknown = ""
		b.pass()
		if b.cloud.count("DeleteServer") != 1 {
			t.Error("the deletion does not continue with the right credentials")
		}
	})
}

func TestResourcesOfAServerAreRecordedBeforeItsDeletion(t *testing.T) {
	t.Run("records volumes, floating IP, project and region before the server is deleted (F-3)", func(t *testing.T) {
		b := joined(t, nil)
		const volume, address = "11111111-0000-4000-8000-000000000001", "11111111-0000-4000-8000-000000000002"
		b.cloud.change("u", func(s *fakeServer) {
			s.record.VolumeIDs, s.record.FloatingIPID, s.record.ProjectID, s.record.Region = []string{volume}, address, "p1", "west"
		})
		recorded := ""
		b.cloud.onDelete = func() { recorded = string(b.read().Status.ProviderStatus.Raw) }
		b.end()
		b.pass()
		var status struct {
			VolumeIDs                       []string
			FloatingIPID, ProjectID, Region string
		}
		if err := json.Unmarshal([]byte(recorded), &status); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(status.VolumeIDs, []string{volume}) || status.FloatingIPID != address || status.ProjectID != "p1" || status.Region != "west" {
			t.Errorf("when the server was deleted the record was %s", recorded)
		}
	})
	t.Run("one Event names the resources that were not deleted (F-3)", func(t *testing.T) {
		b := joined(t, nil)
		b.cloud.left = []string{"floating IP x exists and was left alone", "volume y exists and was left alone"}
		b.end()
		for range 3 {
			b.pass()
		}
		if events := b.events(); b.read().Name != "" || strings.Count(events, "LeftAlone") != 1 || !strings.Contains(events, strings.Join(b.cloud.left, "; ")) {
			t.Errorf("Machine %q, events %s", b.read().Name, events)
		}
	})
}
