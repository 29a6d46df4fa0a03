package day

import (
	"context"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	sim "github.com/drover-project/drover/test/openstack"
)

// Play runs a day. It starts drover with the function start, and fails the test when an invariant is broken.
func Play(t testing.TB, start Starter) {
	w := newWorld(t, start)
	defer w.close()
	w.play(script)
	w.checkDay()
	w.checkEnd()
}

// event is an event of a day. happen returns when the effects of the event are over. It limits the costs of the event itself when limited is true.
type event struct {
	at      time.Duration
	what    string
	happen  func(*World)
	limited bool
}

// play runs drover, the autoscaler and the events of a day until the last event is over.
func (w *World) play(events []event) {
	ctx, stop := context.WithCancel(w.ctx)
	w.all.Go(func() { w.keepDrover(ctx) })
	w.all.Go(func() { w.runAutoscaler(ctx) })
	for _, e := range events {
		w.until(e.at)
		if w.Failed() {
			w.FailNow()
		}
		w.log("%s", e.what)
		before := w.costs()
		e.happen(w)
		if !e.limited {
			w.checkCosts(e.what, before)
		}
	}
	w.end = stop
}

// hour is a short name for the times in the script.
const hour = time.Hour

// script lists the events of the day.
var script = []event{
	{10 * time.Minute, "the cluster starts", (*World).up, false},
	{1 * hour, "a kubelet dies for good", (*World).kubeletDies, false},
	{2 * hour, "nothing happens for two hours", (*World).quiet, false},
	{4*hour + 10*time.Minute, "a user stops a server", (*World).serverStopped, false},
	{8*hour + 30*time.Minute, "a physical host fails", (*World).hostFails, false},
	{11 * hour, "a user removes the finalizers of a Machine", (*World).finalizersOff, false},
	{12*hour + 30*time.Minute, "the template of a pool changes", (*World).rollout, false},
	{13*hour + 59*time.Minute + 30*time.Second, "drover is killed", (*World).droverKilled, false},
	{15 * hour, "a zone fails", (*World).zoneOut, false},
	{17*hour + 30*time.Minute, "the API server is down", (*World).apiServerAway, false},
	{19*hour + 20*time.Second, "drover is killed while Machines are created", (*World).droverKilled, false},
	{21 * hour, "a kubelet does not report for some minutes", (*World).blip, false},
	{24 * hour, "the day is over", func(*World) {}, false},
}

// up waits until all pods run.
func (w *World) up() { w.within(5*time.Minute, "all pods run", w.allRun) }

// allRun reports whether all wanted pods run on Nodes.
func (w *World) allRun() bool {
	var pods corev1.PodList
	w.must(w.seen.List(w.ctx, &pods))
	n := 0
	for i := range pods.Items {
		if pods.Items[i].Status.Phase == corev1.PodRunning && pods.Items[i].DeletionTimestamp == nil {
			n++
		}
	}
	return n == w.wanted()
}

// guestsIn returns the guests with working kubelets in a zone, or in all zones when zone is empty, sorted by name.
func (w *World) guestsIn(zone string) []*guest {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []*guest
	for _, g := range w.guests {
		if (zone == "" || g.server.Zone == zone) && g.runs() && w.nodes[g.server.Name] != nil {
			all = append(all, g)
		}
	}
	slices.SortFunc(all, func(a, b *guest) int { return slices.Compare([]byte(a.server.Name), []byte(b.server.Name)) })
	return all
}

// serverGone reports whether a server does not exist any more.
func (w *World) serverGone(g *guest) bool {
	_, there := w.Cloud.Server(g.server.ID)
	return !there
}

// kubeletDies stops the kubelet of a server permanently. drover must replace the Machine within the health timeout plus the time that a
// Machine takes.
func (w *World) kubeletDies() {
	g := w.guestsIn("")[0]
	w.patiently(func() {
		w.breaks(g)
		w.within(monitorGrace+10*time.Minute+2*step+time.Minute, "the broken server is gone", func() bool { return w.serverGone(g) })
		w.within(5*time.Minute, "all pods run", w.allRun)
	})
}

// breaks stops the kubelet of a server permanently.
func (w *World) breaks(g *guest) {
	g.dead = true
	w.checker.broken[g.server.Name] = true
}

// patiently calls happen, which is an event of the day, and waits until all pods run. During that time a pod may be pending for up
// to an hour, because the pods of an unreachable Node stay bound to it for a long time.
func (w *World) patiently(happen func()) {
	w.checker.patience = time.Hour
	happen()
	w.within(20*time.Minute, "all pods run", w.allRun)
	w.checker.patience = usualPatience
}

// quiet fails the test when drover writes anything but its leases while nothing changes in the cluster or the cloud.
func (w *World) quiet() {
	kube, cloud := w.counts.calls(), w.Cloud.CallsByName()
	w.until(w.time() + 2*hour)
	more := since(kube, w.counts.calls())
	w.log("two hours at rest: calls to the API server:%s calls to the cloud:%s", lines(more), lines(since(cloud, w.Cloud.CallsByName())))
	if n := writes(more); n > 0 {
		w.Errorf("drover has written %d times at rest:%s", n, lines(more))
	}
}

