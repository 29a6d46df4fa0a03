//go:build cluster

package e2e

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/test/openstack"
	"github.com/drover-project/drover/test/sandbox"
)

var allEnds = flag.Bool("all-ends", false, "try each change with each end of the leader, and not only with one")

// change is something that a user does with a group of 20 or more Machines.
type change struct {
	name string
	// before and after are the sizes of the group, and made is how many servers are created.
	before, after, made int
	// call is the call to the cloud during which the leader ends.
	call  string
	begin func(h herd)
	// new is true when each Machine must be another one afterwards, and false when the Machines that are left must be the same.
	new bool
}

var changes = []change{
	{name: "a scale-down of 20", before: 22, after: 2, call: "DELETE /servers/{id}", begin: func(h herd) { h.resize(2) }},
	{name: "a rollout of 20", before: 20, after: 20, made: 20, new: true, call: "POST /servers", begin: herd.changeTemplate},
	{name: "the deletion of a group of 20", before: 20, call: "DELETE /ports/{id}", begin: func(h herd) {
		h.kubectl("-n", metav1.NamespaceSystem, "delete", "machinedeployment", h.group, "--wait=false")
	}},
}

// ending is how the leader ends. now ends the leader with the number n. back returns once it runs again.
type ending struct {
	name string
	now  func(h herd, n int)
	back func(h herd, n int)
}

var endings = []ending{
	{"is killed", func(h herd, n int) { h.s.KillDrover(n) }, herd.revive},
	{"stands still until another one has led for some time", func(h herd, n int) { h.must(h.s.PauseDrover(n)) }, herd.resume},
	{"is stopped for an upgrade", func(h herd, n int) { h.s.StopDrover(n) }, herd.revive},
}

// lists is what happens to the cloud's lists from the end of the leader until seen of them have been answered.
type lists struct {
	name string
	seen int
	// hides is true when Machines may count as lost until the next complete list, up to ten minutes later.
	hides bool
	begin func(*openstack.Cloud) (end func())
}

const listServers = "GET /servers/detail"

var disturbances = []lists{
	{"lists show what was 5 s ago", 1, false, func(c *openstack.Cloud) func() {
		c.SetListLag(5 * time.Second)
		return func() { c.SetListLag(0) }
	}},
	{"lists lack the servers of a cell", 1, true, func(c *openstack.Cloud) func() {
		c.LoseCell("cell1")
		return c.RestoreCells
	}},
	{"lists of servers fail", 4, false, func(c *openstack.Cloud) func() {
		return c.Inject(openstack.Fault{Call: listServers, Status: http.StatusServiceUnavailable})
	}},
}

// TestAChangeOfManyMachinesEndsWhenTheLeaderEnds ends the leader of two drovers in the middle of a change of 20 Machines.
func TestAChangeOfManyMachinesEndsWhenTheLeaderEnds(t *testing.T) {
	t.Parallel()
	h := newEmptyHerd(t, func(o *sandbox.Options) {
		o.Replicas, o.DroverFlags = 2, []string{"--orphan-age=10s"}
	})
	for round := range endings {
		if round > 0 && !*allEnds {
			break
		}
		for i, c := range changes {
			e, l := endings[(i+round)%len(endings)], disturbances[i]
			t.Run(fmt.Sprintf("%s ends without a person when the leader %s in its middle and %s (F-59)", c.name, e.name, l.name), func(t *testing.T) { h.in(t).disturbed(c, e, l) })
		}
	}
}

// disturbed carries out a change. The leader ends in the middle of it.
func (h herd) disturbed(c change, e ending, l lists) {
	h.Helper()
	h.grow(c.before)
	was, made := h.look(), h.made()
	first := h.leader(-1)

	// From the eighth call of the kind on, each takes so long that the test sees that the leader is in the middle of the change.
	const few = 7
	done := h.s.Cloud.CallCount(c.call)
	slow := h.s.Cloud.Inject(openstack.Fault{Call: c.call, After: few, Delay: 5 * time.Second})
	c.begin(h)
	h.calledUntil(c.call, done+few)
	right := l.begin(h.s.Cloud)
	e.now(h, first)
	slow()
	listed := h.s.Cloud.CallCount(listServers)
	second := h.leader(first)
	h.calledUntil(listServers, listed+l.seen)
	right()
	e.back(h, first)
	h.settled(c, l, was, second)
	if n := h.made() - made; n != c.made {
		h.Errorf("%d servers were made, want %d", n, c.made)
	}
}

// made returns how many creates of servers the cloud has carried out. The creates that a leader had begun when it was killed or stopped do not
// count, because the cloud drops a slow call whose connection has been closed.
func (h herd) made() (n int) {
	for _, call := range h.s.Cloud.Calls() {
		if call.Name() == "POST /servers" && call.Status == http.StatusAccepted {
			n++
		}
	}
	return n
}

// grow sets the size of the group, and waits until its nodes are usable. It creates the group if there is none.
func (h herd) grow(n int) {
	h.Helper()
	if _, err := h.s.Cluster.Kubectl(h.Context(), "-n", metav1.NamespaceSystem, "get", "machinedeployment", h.group); err != nil {
		h.begin()
	}
	h.kubectl("-n", metav1.NamespaceSystem, "patch", "machinedeployment", h.group, "--type=merge", `-p={"spec":{"strategy":{"rollingUpdate":{"maxSurge":10,"maxUnavailable":0}}}}`)
	h.scale(n)
}

