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
	// detection is how long after a kubelet has fallen silent the API server is told at the least. Up to spread more passes.
	detection, spread = 40 * time.Second, 20 * time.Second
	// joinTimeout is how long a server may take to become a Node.
	joinTimeout = 10 * time.Minute
)

var began = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// world is a cluster as it really is.
type world struct {
	*testing.T
	*timeline
	zones   []*zone
	groups  []*health.Group
	servers map[types.UID]*server
	number  int
	// api is what the API server holds, and project what the cloud has.
	api     api
	project *table[resource]
	// broken are the servers that broke while their Machines existed.
	broken []*server
	// away is until when the API server does not answer.
	away time.Time
	// changed is called when the API server shows a change.
	changed func()
	// stray are the resources and Nodes that have no Machine any more, by their key, with what is known of each.
	strays map[string]*stray
	counts counts
}

// counts are how often something happened.
type counts struct {
	broken, blips, hosts, zones, outages, leaders, troubles, stripped, late, clones, churned int
	replaced, failedJoins, collected, marked                                                 int
}

// zone is an availability zone. back is when its last outage ends, or has ended.
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
		w.groups = append(w.groups, &health.Group{Kind: "MachineDeployment", Namespace: "default", Name: name, UID: types.UID(name)})
		for range machines / groups {
			w.grow(w.groups[i])
		}
	}
	w.addOthersNodes()
	return w
}

// grow makes a group larger by a Machine.
func (w *world) grow(g *health.Group) {
	g.Size++
	w.create(g)
}

// works reports whether a server runs, and its kubelet too.
func (w *world) works(s *server) bool {
	return s.built && s.broken.IsZero() && !w.now.Before(s.silent) && !w.now.Before(s.zone.back)
}

// answers reports whether the API server answers.
func (w *world) answers() bool { return !w.now.Before(w.away) }

// whenAnswering calls a function now, or soon after the API server answers again.
func (w *world) whenAnswering(happen func()) {
	if w.answers() {
		happen()
		return
	}
	w.at(w.away.Add(w.between(time.Second, time.Minute)), func() { w.whenAnswering(happen) })
}

// pick returns a random Machine's server.
func (w *world) pick() *server {
	return w.servers[w.api.machines.rows[w.random.IntN(len(w.api.machines.rows))].UID]
}

// fallSilent has the control plane find out that a kubelet reports no more, if it still does not by then.
func (w *world) fallSilent(s *server) {
	w.in(w.between(detection, detection+spread), func() { w.report(s, false) })
}

// comeBack has the Node of a server that works again become Ready within a while.
func (w *world) comeBack(s *server, within time.Duration) {
	w.in(w.between(time.Second, within), func() { w.report(s, true) })
}

// report has the control plane show what a kubelet is, when that is still so.
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

// addOthersNodes adds Nodes that are not this cluster's: those of another control cluster, whose marks look like drover's; Nodes of the
// control plane; and Nodes that nobody has marked.
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
