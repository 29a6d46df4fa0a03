package csr

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
)

func TestWhichMachineMayUseANodeNameAndGetItsCertificates(t *testing.T) {
	// machine returns a Machine whose server has the name n. The function change sets further fields, which the Machine's
	// own name describes.
	machine := func(name string, change func(*Machine)) *Machine {
		m := &Machine{Machine: machineNamed("ns", name, serverNamed("n"))}
		change(m)
		return m
	}
	none := machine("none", func(*Machine) {})
	first := machine("first", func(m *Machine) { m.Server = &cloud.Server{ID: "s-1", Key: "s-1", Name: "n"} })
	second := machine("second", func(m *Machine) { m.Server = &cloud.Server{ID: "s-2", Key: "s-2", Name: "n"} })
	renamed := machine("renamed", func(m *Machine) { m.Server = &cloud.Server{ID: "s-3", Key: "s-3", Name: "other"} })
	recorded := machine("recorded", func(m *Machine) { m.Recorded, m.Unknown = "s-4", "not listed" })
	forged := machine("forged", func(m *Machine) { m.Recorded, m.Unknown = "s-1", "not listed" })
	paused := machine("paused", func(m *Machine) {
		m.Recorded, m.Unknown = "s-1", "not listed"
		annotated(v1alpha1.AnnotationPaused)(m.Machine)
	})
	claimed := machine("claimed", func(m *Machine) { m.Recorded = "s-1" })
	// The author of the Machine liar runs a cloud. That cloud lists a server with the same ID as a server in another cloud.
	registered := time.Unix(1700000000, 0)
	liar := machine("liar", func(m *Machine) {
		m.Server, m.CreationTimestamp = &cloud.Server{ID: "s-2", Key: "s-2", Name: "n"}, metav1.NewTime(registered.Add(time.Hour))
	})
	nodeOf := func(server cloud.ServerID, created time.Time) *Node {
		n := &Node{Server: server}
		n.CreationTimestamp = metav1.NewTime(created)
		return n
	}
	for _, tt := range []struct {
		name     string
		machines []*Machine
		node     *Node
		holder   *Machine
		equal    int
	}{
		{"the only Machine that wants a node name may use it even without a server", []*Machine{none}, nil, none, 0},
		{"of three Machines that want the same node name, only the one with a server may use it (F-7)", []*Machine{none, first, claimed}, nil, first, 0},
		{"neither of two Machines that want the same node name may use it while neither has a server (F-7)", []*Machine{none, claimed}, nil, nil, 0},
		{"neither of two Machines whose servers have the same name may use it while there is no Node (F-7)", []*Machine{first, none, second}, nil, nil, 2},
		{"neither of two Machines whose servers have the same name may use it while the Node has no provider ID (F-7)", []*Machine{first, second}, &Node{}, nil, 2},
		{"neither of two Machines whose servers have the same name may use it when the Node belongs to a third server (F-7)", []*Machine{first, second}, &Node{Server: "s-9"}, nil, 2},
		{"of two Machines whose servers have the same name, only the Machine to whose server the Node belongs may use it (F-7)", []*Machine{first, second}, &Node{Server: "s-2"}, second, 0},
		{"while there is no Node, only the Machine whose server has the node name may use it, not one with a renamed server (F-7)", []*Machine{renamed, first}, nil, first, 0},
		{"when two clouds list the ID of the Node's server for two Machines, only the one older than the Node may use the name (F-7)", []*Machine{liar, second}, nodeOf("s-2", registered), second, 0},
		{"when two clouds list the ID of the Node's server for two Machines older than the Node, neither may use the name (F-7)", []*Machine{liar, second}, nodeOf("s-2", registered.Add(2*time.Hour)), nil, 2},
		{"a Machine whose server was renamed may use the name of the Node that belongs to this server (F-7)", []*Machine{renamed, first}, &Node{Server: "s-3"}, renamed, 0},
		{"the owner tag of the Node's server decides which Machine may use the name, not another Machine's spec.providerID (F-7)", []*Machine{forged, first}, &Node{Server: "s-1"}, first, 0},
		{"a paused Machine's spec.providerID does not count, so only the other Machine, which has a server, may use the name (F-7)", []*Machine{paused, second}, nil, second, 0},
		{"neither of two Machines may use the name while the spec.providerID of one of them names a server that the inventory lacks (F-7)", []*Machine{recorded, first}, nil, nil, 2},
		{"the Machine whose spec.providerID names the Node's server may use the name even while the inventory lacks that server (F-7)", []*Machine{recorded, first}, &Node{Server: "s-4"}, recorded, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := Choose(tt.machines, tt.node)
			if got.Holder != tt.holder || len(got.Equal) != tt.equal {
				t.Errorf("Choose() returns holder %v and %d equal, want %v and %d", got.Holder, len(got.Equal), tt.holder, tt.equal)
			}
			if tt.holder != nil && len(got.Squatters) != len(tt.machines)-1 {
				t.Errorf("Choose() returns %d squatters, want %d", len(got.Squatters), len(tt.machines)-1)
			}
		})
	}
}