// serverStopped stops a server outside of drover. drover must start it again and keep it.
func (w *World) serverStopped() {
	g := w.guestsIn("")[0]
	w.patiently(func() {
		w.Cloud.StopServer(g.server.ID)
		w.within(3*time.Minute, "the server runs again", g.runs)
	})
}

// hostFails makes a physical host fail with the servers on it. All of them must be replaced.
func (w *World) hostFails() {
	on := map[string][]*guest{}
	most := ""
	for _, g := range w.guestsIn("") {
		s, _ := w.Cloud.Server(g.server.ID)
		on[s.Host] = append(on[s.Host], g)
		if len(on[s.Host]) > len(on[most]) {
			most = s.Host
		}
	}
	w.log("host %s with %d servers", most, len(on[most]))
	w.patiently(func() {
		for _, g := range on[most] {
			w.breaks(g)
		}
		w.Cloud.SetHost(sim.Host{Name: most, Zone: on[most][0].server.Zone, Cell: "cell1", Down: true})
		w.within(30*time.Minute, "the servers of the host are gone", func() bool {
			return !slices.ContainsFunc(on[most], func(g *guest) bool { return !w.serverGone(g) })
		})
	})
}

// finalizersOff deletes a Machine and removes its finalizers. drover must collect the Machine's server, port, floating
// IP and Node.
func (w *World) finalizersOff() {
	g := w.guestsIn("")[0]
	m := &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: g.server.Name}}
	w.checker.excused[m.Name] = true
	w.patiently(func() {
		w.must(w.Admin.Get(w.ctx, client.ObjectKeyFromObject(m), m))
		before := m.DeepCopy()
		m.Finalizers = nil
		w.must(w.Admin.Patch(w.ctx, m, client.MergeFrom(before)))
		w.must(w.Admin.Delete(w.ctx, m))
		w.within(hour+25*time.Minute, "all that the Machine had is gone", func() bool {
			return w.serverGone(g) && w.nodes[g.server.Name] == nil && w.balanced()
		})
	})
}

// balanced reports whether the cloud has one port and one floating IP for each server, and one server for each Machine.
func (w *World) balanced() bool {
	var list v1alpha1.MachineList
	w.must(w.seen.List(w.ctx, &list))
	left := w.Cloud.Leftovers()
	n := len(list.Items)
	return len(left.Servers) == n && len(left.Ports) == n && len(left.FloatingIPs) == n
}

// rollout changes the kubelet version of a pool. All of its Machines must be replaced.
func (w *World) rollout() {
	d := &v1alpha1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: pools[1].name}}
	w.must(w.Admin.Get(w.ctx, client.ObjectKeyFromObject(d), d))
	before := d.DeepCopy()
	d.Spec.Template.Spec.Versions.Kubelet = "1.37.2"
	w.must(w.Admin.Patch(w.ctx, d, client.MergeFrom(before)))
	w.patiently(func() {
		w.within(hour, "all Machines of the pool are new", func() bool {
			var list v1alpha1.MachineList
			w.must(w.seen.List(w.ctx, &list, client.MatchingLabels{labelPool: d.Name}))
			return !slices.ContainsFunc(list.Items, func(m v1alpha1.Machine) bool { return m.Spec.Versions.Kubelet != "1.37.2" })
		})
	})
}

// droverKilled kills drover. The next drover process takes over.
func (w *World) droverKilled() {
	w.patiently(func() {
		w.kill()
		w.until(w.time() + 5*time.Minute)
	})
}

// zoneOut makes all kubelets of the zone with the most servers stop reporting for 40 minutes. drover must not replace a
// Machine while the zone is out, and no more than one at a time while the kubelets come back one after the other.
func (w *World) zoneOut() {
	zone := ""
	var in []*guest
	for _, p := range pools {
		if all := w.guestsIn(p.zone); len(all) > len(in) {
			zone, in = p.zone, all
		}
	}
	w.log("%s with %d Nodes", zone, len(in))
	back := time.Now().Add(40 * time.Minute)
	w.setZone(zone, true)
	late := map[string]bool{}
	for i, g := range in {
		late[g.server.Name] = true
		g.silentUntil = back.Add(time.Duration(i) * 30 * time.Second)
	}
	w.patiently(func() {
		w.until(w.time() + 40*time.Minute)
		w.checker.late = late
		w.setZone(zone, false)
		w.until(w.time() + 20*time.Minute)
		w.checker.late = nil
	})
}

// setZone disables or enables the hosts of a zone for new servers.
func (w *World) setZone(zone string, down bool) {
	for _, h := range w.Cloud.Hosts() {
		if h.Zone == zone {
			h.Disabled = down
			w.Cloud.SetHost(h)
		}
	}
}

// apiServerAway takes the API server down for 25 minutes. drover ends because it cannot renew its lease, and is restarted again
// and again.
func (w *World) apiServerAway() {
	w.patiently(func() {
		w.apiAway.Store(true)
		w.Kube.CutWatches()
		w.until(w.time() + 25*time.Minute)
		w.apiAway.Store(false)
		w.until(w.time() + 10*time.Minute)
	})
}

// blip makes a kubelet stop reporting for less than the health timeout.
func (w *World) blip() {
	g := w.guestsIn("")[0]
	w.patiently(func() {
		g.silentUntil = time.Now().Add(6 * time.Minute)
		w.until(w.time() + 15*time.Minute)
	})
}
