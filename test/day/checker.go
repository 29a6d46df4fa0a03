package day

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/deploy"
	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/proto"
)

// checker checks the invariants of the simulated day after each step of the [World], except while the API server cannot be reached.
type checker struct {
	w *World
	// there holds the last state of the Machines that are not being deleted. broken holds the names of the Machines whose servers were
	// broken permanently.
	there  map[types.UID]*v1alpha1.Machine
	broken map[string]bool
	// waiting holds the time since which each pod has been pending.
	waiting map[types.UID]time.Time
	// excused holds the names of the Machines that the test itself deletes. The entry "end" allows every deletion and every size,
	// because the test then deletes all pools.
	excused map[string]bool
	// late holds the Machines of a zone whose outage has ended, and whose kubelets come back one after the other. Once most of them are
	// back, drover may replace the others, one at a time: lateAt is when the last one was deleted.
	late   map[string]bool
	lateAt time.Time
	// patience is how long a pod may be pending now. slowest is the longest wait of a pod in calm hours.
	patience, slowest time.Duration
	// healed and rolled are the numbers of Machines that were replaced because they were unhealthy or by a rollout. left is the
	// number of Machines that were deleted for any reason.
	healed, rolled, left int
	made                 map[types.UID]bool

	mu sync.Mutex
	// named holds the names and provider IDs of the nodes that the autoscaler has asked to delete. decreased holds, by group,
	// how many Machines drover may still remove because the autoscaler has decreased the size.
	named     map[string]bool
	decreased map[string]int
	rpcs      map[string]int
}

// bootTime is less than the time that a server needs to become a Node.
const bootTime = 30 * time.Second

// usualPatience is how long a pod may wait for a Node in calm hours: a loop of the autoscaler, and the boot and start of a
// server.
const usualPatience = 4 * time.Minute

func newChecker(w *World) *checker {
	return &checker{
		w: w, there: map[types.UID]*v1alpha1.Machine{}, broken: map[string]bool{}, waiting: map[types.UID]time.Time{}, excused: map[string]bool{}, patience: usualPatience,
		named: map[string]bool{}, decreased: map[string]int{}, rpcs: map[string]int{}, made: map[types.UID]bool{},
	}
}

// called records a call of the autoscaler.
func (j *checker) called(method string, request any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.rpcs[path.Base(method)]++
	switch r := request.(type) {
	case *proto.NodeGroupDeleteNodesRequest:
		for _, n := range r.GetNodes() {
			j.named[n.GetName()], j.named[n.GetProviderID()] = true, true
		}
	case *proto.NodeGroupDecreaseTargetSizeRequest:
		j.decreased[r.GetId()] -= int(r.GetDelta())
	}
}

// names reports whether the autoscaler has asked to delete a node with one of these names or provider IDs.
func (j *checker) names(names ...string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.ContainsFunc(names, func(name string) bool { return j.named[name] })
}

// check checks all invariants of the simulated day, given the current Machines and pods.
func (j *checker) check(machines []v1alpha1.Machine, pods []corev1.Pod) {
	j.checkSizes(machines)
	j.checkServers()
	there := map[types.UID]*v1alpha1.Machine{}
	for i := range machines {
		if m := &machines[i]; m.DeletionTimestamp == nil {
			j.made[m.UID], there[m.UID] = true, m
		}
	}
	for uid, m := range j.there {
		if there[uid] == nil {
			j.machineDeleted(m)
		}
	}
	j.there = there
	j.checkPods(pods)
}

// machineDeleted is called with the last state of a Machine that is being deleted or is gone.
func (j *checker) machineDeleted(m *v1alpha1.Machine) {
	j.left++
	why := j.mayBeDeleted(m)
	if why == "" {
		j.w.Errorf("%s: Machine %s is deleted without a reason: %+v", j.w.clock(), m.Name, m.Status.Conditions)
		return
	}
	j.w.log("Machine %s goes: %s", m.Name, why)
}

// mayBeDeleted returns the reason why a Machine may be deleted. The text is empty when there is no reason.
func (j *checker) mayBeDeleted(m *v1alpha1.Machine) string {
	id := ptr.Deref(m.Spec.ProviderID, "none")
	group := "MachineDeployment/" + m.Namespace + "/" + m.Labels[labelPool]
	switch {
	case j.excused["end"]:
		return "the day is over"
	case j.excused[m.Name]:
		return "a user has deleted it"
	case j.broken[m.Name]:
		j.healed++
		return "its server is broken"
	case j.late[m.Name] && time.Since(j.lateAt) > bootTime:
		j.lateAt = time.Now()
		return "its kubelet came back late after the outage of its zone"
	case j.names(m.Name, id, group+"/machine/"+m.Name):
		return "the autoscaler has named it"
	case m.Spec.Versions.Kubelet != j.w.kubeletOf(m.Labels[labelPool]):
		j.rolled++
		return "it has an old template"
	case m.Status.NodeRef == nil && j.takeDecrease(group):
		return "the autoscaler has decreased the size of its group"
	}
	return ""
}