func (h herd) resize(to int) {
	h.Helper()
	h.kubectl("-n", metav1.NamespaceSystem, "scale", "machinedeployment", h.group, fmt.Sprintf("--replicas=%d", to))
}

func (h herd) changeTemplate() {
	h.Helper()
	h.kubectl("-n", metav1.NamespaceSystem, "patch", "machinedeployment", h.group, "--type=merge",
		fmt.Sprintf(`-p={"spec":{"template":{"spec":{"metadata":{"labels":{"rolled":"%d"}}}}}}`, time.Now().UnixNano()))
}

// leader waits until a drover other than the given one leads, and returns its number. -1 stands for none.
func (h herd) leader(other int) (n int) {
	h.Helper()
	eventually(h.T, func(ctx context.Context) (string, error) {
		for n = range 2 {
			// A drover that has ended or stands still does not answer.
			if n == other {
				continue
			}
			if text, err := h.metrics(ctx, n); err == nil && strings.Contains(text, "\nleader_election_master_status{name=\"drover\"} 1\n") {
				return "", nil
			}
		}
		return "a drover to lead", nil
	})
	return n
}

// calledUntil waits until the cloud has answered n calls of a name in all.
func (h herd) calledUntil(call string, n int) {
	h.Helper()
	eventually(h.T, func(context.Context) (string, error) {
		if now := h.s.Cloud.CallCount(call); now < n {
			return fmt.Sprintf("%d calls %s: %d", n, call, now), nil
		}
		return "", nil
	})
}

func (h herd) must(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

func (h herd) revive(n int) {
	h.Helper()
	h.must(h.s.ReviveDrover(h.Context(), n))
}

// resume continues a drover that stood still. That drover must notice that another one leads, and end. Then resume starts it again.
func (h herd) resume(n int) {
	h.Helper()
	h.must(h.s.ResumeDrover(n))
	eventually(h.T, func(context.Context) (string, error) {
		if !h.s.DroverEnded(n) {
			return "the drover that lost its lease to end", nil
		}
		return "", nil
	})
	h.revive(n)
}

// settled waits until the change is done, nothing else is left in the cloud or the cluster, and no metric of the leader shows that
// something waits for a person.
func (h herd) settled(c change, l lists, was kept, leader int) {
	h.Helper()
	eventually(h.T, func(ctx context.Context) (string, error) {
		if missing, err := h.remaining(ctx, c, was); missing != "" || err != nil {
			return missing, err
		}
		return h.waiting(ctx, l, leader)
	})
}

// remaining returns what is missing until the change is done, or is left of what should be gone.
func (h herd) remaining(ctx context.Context, c change, was kept) (string, error) {
	all, err := h.machines(ctx)
	if err != nil {
		return "", err
	}
	for uid, m := range all {
		if _, old := was.machines[uid]; old == c.new || m.DeletionTimestamp != nil {
			return "Machine " + m.Name + " to go", nil
		}
	}
	var nodes corev1.NodeList
	var sets v1alpha1.MachineSetList
	if err := h.s.Client.List(ctx, &nodes); err != nil {
		return "", err
	}
	if err := h.s.Client.List(ctx, &sets); err != nil {
		return "", err
	}
	usable := 0
	for i := range nodes.Items {
		if sandbox.UsableNode(&nodes.Items[i]) {
			usable++
		}
	}
	left := h.s.Cloud.Leftovers()
	counts := []int{len(all), len(nodes.Items), usable, len(left.Servers), len(left.Ports), len(left.FloatingIPs)}
	if slices.ContainsFunc(counts, func(n int) bool { return n != c.after }) || c.after == 0 && len(sets.Items) > 0 {
		return fmt.Sprintf("%d Machines, nodes, usable nodes, servers, ports and floating IPs each: %v; %d sets", c.after, counts, len(sets.Items)), nil
	}
	return ownServers(all, h.s.Cloud.Servers()), nil
}

// ownServers returns an empty text when each Machine has a server of its own.
func ownServers(all map[types.UID]v1alpha1.Machine, servers []openstack.Server) string {
	owners := map[string]int{}
	for _, s := range servers {
		owners[s.Metadata["machine-uid"]]++
	}
	for uid, m := range all {
		if owners[string(uid)] != 1 {
			return fmt.Sprintf("one server of Machine %s: there are %d", m.Name, owners[string(uid)])
		}
	}
	return ""
}

// heldBack are the metrics that are zero unless something is held back.
var heldBack = []string{"drover_openstack_held_servers", "drover_openstack_stuck_deletions", "drover_health_held_machines", "drover_frozen", "drover_frozen_api", "drover_orphans", "drover_orphans_aborted", "drover_deletions_withheld"}

// hidden are those of heldBack that are not zero while Machines count as lost.
var hidden = []string{"drover_openstack_held_servers", "drover_orphans_aborted"}

// waiting returns the metrics of a drover that show that something is held back.
func (h herd) waiting(ctx context.Context, l lists, n int) (string, error) {
	text, err := h.metrics(ctx, n)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(text) {
		name, _, _ := strings.Cut(line, " ")
		name, _, _ = strings.Cut(name, "{")
		if l.hides && slices.Contains(hidden, name) {
			continue
		}
		if slices.Contains(heldBack, name) && !strings.HasSuffix(line, " 0\n") {
			return "nothing to be held back: " + line, nil
		}
	}
	return "", nil
}
