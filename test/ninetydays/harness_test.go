package ninetydays

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	health "github.com/drover-project/drover/machines/health/verdict"
	orphans "github.com/drover-project/drover/machines/safety/orphans/verdict"
)

const (
	machines     = 500
	groups       = 25
	hostsOfAZone = 10
	// detection is the shortest time from a kubelet's last report until the API server shows the Node as not Ready. A random
	// part of spread is added to it.
	detection, spread = 40 * time.Second, 20 * time.Second
	// joinTimeout is how long a server may take to become a Node.
	joinTimeout = 10 * time.Minute
)

var began = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// world holds the true state of the simulated cluster and cloud.
type world struct {
	*testing.T
	*timeline
	zones   []*zone
	groups  []*health.Group
	servers map[types.UID]*server
	number  int
	// api is the content of the API server. project is the content of the cloud.
	api     api
	project *table[resource]
	// broken holds the servers that broke while their Machines existed.
	broken []*server
	// leading is true while some drover leads.
	leading bool
	// away is the time at which the last outage of the API server ends.
	away time.Time
	// changed is called after each change of an object in the API server.
	changed func()
	// strays holds the resources and Nodes whose Machines no longer exist, by their key.
	strays map[string]*stray
	counts counts
}

// counts holds how often each kind of fault and of drover's reaction happened.
type counts struct {
	broken, blips, hosts, zones, outages, leaders, troubles, stripped, late, clones, churned int
	replaced, needless, failedJoins, collected, marked                                       int
}

// zone is an availability zone. back is the time at which its last outage ends.
type zone struct {
	name string
	back time.Time
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{
		T: t, timeline: &timeline{now: began, random: rand.New(rand.NewPCG(seed, 19))}, servers: map[types.UID]*server{},
		api: newAPI(), project: newTable[resource](), changed: func() {}, strays: map[string]*stray{},
	}
	for _, name := range []string{"x", "y", "z"} {
		w.zones = append(w.zones, &zone{name: name})
	}
	for i := range groups {
		name := fmt.Sprintf("group-%d", i)
		w.groups = append(w.groups, &health.Group{Object: &metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)}, Kind: "MachineDeployment"})
		for range machines / groups {
			w.grow(w.groups[i])
		}
	}
	w.addOthersNodes()
	return w
}

// grow adds a Machine to a group.
func (w *world) grow(g *health.Group) {
	g.Size++
	w.create(g)
}

// works reports whether a server runs and its kubelet reports.
func (w *world) works(s *server) bool {
	return s.built && s.broken.IsZero() && !w.now.Before(s.silent) && !w.now.Before(s.zone.back)
}

// answers reports whether the API server answers.
func (w *world) answers() bool { return !w.now.Before(w.away) }

// whenAnswering calls the function happen at once if the API server answers, and otherwise soon after the API server
// answers again.
func (w *world) whenAnswering(happen func()) {
	if w.answers() {
		happen()
		return
	}
	w.at(w.away.Add(w.between(time.Second, time.Minute)), func() { w.whenAnswering(happen) })
}

// pick returns the server of a random Machine.
func (w *world) pick() *server {
	return w.servers[w.api.machines.rows[w.random.IntN(len(w.api.machines.rows))].UID]
}

// fallSilent makes the API server show a Node as not Ready some time after its kubelet stopped reporting, unless the
// kubelet reports again before.
func (w *world) fallSilent(s *server) {
	w.in(w.between(detection, detection+spread), func() { w.report(s, false) })
}

// comeBack makes the API server show a Node as Ready again, because the Node's server works again. This happens after a
// random time, at most the duration within.
func (w *world) comeBack(s *server, within time.Duration) {
	w.in(w.between(time.Second, within), func() { w.report(s, true) })
}

// report makes the API server show whether a Node is Ready, unless the state of its kubelet has changed again.
func (w *world) report(s *server, ready bool) {
	w.whenAnswering(func() {
		if s.node == nil || w.works(s) != ready || s.isReady() == ready {
			return
		}
		status := corev1.ConditionUnknown
		if ready {
			status = corev1.ConditionTrue
		}
		node := *s.node
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status, LastTransitionTime: metav1.NewTime(w.now)}}
		s.node = &node
		w.show(s)
	})
}

// addOthersNodes adds Nodes that are not drover's: Nodes of another control cluster, whose labels look like drover's,
// Nodes of the control plane, and Nodes without labels.
func (w *world) addOthersNodes() {
	long := began.Add(-30 * day)
	for i := range 12 {
		name := fmt.Sprintf("foreign-%d", i)
		w.api.nodes.put(name, orphans.Node{
			Name: name, UID: types.UID(name), ProviderID: "x:///" + name, Server: serverKey(name), OwnedBy: types.UID("uid-" + name),
			Machine: "kube-system/" + name, Created: long, Changed: long,
		})
	}
	for i := range 3 {
		name := fmt.Sprintf("control-%d", i)
		w.api.nodes.put(name, orphans.Node{Name: name, UID: types.UID(name), Created: long, Ready: true, Changed: long, ControlPlane: "a taint"})
	}
	for i := range 5 {
		name := fmt.Sprintf("manual-%d", i)
		w.api.nodes.put(name, orphans.Node{Name: name, UID: types.UID(name), Created: long, Ready: true, Changed: long})
	}
}
