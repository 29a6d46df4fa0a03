//go:build cluster

package main

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/adoption"
	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/test/machinecontroller"
)

// 100 Machines as machine-controller leaves them: 2 have no server, 7 are being deleted, 1 names a server that belongs to
// another Machine, 5 have a server without a Node, and 8 are in a rollout that was paused midway.
func TestDroverTakesOverFromMachineController(t *testing.T) {
	t.Parallel()
	l := newLegacy(t)
	l.steal()
	was := l.look()
	if len(was.machines) != 100 || len(was.servers) != 98 {
		t.Fatalf("there are %d Machines and %d servers", len(was.machines), len(was.servers))
	}
	on := func(t *testing.T) *legacy {
		inside, p := *l, *l.pair
		p.T, inside.pair = t, &p
		return &inside
	}
	l.cloud.ForgetCalls()
	stopped := l.rival()
	t.Run("adopt --dry-run reports in advance what drover will do with each Machine, while machine-controller's CRDs are installed (CAPI-54)", func(t *testing.T) { on(t).foretold(was) })
	l.ours()
	begun := time.Now()
	drover := l.starts()
	t.Run("drover does nothing while machine-controller renews its lease (MC-78)", func(t *testing.T) { on(t).idle(begun) })
	stopped()
	t.Run("drover takes over without a rollout, a duplicate server, a lost Machine or a warning (CAPI-54, F-105)", func(t *testing.T) { on(t).taken(was) })
	t.Run("an Event reports that the server of a Machine belongs to another Machine (F-1, F-3)", func(t *testing.T) { on(t).named() })
	now := l.look()
	made, deleted := l.accepted("POST /servers"), l.accepted("DELETE /servers/{id}")
	drover()
	t.Run("machine-controller takes over again with its old CRDs, and no Machine, set or server changes (CAPI-54)", func(t *testing.T) { on(t).back(now) })
	t.Run("drover takes over for the second time, no Machine, set or server changes, and each Machine has one condition Ready (CAPI-54, F-104)", func(t *testing.T) { on(t).again(now) })
	if m, d := l.accepted("POST /servers"), l.accepted("DELETE /servers/{id}"); m != made || d != deleted {
		t.Errorf("on the way back and forth %d servers were made and %d deleted", m-made, d-deleted)
	}
}

// steal writes the UID of another Machine into the owner tag of one Machine's server.
func (l *legacy) steal() {
	l.Helper()
	for _, m := range l.look().machines {
		if m.Spec.ProviderID == nil || !strings.HasPrefix(m.Name, "secret-") || !strings.HasSuffix(m.Name, "-07") {
			continue
		}
		l.foreign = m.Name
		must(l.T, l.past.Rename(l.Context(), strings.TrimPrefix(*m.Spec.ProviderID, "openstack:///"), "11111111-2222-3333-4444-555555555555"))
	}
	if l.foreign == "" {
		l.Fatal("no Machine was chosen")
	}
}

// foretold fails the test unless the report has the right number of Machines for each outcome.
func (l *legacy) foretold(was inventory) {
	report, code := l.foresees()
	counts := map[string]int{}
	for _, e := range report.Entries {
		counts[e.Kind+" "+string(e.Outcome)]++
	}
	want := map[string]int{
		"Machine kept": 85, "Machine made": 2, "Machine waits": 5, "Machine deleted": 7, "Machine left alone": 1,
		"MachineDeployment kept": 5, "MachineDeployment refused": 1, "MachineSet kept": 7,
	}
	if !maps.Equal(counts, want) || code != exitDisruptive {
		l.Errorf("the exit code is %d, and the report counts\n%v, want\n%v\n%+v", code, counts, want, report)
	}
	subjects := map[string]bool{}
	for _, f := range report.Findings {
		subjects[f.Subject] = true
	}
	for _, subject := range []string{"lease", "CRDs", "policies", "rights"} {
		if !subjects[subject] {
			l.Errorf("there is no finding about %s: %+v", subject, report.Findings)
		}
	}
	for _, e := range report.Entries {
		if e.Outcome == adoption.Left && e.Name != l.foreign || e.Outcome == adoption.Refused && !strings.Contains(e.Why, "1.33.4") {
			l.Errorf("%+v", e)
		}
	}
	for _, c := range l.cloud.Calls() {
		if c.Method != http.MethodGet && !strings.HasSuffix(c.Path, "/auth/tokens") {
			l.Errorf("the dry run sent %s %s to the cloud", c.Method, c.Path)
		}
	}
	l.unchanged(was)
}

