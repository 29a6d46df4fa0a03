package ninetydays

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/cloud"
	orphans "github.com/drover-project/drover/machines/safety/orphans/verdict"
)

// resource is a row of the cloud's lists.
type resource = cloud.Resource

// stray is something that has no Machine any more.
type stray struct {
	server *server
	// since is when it lost its Machine. good counts the passes that have seen it since, in which nothing was wrong and in which it
	// might have been collected.
	since time.Time
	good  int
}

// idsOf are the keys of what a server may have in the cloud: the server first.
func idsOf(name string) []string {
	return []string{string(serverKey(name)), "port-" + name, "ip-" + name}
}

// build makes a server with its port, and a floating IP for every third.
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
	server := resource{Cloud: "x", Place: "p", Kind: cloud.ResourceServer, ID: ids[0], Key: serverKey(name), Name: name, Machine: of, Seen: w.now, Created: w.now}
	w.project.put(ids[0], server)
	for i, id := range ids[1:] {
		kind := []cloud.ResourceKind{cloud.ResourcePort, cloud.ResourceFloatingIP}[i]
		w.project.put(id, resource{Cloud: "x", Place: "p", Kind: kind, ID: id, Machine: of, UsedBy: ids[0], Seen: w.now})
	}
}

// destroy takes down all that a server has in the cloud.
func (w *world) destroy(s *server) {
	s.built = false
	for _, id := range idsOf(s.name) {
		w.project.drop(id)
	}
}

// straysOf notes what a server whose Machine is gone has left.
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

// lateOrder is a Machine whose server is ordered, and that is gone before the order is carried out.
func (w *world) lateOrder() {
	w.counts.late++
	s := w.create(w.groups[w.random.IntN(len(w.groups))])
	w.in(3*time.Second, func() { w.forget(s) })
	w.in(w.between(time.Minute, 40*time.Minute), func() {
		w.build(s)
		w.straysOf(s)
	})
}

// clone is another cluster with the same ID, such as one that was restored from a backup: it makes servers for Machines of its own. After
// some hours it gets an ID of its own, and its resources are not this cluster's any more.
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

// clones reports whether the cloud shows anything of another cluster with the same ID.
func (w *world) clones() bool {
	return slices.ContainsFunc(w.project.rows, func(r resource) bool { return strings.Contains(r.ID, "clone-") })
}