// takeDecrease uses up one decrease of the group's size by the autoscaler, and reports whether there was one. Each decrease
// explains the removal of one Machine.
func (j *checker) takeDecrease(group string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.decreased[group]--
	return j.decreased[group] >= 0
}

// checkSizes checks that the sizes of the pools are within their bounds, and that no pool has more living Machines than its maximum
// and the one Machine that a rollout may add.
func (j *checker) checkSizes(machines []v1alpha1.Machine) {
	living := map[string]int{}
	for i := range machines {
		if machines[i].DeletionTimestamp == nil {
			living[machines[i].Labels[labelPool]]++
		}
	}
	for _, p := range pools {
		size := j.w.size(p.name)
		if size >= 0 && (size < p.least || size > p.most) && !j.excused["end"] {
			j.w.Errorf("%s: the size of %s is %d, not between %d and %d", j.w.clock(), p.name, size, p.least, p.most)
		}
		if living[p.name] > p.most+1 {
			j.w.Errorf("%s: %s has %d living Machines", j.w.clock(), p.name, living[p.name])
		}
	}
}

// checkServers checks that no Machine has two servers.
func (j *checker) checkServers() {
	of := map[string]string{}
	for _, s := range j.w.Cloud.Servers() {
		uid := s.Metadata["machine-uid"]
		if before, twice := of[uid]; twice {
			j.w.Errorf("%s: Machine %s has the servers %s and %s", j.w.clock(), uid, before, s.ID)
		}
		of[uid] = s.ID
	}
}

// checkPods checks that no pod is pending for too long.
func (j *checker) checkPods(pods []corev1.Pod) {
	waiting := map[types.UID]time.Time{}
	for i := range pods {
		p := &pods[i]
		if p.Spec.NodeName != "" || p.DeletionTimestamp != nil {
			continue
		}
		since, known := j.waiting[p.UID]
		if !known {
			since = time.Now()
		}
		waiting[p.UID] = since
		waited := time.Since(since)
		if j.patience == usualPatience {
			j.slowest = max(j.slowest, waited)
		}
		if waited > j.patience {
			j.w.Errorf("%s: pod %s has been pending for %v\n%s", j.w.clock(), p.Name, waited, j.w.describe())
		}
	}
	j.waiting = waiting
}

// size returns the size of a pool; -1 when it does not exist.
func (w *World) size(pool string) int {
	if d := w.cached(pool); d != nil {
		return int(*d.Spec.Replicas)
	}
	return -1
}

// kubeletOf returns the version of the kubelet in a pool's template.
func (w *World) kubeletOf(pool string) string {
	if d := w.cached(pool); d != nil {
		return d.Spec.Template.Spec.Versions.Kubelet
	}
	return ""
}

func (w *World) cached(pool string) *v1alpha1.MachineDeployment {
	d := &v1alpha1.MachineDeployment{}
	if w.seen.Get(w.ctx, types.NamespacedName{Namespace: namespace, Name: pool}, d) != nil {
		return nil
	}
	return d
}

// describe returns the state of the pools, the cloud and the pods, for a failed test.
func (w *World) describe() string {
	machines, nodes, pods := &v1alpha1.MachineList{}, &corev1.NodeList{}, &corev1.PodList{}
	w.must(w.seen.List(w.ctx, machines))
	w.must(w.seen.List(w.ctx, nodes))
	w.must(w.seen.List(w.ctx, pods))
	var b strings.Builder
	for i := range machines.Items {
		m := &machines.Items[i]
		fmt.Fprintf(&b, "Machine %s: phase %s, leaving %t\n", m.Name, ptr.Deref(m.Status.Phase, ""), m.DeletionTimestamp != nil)
		for _, c := range m.Status.Conditions {
			fmt.Fprintf(&b, "    %s %s %s: %s\n", c.Type, c.Status, c.Reason, c.Message)
		}
	}
	for i := range nodes.Items {
		n := &nodes.Items[i]
		fmt.Fprintf(&b, "Node %s: Ready %s, unschedulable %t, taints %v\n", n.Name, v1alpha1.NodeReady(n).Status, n.Spec.Unschedulable, n.Spec.Taints)
	}
	waiting := 0
	for i := range pods.Items {
		if pods.Items[i].Spec.NodeName == "" {
			waiting++
		}
	}
	for _, p := range pools {
		fmt.Fprintf(&b, "%s: size %d\n", p.name, w.size(p.name))
	}
	fmt.Fprintf(&b, "%d pods, %d pending; in the cloud: %+v; calls of the autoscaler: %v\n", len(pods.Items), waiting, w.Cloud.Leftovers(), w.checker.rpcs)
	return b.String()
}

