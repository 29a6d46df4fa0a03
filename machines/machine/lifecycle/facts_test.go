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

// naming is a Machine whose provider ID names a server.
func naming(server string) *v1alpha1.Machine {
	return &v1alpha1.Machine{Spec: v1alpha1.MachineSpec{ProviderID: ptr.To("openstack:///" + server)}}
}

// withNode is a Machine whose status names a Node with that UID.
func withNode(uid types.UID) *v1alpha1.Machine {
	m := naming(ownServer)
	m.Status.NodeRef = &corev1.ObjectReference{Name: "m", UID: uid}
	return m
}

func withRecord(record string) *v1alpha1.Machine {
	return &v1alpha1.Machine{Status: v1alpha1.MachineStatus{ProviderStatus: &runtime.RawExtension{Raw: []byte(record)}}}
}

// place is a record that is stored as its own text.
type place string

func (p place) Over(stored *runtime.RawExtension) *runtime.RawExtension {
	if stored != nil && string(stored.Raw) == string(p) {
		return stored
	}
	return &runtime.RawExtension{Raw: []byte(p)}
}

func TestReadMachine(t *testing.T) {
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
		{"a Machine without a provider ID names no server", &v1alpha1.Machine{}, Observed{}, func(o *Observed) bool { return o.Named }, false},
		{"one with a provider ID names a server", naming(ownServer), Observed{}, func(o *Observed) bool { return o.Named }, true},
		{"it had a server", naming(ownServer), Observed{}, func(o *Observed) bool { return o.HadServer }, true},
		{"a provider ID that is not readable shows that there was one", &v1alpha1.Machine{Spec: v1alpha1.MachineSpec{ProviderID: ptr.To("?")}}, Observed{}, func(o *Observed) bool { return o.HadServer }, true},
		{"a record of the project alone shows no server", withRecord(`{"projectID":"p","region":"r"}`), Observed{}, func(o *Observed) bool { return o.HadServer }, false},
		{"a record of a server shows one", withRecord(`{"serverID":"s"}`), Observed{}, func(o *Observed) bool { return o.HadServer }, true},
		{"the recorded place is the cloud's", withRecord("p"), Observed{Cloud: cloud.Facts{Place: place("p")}}, func(o *Observed) bool { return o.Placed }, true},
		{"the recorded place is another one", withRecord("p"), Observed{Cloud: cloud.Facts{Place: place("q")}}, func(o *Observed) bool { return o.Placed }, false},
		{"a cloud with a single place needs no record", &v1alpha1.Machine{}, Observed{}, func(o *Observed) bool { return o.Placed }, true},
		{"the Machine names its server", naming(ownServer), Observed{Cloud: server}, func(o *Observed) bool { return o.Mismatched }, false},
		{"the Machine names another server", naming(otherServer), Observed{Cloud: server}, func(o *Observed) bool { return o.Mismatched }, true},
		{"once it names its server a mismatch is over (MCM-40)", naming(ownServer), Observed{Cloud: server, Mismatched: true}, func(o *Observed) bool { return o.Mismatched }, false},
		{"the Node is the one that joined", withNode("now"), Observed{Node: node}, func(o *Observed) bool { return o.Reregistered }, false},
		{"the Node was deleted and has registered again", withNode("before"), Observed{Node: node}, func(o *Observed) bool { return o.Reregistered }, true},
		{"a reference without a UID is not compared", withNode(""), Observed{Node: node}, func(o *Observed) bool { return o.Reregistered }, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := tt.seen
			o.ReadMachine(tt.machine, "", provider)
			if got := tt.fact(&o); got != tt.want {
				t.Errorf("got %v, want %v; facts %+v", got, tt.want, o)
			}
		})
	}
	t.Run("the label of another controller is noticed (MC-79)", func(t *testing.T) {
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