// unchanged fails the test unless every Machine, server and Node is as the earlier inventory shows it.
func (l *legacy) unchanged(was inventory) {
	l.Helper()
	now := l.look()
	for uid, m := range was.machines {
		if now.machines[uid].ResourceVersion != m.ResourceVersion {
			l.Errorf("Machine %s was written", m.Name)
		}
	}
	if len(now.machines) != len(was.machines) || len(now.servers) != len(was.servers) {
		l.Errorf("there are %d Machines and %d servers", len(now.machines), len(now.servers))
	}
}

// idle fails the test unless drover writes nothing and makes no cloud calls while it waits for machine-controller.
func (l *legacy) idle(begun time.Time) {
	l.cloud.ForgetCalls()
	l.until("drover says that it stands by", func() bool { return len(l.eventsOf("MachineControllerRuns")) > 0 })
	for _, w := range l.wrote("drover-test", begun, time.Now()) {
		if !strings.Contains(w, "drover-cluster-id") && !strings.Contains(w, "/configmaps") {
			l.Errorf("it wrote: %s", w)
		}
	}
	if calls := l.cloud.Calls(); len(calls) > 0 {
		l.Errorf("it asked the cloud: %v", calls[0])
	}
}

// taken waits until drover has taken over. It fails the test unless drover created only the two missing servers, deleted only
// those of the seven deleted Machines, and every other Machine kept its server.
func (l *legacy) taken(was inventory) {
	living := func() (n int) {
		for _, m := range l.look().machines {
			if m.DeletionTimestamp == nil {
				n++
			}
		}
		return n
	}
	l.until("the deletions have ended and every server is marked", func() bool {
		marked := 0
		for _, s := range l.cloud.Servers() {
			if s.Metadata["drover-cluster-id"] != "" {
				marked++
			}
		}
		return len(l.look().machines) == 93 && marked == 92
	})
	l.settles(func() string {
		var text []string
		for _, m := range l.look().machines {
			text = append(text, m.Name+m.ResourceVersion)
		}
		slices.Sort(text)
		return strings.Join(text, " ")
	})
	now := l.look()
	if n := living(); n != 93 {
		l.Errorf("%d Machines live", n)
	}
	if made, deleted := l.accepted("POST /servers"), l.accepted("DELETE /servers/{id}"); made != 2 || deleted != 7 {
		l.Errorf("%d servers were made, and %d deleted; want 2 and 7", made, deleted)
	}
	if !slices.Equal(now.sets, was.sets) {
		l.Errorf("the sets are %v, and were %v", now.sets, was.sets)
	}
	for _, m := range was.machines {
		l.same(&m, was, now)
	}
	for _, m := range now.machines {
		if c := m.Condition(v1alpha1.ConditionWarnings); c.Status == corev1.ConditionTrue {
			l.Errorf("Machine %s has a warning: %s", m.Name, c.Message)
		}
	}
	if ports, ips := len(now.ports), len(now.ips); ports != 93 || ips != 38 {
		l.Errorf("there are %d ports and %d floating IPs; want 93 and 38", ports, ips)
	}
}

// same fails the test unless a living Machine has its own server, and its Node has not changed.
func (l *legacy) same(m *v1alpha1.Machine, was, now inventory) {
	l.Helper()
	if m.DeletionTimestamp != nil {
		return
	}
	current, there := now.machines[m.UID]
	if !there || current.DeletionTimestamp != nil {
		l.Errorf("Machine %s is gone", m.Name)
		return
	}
	for id, s := range was.servers {
		if s.Metadata["machine-uid"] != string(m.UID) {
			continue
		}
		if after, there := now.servers[id]; !there || after.Status != "ACTIVE" {
			l.Errorf("server %s of Machine %s is gone", id, m.Name)
		}
		if current.Spec.ProviderID == nil || *current.Spec.ProviderID != "openstack:///"+id {
			l.Errorf("Machine %s names %v, and its server is %s", m.Name, current.Spec.ProviderID, id)
		}
	}
	if m.Status.NodeRef == nil {
		return
	}
	before, after := was.nodes[m.Status.NodeRef.Name], now.nodes[m.Status.NodeRef.Name]
	if before.UID != after.UID || after.Spec.Unschedulable || len(after.Spec.Taints) > 0 {
		l.Errorf("node %s is another one, cordoned or tainted: %+v", before.Name, after.Spec)
	}
}