// crds returns drover's CustomResourceDefinitions.
func crds() ([]*unstructured.Unstructured, error) { return deploy.Objects("crds") }

// checkEnd checks that every resource belongs to a Machine, deletes the pools, and checks that nothing is left.
func (w *World) checkEnd() {
	w.within(30*time.Minute, "each server, port and floating IP has a Machine", w.balanced)
	w.log("drover was restarted %d times; %d Machines were created, %d unhealthy ones replaced, %d replaced by a rollout; the longest wait of a pod was %v", w.counts.starts.Load(), len(w.checker.made), w.checker.healed, w.checker.rolled, w.checker.slowest)
	calls := w.counts.calls()
	w.log("calls to the API server:%s", lines(calls))
	w.log("calls to the cloud:%s", lines(w.Cloud.CallsByName()))
	w.checker.excused["end"], w.checker.patience = true, 24*hour
	for _, p := range pools {
		d := &v1alpha1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: p.name}}
		w.must(w.Admin.Delete(w.ctx, d, client.PropagationPolicy(metav1.DeletePropagationBackground)))
	}
	w.within(hour, "nothing is left", func() bool {
		left := w.Cloud.Leftovers()
		return w.balanced() && len(left.Servers) == 0 && len(left.Volumes) == 0 && len(w.nodes) == 0 && w.tokens() == 0
	})
	w.end()
}

// tokens returns the number of drover's bootstrap tokens.
func (w *World) tokens() int {
	var list corev1.SecretList
	w.must(w.Admin.List(w.ctx, &list, client.HasLabels{v1alpha1.LabelTokenMachine}))
	return len(list.Items)
}

// costs counts what drover has done so far.
type costs struct {
	// writes are calls to the API server. reads and changes are calls to the cloud. machines is the number of Machines
	// that were created plus the number that were deleted.
	writes, reads, changes, machines int
	at                               time.Duration
}

func (w *World) costs() costs {
	c := costs{writes: writes(w.counts.calls()), machines: len(w.checker.made) + w.checker.left, at: w.time()}
	for name, n := range w.Cloud.CallsByName() {
		if strings.HasPrefix(name, "GET ") {
			c.reads += n
		} else if name != "POST /auth/tokens" {
			c.changes += n
		}
	}
	return c
}

// The limits of what drover may do during an event of the day. Writes to the API server and changes in the cloud are limited per
// created or deleted Machine. An allowance per event is added, for the event itself and for ten Machines that were being created
// when it began. Reads from the cloud are limited per minute.
const (
	writesOfAMachine, writesOfAnEvent   = 16, 120
	changesOfAMachine, changesOfAnEvent = 3, 32
	readsOfAMinute                      = 6
)

// checkCosts fails the test when an event has cost more than the limits allow.
func (w *World) checkCosts(event string, before costs) {
	now := w.costs()
	machines, minutes := now.machines-before.machines, int((now.at-before.at)/time.Minute)
	wrote, changed, read := now.writes-before.writes, now.changes-before.changes, now.reads-before.reads
	w.log("%s: %d Machines were created or deleted; %d writes to the API server, %d changes and %d reads in the cloud in %d minutes", event, machines, wrote, changed, read, minutes)
	if wrote > writesOfAnEvent+writesOfAMachine*machines || changed > changesOfAnEvent+changesOfAMachine*machines || read > readsOfAMinute*(minutes+10)+changesOfAMachine*machines {
		w.Errorf("%s: %s cost more than its limits", w.clock(), event)
	}
}

// checkDay fails the test when too few Machines were created or replaced, or drover started too few times, to prove anything. It
// also fails the test when more servers, ports or floating IPs were created than Machines.
func (w *World) checkDay() {
	j, made := w.checker, len(w.checker.made)
	if j.healed < 2 || j.rolled < 3 || made < 30 || w.counts.starts.Load() < 3 {
		w.Errorf("too little has happened: %d Machines were created, %d unhealthy ones replaced, %d replaced by a rollout", made, j.healed, j.rolled)
	}
	for _, call := range []string{"POST /servers", "POST /ports", "POST /floatingips"} {
		if n := w.carriedOut(call); n > made+2 {
			w.Errorf("%d calls %s for %d Machines", n, call, made)
		}
	}
}

// carriedOut returns how many calls with a name the cloud has carried out. It leaves out those that ended first, because drover ended.
func (w *World) carriedOut(name string) (n int) {
	for _, c := range w.Cloud.Calls() {
		if c.Name() == name && c.Status != 0 {
			n++
		}
	}
	return n
}
