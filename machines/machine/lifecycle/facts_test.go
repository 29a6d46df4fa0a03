package lifecycle

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
	openstack "github.com/drover-project/drover/machines/openstack/provider"
)

const (
	ownServer   = "0a1b2c3d-0000-4000-8000-00000000abcd"
	otherServer = "0a1b2c3d-0000-4000-8000-00000000def0"
)

// naming returns a Machine whose provider ID names the given server.
func naming(server string) *v1alpha1.Machine {
	return &v1alpha1.Machine{Spec: v1alpha1.MachineSpec{ProviderID: ptr.To("openstack:///" + server)}}
}

// withNode returns a Machine whose status names a Node with the given UID.
func withNode(uid types.UID) *v1alpha1.Machine {
	m := naming(ownServer)
	m.Status.NodeRef = &corev1.ObjectReference{Name: "m", UID: uid}
	return m
}

// controlledBy returns a Machine whose controller has the given kind.
func controlledBy(apiVersion, kind string) *v1alpha1.Machine {
	return &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: "o", UID: "o", Controller: ptr.To(true)}}}}
}

func withRecord(record string) *v1alpha1.Machine {
	return &v1alpha1.Machine{Status: v1alpha1.MachineStatus{ProviderStatus: &runtime.RawExtension{Raw: []byte(record)}}}
}

// place is the record of a project in a Machine's status. Its text is stored unchanged.
type place string

func (p place) MergeInto(stored *runtime.RawExtension) *runtime.RawExtension {
	if stored != nil && string(stored.Raw) == string(p) {
		return stored
	}
	return &runtime.RawExtension{Raw: []byte(p)}
}

func TestTheFactsThatAreReadFromAMachine(t *testing.T) {
	provider := openstack.Provider{}
	server := cloud.Facts{Server: &cloud.Server{ID: ownServer, Key: provider.ServerID("openstack:///" + ownServer)}}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "m", UID: "now"}}
	for _, tt := range []struct {
		name    string
		machine *v1alpha1.Machine
		seen    Observed
		fact    func(*Observed) bool
		want    bool
	}{
		{"a Machine without a provider ID refers to no server", &v1alpha1.Machine{}, Observed{}, func(o *Observed) bool { return o.Named }, false},
		{"a Machine of a MachineSet of drover's API group is replaced by its set", controlledBy("cluster.k8s.io/v1alpha1", "MachineSet"), Observed{}, func(o *Observed) bool { return o.Owned }, true},
		{"a Machine of a foreign controller is replaced by nobody (F-73)", controlledBy("example.com/v1", "NodePool"), Observed{}, func(o *Observed) bool { return o.Owned }, false},
		{"a Machine of a MachineSet of Cluster API is replaced by nobody (F-73)", controlledBy("cluster.x-k8s.io/v1beta1", "MachineSet"), Observed{}, func(o *Observed) bool { return o.Owned }, false},
		{"a Machine with a provider ID refers to a server", naming(ownServer), Observed{}, func(o *Observed) bool { return o.Named }, true},
		{"the Machine counts as having had a server when it has a provider ID", naming(ownServer), Observed{}, func(o *Observed) bool { return o.HadServer }, true},
		{"the Machine counts as having had a server when its provider ID is invalid", &v1alpha1.Machine{Spec: v1alpha1.MachineSpec{ProviderID: ptr.To("?")}}, Observed{}, func(o *Observed) bool { return o.HadServer }, true},
		{"the Machine does not count as having had a server when its status records a project and no server", withRecord(`{"projectID":"p","region":"r"}`), Observed{}, func(o *Observed) bool { return o.HadServer }, false},
		{"the Machine counts as having had a server when its status records one", withRecord(`{"serverID":"s"}`), Observed{}, func(o *Observed) bool { return o.HadServer }, true},
		{"the project counts as recorded when the Machine's status names the project that the cloud reports", withRecord("p"), Observed{Cloud: cloud.Facts{Place: place("p")}}, func(o *Observed) bool { return o.Placed }, true},
		{"the project does not count as recorded when the Machine's status names another project than the cloud reports", withRecord("p"), Observed{Cloud: cloud.Facts{Place: place("q")}}, func(o *Observed) bool { return o.Placed }, false},
		{"the project counts as recorded when neither the Machine's status nor the cloud names one, as there is nothing to record", &v1alpha1.Machine{}, Observed{}, func(o *Observed) bool { return o.Placed }, true},
		{"the provider ID matches when it names the Machine's own server", naming(ownServer), Observed{Cloud: server}, func(o *Observed) bool { return o.Mismatched }, false},
		{"the provider ID does not match when it names another server than the Machine's own", naming(otherServer), Observed{Cloud: server}, func(o *Observed) bool { return o.Mismatched }, true},
		{"the provider ID matches again once it names the Machine's own server (MCM-40)", naming(ownServer), Observed{Cloud: server, Mismatched: true}, func(o *Observed) bool { return o.Mismatched }, false},
		{"the Node does not count as registered again while it has the UID in the Machine's status", withNode("now"), Observed{Node: node}, func(o *Observed) bool { return o.Reregistered }, false},
		{"the Node counts as registered again when it has another UID than the one in the Machine's status", withNode("before"), Observed{Node: node}, func(o *Observed) bool { return o.Reregistered }, true},
		{"the Node does not count as registered again when the Machine's reference to the Node has no UID to compare", withNode(""), Observed{Node: node}, func(o *Observed) bool { return o.Reregistered }, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := tt.seen
			o.ReadMachine(tt.machine, "", provider)
			if got := tt.fact(&o); got != tt.want {
				t.Errorf("got %v, want %v; facts %+v", got, tt.want, o)
			}
		})
	}
	t.Run("a Machine belongs to another controller when its label names that controller (MC-79)", func(t *testing.T) {
		m := &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{v1alpha1.LabelController: "theirs"}}}
		var o Observed
		if o.ReadMachine(m, "ours", provider); !o.OtherController || !o.LeftAlone() {
			t.Errorf("got %+v, want a Machine of another controller", o)
		}
		if o.ReadMachine(m, "theirs", provider); o.OtherController || o.LeftAlone() {
			t.Errorf("got %+v, want a Machine of this controller", o)
		}
	})
}