// named waits for the Event about the Machine whose server belongs to another Machine. The Event must contain the UID of that
// other Machine.
func (l *legacy) named() {
	l.until("an Event names the Machine whose server belongs to another", func() bool {
		var all corev1.EventList
		must(l.T, l.client.List(l.Context(), &all, client.InNamespace(metav1.NamespaceSystem)))
		return slices.ContainsFunc(all.Items, func(e corev1.Event) bool {
			return e.InvolvedObject.Name == l.foreign && e.Type == corev1.EventTypeWarning && strings.Contains(e.Message, "11111111-2222-3333-4444-555555555555")
		})
	})
}

// unready makes one Machine not Ready, as if drover had been stopped before it saw that the Machine's Node is Ready again.
func (l *legacy) unready() {
	l.Helper()
	for _, m := range l.look().machines {
		if c := m.Condition(v1alpha1.ConditionReady); c.Status == corev1.ConditionTrue && m.Status.NodeRef != nil {
			c.Status, c.Reason = corev1.ConditionFalse, "NodeNotReady"
			must(l.T, l.client.Update(l.Context(), &m))
			return
		}
	}
	l.Fatal("no Machine is Ready")
}

// twofold returns the names of the Machines with more than one condition Ready.
func (l *legacy) twofold() (names []string) {
	l.Helper()
	for _, m := range l.look().machines {
		n := 0
		for _, c := range m.Status.Conditions {
			if c.Type == v1alpha1.ConditionReady {
				n++
			}
		}
		if n > 1 {
			names = append(names, m.Name)
		}
	}
	return names
}

// back runs machine-controller for a while with its own CRDs, and fails the test when this changes the inventory.
func (l *legacy) back(was inventory) {
	l.openKinds()
	l.unready()
	ctx, cancel := context.WithTimeout(l.Context(), 5*time.Second)
	defer cancel()
	predecessor := machinecontroller.New(l.client, metav1.NamespaceSystem)
	predecessor.Run(ctx)
	for _, err := range predecessor.Errors() {
		l.Errorf("machine-controller was refused something: %v", err)
	}
	if len(l.twofold()) == 0 {
		l.Error("machine-controller has appended no second condition Ready")
	}
	l.kept(was)
}

// again makes drover take over once more, and fails the test when this changes the inventory.
func (l *legacy) again(was inventory) {
	l.ours()
	l.starts()
	l.until("drover leads", func() bool {
		var lease coordinationv1.Lease
		must(l.T, l.client.Get(l.Context(), client.ObjectKey{Namespace: "drover", Name: leaseName}, &lease))
		return lease.Spec.RenewTime != nil && time.Since(lease.Spec.RenewTime.Time) < leaseRetry && *lease.Spec.HolderIdentity != ""
	})
	l.until("every Machine that has a Node is Ready again, with one condition Ready", func() bool {
		for _, m := range l.look().machines {
			if m.Status.NodeRef != nil && (m.Status.Phase == nil || *m.Status.Phase != v1alpha1.PhaseRunning) && m.Name != l.foreign {
				return false
			}
		}
		return len(l.twofold()) == 0
	})
	l.kept(was)
	report, code := l.foresees()
	if code != 0 || report.Disruptive() || len(report.Findings) != 1 || !strings.Contains(report.Findings[0].Message, "drover runs already") {
		l.Errorf("a dry run beside drover ends with %d and %+v", code, report)
	}
}

// kept fails the test unless Machines, sets, servers, ports and addresses are the same as in the earlier inventory.
func (l *legacy) kept(was inventory) {
	l.Helper()
	now := l.look()
	text := func(i inventory) string {
		uids, servers := slices.Sorted(maps.Keys(i.machines)), slices.Sorted(maps.Keys(i.servers))
		return fmt.Sprint(uids, i.sets, servers, len(i.ports), len(i.ips))
	}
	if text(now) != text(was) {
		l.Errorf("it is not as it was:\n%s\n%s", text(was), text(now))
	}
}
