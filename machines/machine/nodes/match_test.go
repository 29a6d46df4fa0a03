package nodes

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	openstack "github.com/drover-project/drover/machines/openstack/provider"
)

// The IDs of the Machine's server and of another server.
const (
	ownServer   = "0a1b2c3d-0000-4000-8000-00000000abcd"
	otherServer = "0a1b2c3d-0000-4000-8000-00000000def0"
)

// madeAt is when the Machine of these tests was created, and registeredAt when its Node registers unless a test sets another time.
var (
	madeAt       = time.Unix(1000000, 0)
	registeredAt = madeAt.Add(5 * time.Minute)
)

// nodeNamed returns a Node that registered after the Machine was created. provider is its provider ID; owner is the value of
// its owner label. Both may be empty.
func nodeNamed(name, provider, owner string, changes ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(registeredAt), Labels: map[string]string{}}, Spec: corev1.NodeSpec{ProviderID: provider}}
	if owner != "" {
		n.Labels[v1alpha1.LabelOwnedBy] = owner
	}
	for _, change := range changes {
		change(n)
	}
	return n
}

func labeled(key string) func(*corev1.Node) { return func(n *corev1.Node) { n.Labels[key] = "" } }

func tainted(key string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Spec.Taints = append(n.Spec.Taints, taint(key, "")) }
}

// registeredAfter returns a change that sets when the Node registered, relative to the creation of the Machine.
func registeredAfter(d time.Duration) func(*corev1.Node) {
	return func(n *corev1.Node) { n.CreationTimestamp = metav1.NewTime(madeAt.Add(d)) }
}

// matcher returns the matcher for the Machine with the name m and the UID u. Its server was created a minute after the Machine; an empty
// server means that no server is known.
func matcher(server string) Matcher {
	m := machineWith(nil)
	m.CreationTimestamp = metav1.NewTime(madeAt)
	provider := openstack.Provider{}
	s := Matcher{Provider: provider, Machine: m, Server: provider.ServerID(server)}
	if server != "" {
		s.Name, s.Created = "m", madeAt.Add(time.Minute)
	}
	return s
}

