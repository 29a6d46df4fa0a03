package ninetydays

import (
	"maps"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/cloud"
	orphans "github.com/drover-project/drover/machines/safety/orphans/verdict"
)

const (
	clusterID               = "c1"
	orphanAge, orphanPeriod = 15 * time.Minute, 15 * time.Minute
	drainTimeout            = 2 * time.Hour
	orphansPerPass          = 10
	// roundBound is how many undisturbed rounds the collector may need for an orphan whose Machine has been gone long enough.
	roundBound = 1
)

// collector runs the rounds of the orphan collector without its clients: it carries out the decisions and checks them.
type collector struct {
	*world
	trouble *trouble
	// started counts the leaders, so that the rounds of an earlier leader are not run.
	started int
	leads   bool
	// words are what an operator confirms.
	words []string
	// drained holds the time at which the drain of each orphan's Node ends.
	drained map[string]time.Time
	// reasons holds the number of rounds in which each reason kept orphans from being deleted.
	reasons map[orphans.Reason]int
}

func newCollector(w *world, t *trouble) *collector {
	c := &collector{world: w, trouble: t, drained: map[string]time.Time{}, reasons: map[orphans.Reason]int{}}
	w.api.watched = func() bool { return c.leads && t.now() != stopped && t.now() != interrupted }
	c.lead()
	return c
}

// lead starts the work of a new leader. It knows only the ends that are stored: those of Machines that have something left.
func (c *collector) lead() {
	c.leads, c.leading = true, true
	left := orphans.Left([]cloud.Project{{Resources: c.project.rows}}, c.api.nodes.rows)
	maps.DeleteFunc(c.api.ends, func(uid types.UID, _ orphans.End) bool { return !left[uid] })
	for _, left := range c.strays {
		left.good = 0
	}
	c.started++
	c.tick(c.started)
}

// tick runs a round after each period, as long as the same leader leads.
func (c *collector) tick(leader int) {
	c.in(orphanPeriod, func() {
		if c.leads && leader == c.started {
			c.round()
			c.tick(leader)
		}
	})
}

// round runs one round of the orphan collector, and carries out its decisions.
func (c *collector) round() {
	s := c.trouble.snapshot()
	s.Settings = orphans.Settings{Age: orphanAge}
	good := c.answers() && c.trouble.now() == nothing
	if !c.answers() {
		s.Stale = "the API server cannot be reached"
	}
	v := orphans.Judge(s)
	if v.Judged {
		confirmed, _ := v.Confirm(c.words, c.now, "")
		c.words = nil
		maps.Copy(c.api.ends, confirmed)
		v = orphans.Judge(s)
	}
	for _, uid := range v.Over {
		delete(c.api.ends, uid)
	}
	for _, stop := range v.Stops {
		c.reasons[stop.Reason]++
		good = good && stop.Reason == orphans.Unconfirmed
	}
	reported := map[string]string{}
	begun := 0
	for i := range v.Orphans {
		o := &v.Orphans[i]
		reported[keyOf(o)] = o.Why
		if o.Delete && begun < orphansPerPass && c.delete(o) {
			begun++
		}
	}
	for _, mark := range v.Marks {
		c.mark(mark)
	}
	c.noneLeft(good, reported)
}

// keyOf returns the key under which the map strays holds an orphan.
func keyOf(o *orphans.Orphan) string {
	if o.Kind == orphans.KindNode {
		return nodeKey(o.ID)
	}
	return o.ID
}

// delete deletes an orphan as the collector does: it drains the Node before it deletes the server, and reads the orphan
// again from the cloud and the API server. It reports whether the deletion was accepted.
func (c *collector) delete(o *orphans.Orphan) bool {
	if o.Node != nil && o.Kind != orphans.KindNode && !c.drain(o) {
		return false
	}
	row := c.project.row(o.ID)
	if o.Kind != orphans.KindNode && row == nil {
		return true
	}
	if node := c.api.nodes.row(o.ID); o.Kind == orphans.KindNode && (node == nil || *node != *o.Node) {
		return false
	}
	s := c.orphan(o)
	switch {
	case o.Kind == orphans.KindNode:
		if s.built {
			return false
		}
		s.node = nil
		c.show(s)
	case o.Kind == cloud.ResourceServer:
		c.serverGone(s)
	case row.UsedBy != "":
		return false
	}
	c.counts.collected++
	c.project.drop(o.ID)
	delete(c.strays, keyOf(o))
	return true
}

