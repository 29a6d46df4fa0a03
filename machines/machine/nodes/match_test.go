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

// The IDs of the Machine's server and of another one.
const (
	ownServer   = "0a1b2c3d-0000-4000-8000-00000000abcd"
	otherServer = "0a1b2c3d-0000-4000-8000-00000000def0"
)

// madeAt is when the Machine of these tests was created, and registeredAt when its Node registers unless a test says so.
var (
	madeAt       = time.Unix(1000000, 0)
	registeredAt = madeAt.Add(5 * time.Minute)
)

// nodeNamed returns a Node that registered after the Machine was created. provider is its provider ID, owner the value of
// its owner label; both may be empty.
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

// registeredAfter returns a change of the time at which the Node registered, relative to the creation of the Machine.
func registeredAfter(d time.Duration) func(*corev1.Node) {
	return func(n *corev1.Node) { n.CreationTimestamp = metav1.NewTime(madeAt.Add(d)) }
}

// matcher returns the matcher of Machine m with the UID u, whose server was created a minute after it. An empty server is
// not known.
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

func TestMatch(t *testing.T) {
	own, other := "openstack:///"+ownServer, "openstack:///"+otherServer
	const controlPlane, master = "node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"
	tests := []struct {
		name   string
		server string
		node   *corev1.Node
		found  bool
		// taken is in the reason why the Node of that name or provider ID is not the Machine's; empty: there is no reason.
		taken string
		// change alters the matcher, unless nil.
		change func(*Matcher)
	}{
		{"by provider ID and name (MC-52)", ownServer, nodeNamed("m", "openstack:///"+strings.ToUpper(ownServer), ""), true, "", nil},
		{"by provider ID with a region (MC-52)", ownServer, nodeNamed("m", "openstack://region/"+ownServer, ""), true, "", nil},
		{"by provider ID and name when the former owner does not exist any more", ownServer, nodeNamed("m", own, "old"), true, "", nil},
		{"by name when it has no provider ID", ownServer, nodeNamed("m", "", ""), true, "", nil},
		{"not when the provider ID is another server's (MC-52)", ownServer, nodeNamed("m", other, ""), false, "is not that of server", nil},
		{"not when another Machine's owner label is on it (MC-52)", ownServer, nodeNamed("m", "", "other"), false, "UID other", nil},
		{"not by another name", ownServer, nodeNamed("n", "", ""), false, "", nil},
		{"not before there is a server (MCM-41)", "", nodeNamed("m", other, ""), false, "", nil},
		{"another provider's ID is no server of ours", ownServer, nodeNamed("m", "aws:///zone/"+ownServer, ""), false, "is not that of server", nil},

		{"by its own label when the server is gone and unknown (MC-63)", "", nodeNamed("m", other, "u"), true, "", nil},
		{"by its own label under another name that the Machine records (MC-52, MC-63)", ownServer, nodeNamed("n", "", "u"), true, "", recordsNode("n")},
		{"not by a label alone that any kubelet can write (F-4)", ownServer, nodeNamed("n", "", "u"), false, "", nil},
		{"not by a label alone while no server is known (F-4)", "", nodeNamed("n", other, "u"), false, "", nil},
		{"not by a record alone that an author can write", "", nodeNamed("n", other, ""), false, "", recordsNode("n")},
		{"but the label does not make another server's node its own", ownServer, nodeNamed("n", other, "u"), false, "", nil},
		{"the label does not make another node its own while the server cannot be asked for (F-4)", "", nodeNamed("m", other, "u"), false, "",
			func(s *Matcher) { s.Machine.Spec.ProviderID = &own }},

		{"not by provider ID under another name (F-4)", ownServer, nodeNamed("control-plane-1", own, ""), false, "must be m", nil},
		{"not by provider ID when the cloud calls the server otherwise (F-4)", ownServer, nodeNamed("m", own, ""), false, "named other in the cloud",
			func(s *Matcher) { s.Name = "other" }},
		{"not with the label of the control plane (F-4)", ownServer, nodeNamed("m", own, "", labeled(controlPlane)), false, "control plane", nil},
		{"not with the old label of the control plane (F-4)", ownServer, nodeNamed("m", own, "", labeled(master)), false, "control plane", nil},
		{"not with the taint of the control plane (F-4)", ownServer, nodeNamed("m", own, "", tainted(controlPlane)), false, "control plane", nil},
		{"not with the old taint of the control plane (F-4)", ownServer, nodeNamed("m", own, "", tainted(master)), false, "control plane", nil},
		{"not with a role of the control plane when it has no provider ID (F-4)", ownServer, nodeNamed("m", "", "", labeled(controlPlane)), false, "control plane", nil},
		{"not with a role of the control plane when it is adopted (F-4)", ownServer, nodeNamed("m", own, "", labeled(controlPlane)), false, "control plane",
			func(s *Matcher) { s.Adopted = true }},
		{"not with its own label and a role of the control plane when it is older than the Machine (F-4)", ownServer,
			nodeNamed("m", own, "u", labeled(controlPlane), registeredAfter(-time.Hour)), false, "control plane", nil},
		{"by its own label when somebody has given it a role of the control plane", ownServer, nodeNamed("m", own, "u", labeled(controlPlane)), true, "", nil},

		{"not when it existed before the Machine (F-4)", ownServer, nodeNamed("m", own, "", registeredAfter(-time.Second)), false, "before the Machine", nil},
		{"not when it existed before the Machine and has a former owner's label (F-4)", ownServer, nodeNamed("m", own, "old", registeredAfter(-time.Second)), false, "before the Machine", nil},
		{"not by name a node that existed before the Machine and has no label (MC-52)", ownServer, nodeNamed("m", "", "", registeredAfter(-time.Second)), false, "before the Machine", nil},
		{"when it registered in the second in which the Machine was created", ownServer, nodeNamed("m", own, "", registeredAfter(0)), true, "", nil},
		{"not when it existed long before the server (F-4)", ownServer, nodeNamed("m", own, ""), false, "before server",
			func(s *Matcher) { s.Created = registeredAt.Add(clockDifference + time.Second) }},
		{"when only the two clocks make it older than its server", ownServer, nodeNamed("m", own, ""), true, "",
			func(s *Matcher) { s.Created = registeredAt.Add(clockDifference) }},
		{"with its own label whatever its age, as machine-controller leaves it", ownServer, nodeNamed("m", own, "u", registeredAfter(-time.Hour)), true, "", nil},
		{"whatever its age when an operator lets the Machine adopt its server", ownServer, nodeNamed("m", own, "old", registeredAfter(-time.Hour)), true, "",
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
				t.Errorf("got %v and %q, want %v and %q", found != nil, taken, tt.found, tt.taken)
			}
		})
	}
}

// recordsNode has the Machine's status name a Node.
func recordsNode(name string) func(*Matcher) {
	return func(s *Matcher) { s.Machine.Status.NodeRef = &corev1.ObjectReference{Name: name} }
}
