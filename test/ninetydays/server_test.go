package ninetydays

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
	health "github.com/drover-project/drover/machines/health/verdict"
)

// server holds the true state of a Machine, its server and its Node.
type server struct {
	number int
	name   string
	uid    types.UID
	group  *health.Group
	zone   *zone
	host   string
	// machine is the server's Machine, or nil after the Machine is gone. node is the server's Node, or nil while the server has no
	// Node.
	machine *v1alpha1.Machine
	node    *corev1.Node
	created time.Time
	// built is true while the server exists in the cloud.
	built bool
	// broken is the time at which the server broke, or zero if it did not. silent is the time until which its kubelet does not report.
	broken, silent time.Time
	// free is the time since which the replacement of the server's Machine was delayed by nothing but replacements of other
	// Machines in its group. calm is the time since which nothing at all has delayed the replacement.
	free, calm time.Time
}

func (s *server) isReady() bool {
	return s.node != nil && s.node.Status.Conditions[0].Status == corev1.ConditionTrue
}

// leaving reports whether the server's Machine is being deleted or no longer exists.
func (s *server) leaving() bool { return s.machine == nil || s.machine.DeletionTimestamp != nil }

func serverKey(name string) cloud.ServerID { return cloud.ServerID("server-" + name) }

// create creates a Machine of a group, on a random host. Every third group is in one zone, and the others are in all zones.
func (w *world) create(g *health.Group) *server {
	w.number++
	name := fmt.Sprintf("%s-%d", g.GetName(), w.number)
	at := w.random.IntN(len(w.zones))
	if place := slices.Index(w.groups, g); place%3 == 0 {
		at = place / 3 % len(w.zones)
	}
	zone := w.zones[at]
	s := &server{number: w.number, name: name, uid: types.UID("uid-" + name), group: g, zone: zone, host: fmt.Sprintf("%s%d", zone.name, w.random.IntN(hostsOfAZone)), created: w.now}
	s.machine = &v1alpha1.Machine{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: s.uid},
		Status: v1alpha1.MachineStatus{Conditions: []v1alpha1.MachineCondition{
			{Type: v1alpha1.ConditionServerReady, Status: corev1.ConditionTrue, Reason: "ServerActive"},
		}},
	}
	w.servers[s.uid] = s
	w.show(s)
	w.in(w.between(5*time.Second, 20*time.Second), func() { w.order(s) })
	return s
}

// order creates the server of a Machine. It tries again while the zone has an outage.
func (w *world) order(s *server) {
	switch {
	case s.leaving():
	case w.now.Before(s.zone.back):
		w.in(2*time.Minute, func() { w.order(s) })
	default:
		w.build(s)
		w.in(w.between(80*time.Second, 2*time.Minute), func() { w.join(s) })
	}
}

// join registers the Node of a server. It replaces the Machine when the server cannot become a Node within joinTimeout.
func (w *world) join(s *server) {
	switch {
	case s.leaving():
	case !w.answers() || !w.works(s) && w.now.Sub(s.created) <= joinTimeout:
		w.in(30*time.Second, func() { w.join(s) })
	case !w.works(s):
		w.counts.failedJoins++
		w.discard(s)
	default:
		w.register(s)
	}
}

func (w *world) register(s *server) {
	s.node = &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: s.name, UID: "node-" + s.uid, CreationTimestamp: metav1.NewTime(w.now),
		Labels: map[string]string{v1alpha1.LabelOwnedBy: string(s.uid)},
	}}
	s.node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(w.now)}}
	m := s.machine.DeepCopy()
	m.Status.NodeRef, m.Status.Phase = &corev1.ObjectReference{Name: s.name, UID: s.node.UID}, ptr.To(v1alpha1.PhaseRunning)
	s.machine = m
	w.show(s)
}

// discard deletes a Machine and creates another one in its group.
func (w *world) discard(s *server) {
	w.remove(s)
	w.create(s.group)
}

// remove deletes a Machine. Its Node is drained for up to half an hour, and then its resources are deleted.
func (w *world) remove(s *server) {
	m := s.machine.DeepCopy()
	m.DeletionTimestamp = ptr.To(metav1.NewTime(w.now))
	s.machine = m
	w.show(s)
	drain := w.between(20*time.Second, time.Minute)
	if w.oneIn(10) && w.works(s) {
		drain = w.between(time.Minute, 30*time.Minute)
	}
	w.in(drain, func() { w.takeDown(s) })
}

// takeDown deletes the resources, the Node and the Machine of a server, once the API server answers.
func (w *world) takeDown(s *server) {
	w.whenAnswering(func() {
		if s.machine == nil {
			return
		}
		w.destroy(s)
		s.node = nil
		w.forget(s)
	})
}

// strip removes a Machine at once, as when its finalizers are removed. Its resources stay. A Machine that was not yet
// being deleted is replaced.
func (w *world) strip(s *server) {
	if s.machine.DeletionTimestamp == nil {
		w.create(s.group)
	}
	w.forget(s)
	w.straysOf(s)
}
