package ninetydays

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/cloud"
	orphans "github.com/drover-project/drover/machines/safety/orphans/verdict"
)

// resource is a row of the cloud's lists.
type resource = cloud.Resource

// stray is a resource in the cloud or a Node whose Machine no longer exists.
type stray struct {
	server *server
	// since is the time at which the resource lost its Machine. good is the number of later undisturbed rounds that could
	// have collected the resource.
	since time.Time
	good  int
}

// idsOf returns the keys that a server, its port and its floating IP have in the cloud, in this order.
func idsOf(name string) []string {
	return []string{string(serverKey(name)), "port-" + name, "ip-" + name}
}

// build creates a server with its port in the cloud. Every third server has a floating IP.
func (w *world) build(s *server) {
	s.built = true
	ids := idsOf(s.name)
	if s.number%3 > 0 {
		ids = ids[:2]
	}
	w.addResources(s.uid, s.name, ids)
	if s.machine != nil {
		w.show(s)
	}
}

func (w *world) addResources(of types.UID, name string, ids []string) {
	server := resource{Place: "p", Kind: cloud.ResourceServer, ID: ids[0], Key: serverKey(name), Name: name, Machine: of}
	w.project.put(ids[0], server)
	for i, id := range ids[1:] {
		kind := []cloud.ResourceKind{cloud.ResourcePort, cloud.ResourceFloatingIP}[i]
		w.project.put(id, resource{Place: "p", Kind: kind, ID: id, Machine: of, UsedBy: ids[0]})
	}
}

// destroy deletes all resources of a server in the cloud.
func (w *world) destroy(s *server) {
	s.built = false
	for _, id := range idsOf(s.name) {
		w.project.drop(id)
	}
}

// straysOf records all resources and the Node of a server as orphans, because the server's Machine no longer exists.
func (w *world) straysOf(s *server) {
	for _, id := range idsOf(s.name) {
		if w.project.row(id) != nil {
			w.strays[id] = &stray{server: s, since: w.now}
		}
	}
	if s.node != nil {
		w.strays[nodeKey(s.name)] = &stray{server: s, since: w.now}
	}
}

func nodeKey(name string) string { return orphans.KindNode + " " + name }

// lateOrder creates a Machine that is deleted before its server is created.
func (w *world) lateOrder() {
	w.counts.late++
	s := w.create(w.groups[w.random.IntN(len(w.groups))])
	w.in(3*time.Second, func() { w.forget(s) })
	w.in(w.between(time.Minute, 40*time.Minute), func() {
		w.build(s)
		w.straysOf(s)
	})
}

// clone simulates another cluster with the same cluster ID, for example one that was restored from a backup. It creates
// servers for its own Machines. After some hours it gets an ID of its own, and its resources are no longer listed.
func (w *world) clone() {
	for range 2 {
		w.number++
		name := fmt.Sprintf("clone-%d", w.number)
		ids := idsOf(name)
		w.addResources(types.UID("uid-"+name), name, ids)
		w.in(w.between(5*time.Hour, 30*time.Hour), func() {
			for _, one := range ids {
				w.project.drop(one)
			}
		})
	}
}