// orphan returns the server of an orphan that is about to be deleted. It fails the test when the object is not an
// orphan.
func (c *collector) orphan(o *orphans.Orphan) *server {
	c.Helper()
	found := c.strays[keyOf(o)]
	switch {
	case strings.HasPrefix(o.ID, "foreign-"):
		c.Fatalf("%v: Node %s of another cluster is deleted", c.now, o.ID)
	case found == nil && strings.Contains(o.ID, "clone-"):
		c.Fatalf("%v: %s %s of another cluster with the same ID is deleted", c.now, o.Kind, o.ID)
	case found == nil:
		c.Fatalf("%v: %s %s of %s is deleted although its Machine exists (fault %d): %+v", c.now, o.Kind, o.ID, o.Machine, c.trouble.now(), c.servers[o.Machine])
	case o.Kind == orphans.KindNode && found.server.built && c.trouble.now() == nothing:
		c.Fatalf("%v: Node %s is deleted although its server exists", c.now, o.ID)
	}
	return found.server
}

// drain reports whether the drain of an orphan's Node has ended. Some drains end with their time.
func (c *collector) drain(o *orphans.Orphan) bool {
	row := c.api.nodes.row(o.Node.Name)
	if row == nil || !row.Ready {
		return true
	}
	if _, begun := c.drained[o.ID]; !begun {
		c.drained[o.ID] = c.now.Add(c.between(0, time.Hour))
		if c.oneIn(20) {
			c.drained[o.ID] = c.now.Add(drainTimeout)
		}
	}
	return !c.now.Before(c.drained[o.ID])
}

// serverGone handles the deletion of a server without a Machine: its port and floating IP become unused, and its Node
// stops reporting. In most cases the cloud-controller-manager deletes the Node.
func (c *collector) serverGone(s *server) {
	s.built = false
	for _, id := range idsOf(s.name)[1:] {
		if row := c.project.row(id); row != nil {
			row.UsedBy = ""
		}
	}
	if s.node == nil {
		return
	}
	if c.oneIn(3) {
		c.fallSilent(s)
		return
	}
	c.in(time.Minute, func() {
		s.node = nil
		c.show(s)
		delete(c.strays, nodeKey(s.name))
	})
}

// mark sets or removes the annotation that says that a Node has no Machine. It fails the test when it would set the
// annotation on a Node that has a Machine.
func (c *collector) mark(marked *orphans.Node) {
	row := c.api.nodes.row(marked.Name)
	if row == nil {
		return
	}
	if !marked.Unmanaged && !strings.HasPrefix(row.Name, "manual-") {
		c.Fatalf("%v: Node %s is annotated as without a Machine", c.now, row.Name)
	}
	row.Unmanaged = !marked.Unmanaged
	c.counts.marked++
}

// noneLeft fails the test when an orphan has survived too many rounds. For each orphan it counts the undisturbed rounds
// that could have collected it; good is true when this round was undisturbed. A disturbed round sets the counts back to
// zero. An orphan may survive roundBound undisturbed rounds, and one more for every orphansPerPass existing orphans,
// because one round deletes at most orphansPerPass orphans. reported holds, by key, why this round does not delete an
// orphan.
func (c *collector) noneLeft(good bool, reported map[string]string) {
	bound := roundBound + len(c.strays)/orphansPerPass
	for key, left := range c.strays {
		if !good {
			left.good = 0
			continue
		}
		if !c.isDue(key, left, reported[key]) {
			continue
		}
		if left.good++; left.good > bound {
			c.Fatalf("%v: %s lost its Machine at %v and is left after %d undisturbed rounds: %s", c.now, key, left.since, left.good, reported[key])
		}
	}
}

// isDue reports whether an undisturbed round should collect an orphan.
func (c *collector) isDue(key string, left *stray, why string) bool {
	if strings.Contains(why, "has not seen the end") || c.now.Sub(left.since) <= orphanAge {
		// Only an operator may decide about an orphan whose Machine ended while no leader watched.
		return false
	}
	switch {
	case strings.HasPrefix(key, orphans.KindNode+" "):
		return !left.server.built && !left.server.isReady() && left.server.node != nil &&
			c.now.Sub(left.server.node.Status.Conditions[0].LastTransitionTime.Time) > orphanAge
	case key == string(serverKey(left.server.name)):
		return c.drained[key].IsZero() || !c.now.Before(c.drained[key])
	}
	return !left.server.built
}