func TestAMachineMatchesOnlyItsOwnNodeAndReportsWhyItRefusesANode(t *testing.T) {
	own, other := "openstack:///"+ownServer, "openstack:///"+otherServer
	const controlPlane, master = "node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"
	tests := []struct {
		name   string
		server string
		node   *corev1.Node
		found  bool
		// taken is a part of the reason why a Node with the Machine's name or provider ID is not the Machine's Node; empty when no
		// reason is expected.
		taken string
		// change alters the matcher, unless change is nil.
		change func(*Matcher)
	}{
		{"matches a Node by provider ID and name (MC-52)", ownServer, nodeNamed("m", "openstack:///"+strings.ToUpper(ownServer), ""), true, "", nil},
		{"matches a Node by name although machine-controller has made its provider ID of the Machine's UID (F-133)", ownServer, nodeNamed("m", "kubermatic://openstack/u", ""), true, "", nil},
		{"matches a Node by owner label and name although machine-controller has made its provider ID of the Machine's UID (F-133)", ownServer, nodeNamed("m", "kubermatic://openstack/u", "u"), true, "", nil},
		{"refuses a Node whose provider ID machine-controller has made of another Machine's UID (F-133)", ownServer, nodeNamed("m", "kubermatic://openstack/other", "u"), false, "not that of server", nil},
		{"matches a Node by a provider ID that contains a region (MC-52)", ownServer, nodeNamed("m", "openstack://region/"+ownServer, ""), true, "", nil},
		{"matches a Node by provider ID and name although the Node has an earlier Machine's owner label", ownServer, nodeNamed("m", own, "old"), true, "", nil},
		{"matches a Node without a provider ID by its name", ownServer, nodeNamed("m", "", ""), true, "", nil},
		{"refuses a Node with the provider ID of another server (MC-52)", ownServer, nodeNamed("m", other, ""), false, "is not that of server", nil},
		{"refuses a Node that has another Machine's owner label and no provider ID (MC-52)", ownServer, nodeNamed("m", "", "other"), false, "UID other", nil},
		{"does not match a Node that has another name than the server", ownServer, nodeNamed("n", "", ""), false, "", nil},
		{"does not match any Node before the Machine has a server (MCM-41)", "", nodeNamed("m", other, ""), false, "", nil},
		{"refuses a Node with the provider ID of another cloud", ownServer, nodeNamed("m", "aws:///zone/"+ownServer, ""), false, "is not that of server", nil},

		{"matches a Node by the Machine's owner label and name when no server is known (MC-63)", "", nodeNamed("m", other, "u"), true, "", nil},
		{"matches a Node by the Machine's owner label and status, even if the server has another name than the Node (MC-52, MC-63)", ownServer, nodeNamed("n", "", "u"), true, "", recordsNode("n")},
		{"does not match a Node by the owner label alone, because any kubelet can write a label (F-4)", ownServer, nodeNamed("n", "", "u"), false, "", nil},
		{"does not match a Node by the owner label alone while no server is known (F-4)", "", nodeNamed("n", other, "u"), false, "", nil},
		{"does not match a Node by the Machine's status alone, because the author of a Machine can write its status", "", nodeNamed("n", other, ""), false, "", recordsNode("n")},
		{"does not match another server's Node that has the Machine's owner label", ownServer, nodeNamed("n", other, "u"), false, "", nil},
		{"does not match a Node with the Machine's owner label and another server's provider ID while the cloud cannot be asked (F-4)", "", nodeNamed("m", other, "u"), false, "",
			func(s *Matcher) { s.Machine.Spec.ProviderID = &own }},

		{"refuses a Node that has the server's provider ID but not its name, because a kubelet chooses its provider ID (F-4)", ownServer, nodeNamed("control-plane-1", own, ""), false, "must be m", nil},
		{"refuses a Node whose server has another name in the cloud than the Node (F-4)", ownServer, nodeNamed("m", own, ""), false, "named other in the cloud",
			func(s *Matcher) { s.Name = "other" }},
		{"refuses a Node with the label of the control plane (F-4)", ownServer, nodeNamed("m", own, "", labeled(controlPlane)), false, "control plane", nil},
		{"refuses a Node with the older label of the control plane, master (F-4)", ownServer, nodeNamed("m", own, "", labeled(master)), false, "control plane", nil},
		{"refuses a Node with the taint of the control plane (F-4)", ownServer, nodeNamed("m", own, "", tainted(controlPlane)), false, "control plane", nil},
		{"refuses a Node with the older taint of the control plane, master (F-4)", ownServer, nodeNamed("m", own, "", tainted(master)), false, "control plane", nil},
		{"refuses a control-plane Node without a provider ID (F-4)", ownServer, nodeNamed("m", "", "", labeled(controlPlane)), false, "control plane", nil},
		{"refuses a Node with a control-plane role even when the Machine adopts the Node's server (F-4)", ownServer, nodeNamed("m", own, "", labeled(controlPlane)), false, "control plane",
			func(s *Matcher) { s.Adopted = true }},
		{"refuses a control-plane Node that has the Machine's owner label, when the Node is older than the Machine (F-4)", ownServer,
			nodeNamed("m", own, "u", labeled(controlPlane), registeredAfter(-time.Hour)), false, "control plane", nil},
		{"matches a Node with a control-plane role and the Machine's owner label when it is not older than the Machine", ownServer, nodeNamed("m", own, "u", labeled(controlPlane)), true, "", nil},

		{"refuses a Node that is older than the Machine (F-4)", ownServer, nodeNamed("m", own, "", registeredAfter(-time.Second)), false, "before the Machine", nil},
		{"refuses a Node that is older than the Machine and has an earlier Machine's owner label (F-4)", ownServer, nodeNamed("m", own, "old", registeredAfter(-time.Second)), false, "before the Machine", nil},
		{"refuses a Node that is older than the Machine and has neither owner label nor provider ID (MC-52)", ownServer, nodeNamed("m", "", "", registeredAfter(-time.Second)), false, "before the Machine", nil},
		{"matches a Node that registered in the same second in which the Machine was created", ownServer, nodeNamed("m", own, "", registeredAfter(0)), true, "", nil},
		{"refuses a Node without a provider ID that is older than the server by more than the allowed clock difference (F-4)", ownServer, nodeNamed("m", "", ""), false, "before server",
			func(s *Matcher) { s.Created = registeredAt.Add(clockDifference + time.Second) }},
		{"matches a Node without a provider ID that is older than the server by no more than the allowed clock difference", ownServer, nodeNamed("m", "", ""), true, "",
			func(s *Matcher) { s.Created = registeredAt.Add(clockDifference) }},
		{"matches a Node with the server's provider ID however far the cloud's clock is ahead (F-63)", ownServer, nodeNamed("m", own, ""), true, "",
			func(s *Matcher) { s.Created = registeredAt.Add(24 * time.Hour) }},
		{"matches a Node older than the Machine if machine-controller labelled the Node with the UID of the Machine", ownServer, nodeNamed("m", own, "u", registeredAfter(-time.Hour)), true, "", nil},
		{"matches a Node that is older than the Machine when the Machine adopts the Node's server", ownServer, nodeNamed("m", own, "old", registeredAfter(-time.Hour)), true, "",
			func(s *Matcher) { s.Adopted = true }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := matcher(tt.server)
			if tt.change != nil {
				tt.change(&s)
			}
			found, taken := s.Match([]*corev1.Node{tt.node})
			if (found != nil) != tt.found || (taken != "") != (tt.taken != "") || !strings.Contains(taken, tt.taken) {
				t.Errorf("Match() found %v, taken %q, want %v and %q", found != nil, taken, tt.found, tt.taken)
			}
		})
	}
}

// recordsNode makes the Machine's status name a Node.
func recordsNode(name string) func(*Matcher) {
	return func(s *Matcher) { s.Machine.Status.NodeRef = &corev1.ObjectReference{Name: name} }
}
