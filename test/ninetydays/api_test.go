package ninetydays

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	health "github.com/drover-project/drover/machines/health/verdict"
	orphans "github.com/drover-project/drover/machines/safety/orphans/verdict"
)

// api holds what the API server stores, in the forms in which the health controller and the orphan collector read it.
type api struct {
	machines *table[health.Machine]
	listed   *table[orphans.Machine]
	nodes    *table[orphans.Node]
	// ends are the ends of Machines that the leader knows. watched is true while a leader watches, and the watch is not interrupted.
	ends    orphans.Ends
	watched func() bool
}

func newAPI() api {
	return api{
		machines: newTable[health.Machine](), listed: newTable[orphans.Machine](), nodes: newTable[orphans.Node](),
		ends: orphans.Ends{}, watched: func() bool { return true },
	}
}

// show makes the API server show the current state of a Machine and its Node.
func (w *world) show(s *server) {
	a, key := &w.api, string(s.uid)
	if s.machine != nil {
		a.machines.put(key, health.Machine{Machine: s.machine, Node: s.node, Group: s.group})
		listed := orphans.Machine{UID: s.uid, Name: "default/" + s.name, ServerName: s.name}
		if s.built {
			listed.Server = serverKey(s.name)
		}
		if s.machine.Status.NodeRef != nil {
			listed.NodeName = s.name
		}
		a.listed.put(key, listed)
	}
	if s.node != nil {
		a.nodes.put(s.name, nodeOf(s))
	} else {
		a.nodes.drop(s.name)
	}
	w.changed()
}

// forget removes a Machine from the API server, and its Node if the Node is gone.
func (w *world) forget(s *server) {
	a, key := &w.api, string(s.uid)
	// After an interruption the watch reports only the ends of Machines that were being deleted.
	if a.watched() || s.leaving() && w.leading {
		a.ends[s.uid] = orphans.End{UID: s.uid, Time: w.now, Ordered: w.now}
	}
	s.machine = nil
	a.machines.drop(key)
	a.listed.drop(key)
	if !s.built {
		delete(w.servers, s.uid)
	}
	w.show(s)
}

func nodeOf(s *server) orphans.Node {
	ready := v1alpha1.NodeReady(s.node)
	return orphans.Node{
		Name: s.name, UID: s.node.UID, ProviderID: "x:///" + s.name, Server: serverKey(s.name), OwnedBy: s.uid, Machine: "default/" + s.name,
		Created: s.node.CreationTimestamp.Time, Ready: ready.Status == corev1.ConditionTrue, Changed: ready.LastTransitionTime.Time,
	}
}
