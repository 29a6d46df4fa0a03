package drain

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/test/sample"
)

var (
	worlds    = flag.Int("worlds", sample.Or(500, 100_000), "in how many random worlds a node is drained")
	onlyWorld = flag.Uint64("world", 0, "drain a node in this random world only, and log what happens")
)

// never is a time that does not come in a world.
const never = 1000 * time.Hour

// world is a node with pods and volumes, and what else happens while the node is drained, in virtual time. Times count from noon.
type world struct {
	client.Client
	ctx    context.Context
	random *rand.Rand
	log    func(format string, args ...any)

	mu       sync.Mutex
	now      time.Duration
	node     *corev1.Node
	pods     []*modelPod
	attached []*modelVolume
	budgets  []*modelBudget
	outage   bool
	// evictions counts the evictions of the pods of each owner that were granted.
	evictions map[string]int
	made      int
	faults    []string

	// timeout to absences are what others do, and when. Timeout becomes newTimeout at changed.
	timeout, newTimeout, volumeTimeout time.Duration
	changed, forced, skipped, silent   time.Duration
	target                             bool
	absences                           []absence

	process processes
}

// absence is a time in which drover cannot act. After some absences another process leads, whose clock may be wrong.
type absence struct {
	from, until time.Duration
	restart     bool
	outage      bool
	clock       time.Duration
}

// processes is what the model knows about drover itself.
type processes struct {
	pool  *Pool
	clock *clocktesting.FakePassiveClock
	// wrong is how far the clock is ahead.
	wrong time.Duration
	// count is the number of the process. since is when it has started.
	count int
	since time.Duration
	// acted is for how long drover could act since the first cordon. gaps is how often it could not.
	acted    time.Duration
	gaps     int
	lastPass time.Duration
	// begunBy is the number of the process that has cordoned the node; 0 before that. noTarget reports whether no other node could take
	// the pods then.
	begunBy  int
	noTarget bool
	// mode is the mode of the present round. lastRound is when drover first saw that the time of the drain is over.
	mode      Mode
	lastRound time.Duration
}

type modelPod struct {
	pod       corev1.Pod
	owner     string
	budget    int
	volume    string
	first     bool
	stuck     bool
	comesBack bool
	// speed is the part of its grace period that the pod needs.
	speed float64
	// unanswered and denied are until when evictions are not answered, or denied by a webhook.
	unanswered, denied time.Duration

	asked                               int
	lastAsked, grantedAt, endsAt, grace time.Duration
}

type modelVolume struct {
	name string
	// takes is how long it takes to detach the volume after its pod has ended. detached is when it will be detached.
	takes, detached time.Duration
}

// modelBudget refuses evictions until closed. Each eviction closes it for the time of recovery.
type modelBudget struct{ closed, recovery time.Duration }

func (w *world) chance(percent int) bool { return w.random.IntN(100) < percent }

func oneOf[T any](w *world, values ...T) T { return values[w.random.IntN(len(values))] }

// between returns a random time in the given range, in whole seconds.
func (w *world) between(from, until time.Duration) time.Duration {
	return from + time.Duration(w.random.Int64N(int64((until-from)/time.Second)+1))*time.Second
}

// sometime returns a random time within three hours, with the given chance; else never.
func (w *world) sometime(percent int) time.Duration {
	if w.chance(percent) {
		return w.between(0, 3*time.Hour)
	}
	return never
}

func newWorld(ctx context.Context, seed uint64) *world {
	w := &world{ctx: ctx, random: rand.New(rand.NewPCG(seed, 30)), log: func(string, ...any) {}, evictions: map[string]int{}, node: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}}
	w.timeout = oneOf(w, time.Second, time.Minute, 10*time.Minute, time.Hour, 2*time.Hour)
	w.newTimeout = oneOf(w, 0, time.Second, 10*time.Minute, 2*time.Hour)
	w.changed, w.forced, w.skipped, w.silent = w.sometime(10), w.sometime(5), w.sometime(3), w.sometime(10)
	w.volumeTimeout, w.target = oneOf(w, 0, time.Minute, 5*time.Minute), w.chance(80)
	for range w.random.IntN(4) {
		w.budgets = append(w.budgets, &modelBudget{closed: oneOf(w, 0, 0, w.between(0, time.Hour), never), recovery: oneOf(w, 0, w.between(0, 10*time.Minute), never)})
	}
	w.budgets = append(w.budgets, &modelBudget{}) // the pods without a budget
	for range w.random.IntN(8) {
		w.addPod(fmt.Sprint("app-", w.made))
	}
	for range w.random.IntN(4) {
		from := w.between(0, 3*time.Hour)
		w.absences = append(w.absences, absence{
			from: from, until: from + oneOf(w, w.between(0, time.Minute), w.between(0, 30*time.Minute), w.between(0, 10*time.Hour)),
			restart: w.chance(50), outage: w.chance(30), clock: oneOf(w, 0, 0, 0, w.between(-3*time.Hour, 3*time.Hour)),
		})
	}
	w.lead(0)
	return w
}

func (w *world) addPod(owner string) {
	w.made++
	name := fmt.Sprint("pod-", w.made)
	p := &modelPod{pod: pod(name), owner: owner, budget: w.random.IntN(len(w.budgets)), speed: w.random.Float64(), stuck: w.chance(7), first: w.process.begunBy == 0}
	p.pod.Spec.TerminationGracePeriodSeconds = new(oneOf[int64](w, 0, 1, 30, 30, 600, 3000))
	p.pod.Spec.Priority = new(oneOf[int32](w, 0, 0, 5, systemCriticalPriority))
	if w.chance(15) {
		p.pod.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet", Name: "d", Controller: new(true)}}
	}
	if p.stuck {
		p.pod.Finalizers = []string{"example.com/stays"}
	}
	p.comesBack = w.chance(20)
	if p.comesBack || w.chance(10) {
		p.pod.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	}
	p.unanswered, p.denied = oneOf(w, 0, 0, 0, 0, w.sometime(50)), oneOf(w, 0, 0, 0, 0, w.sometime(50))
	if w.chance(40) {
		p.volume = "pv-" + name
		p.pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: p.volume}}}}
		w.attached = append(w.attached, &modelVolume{name: p.volume, takes: oneOf(w, 0, w.between(0, 10*time.Minute), never), detached: never})
	}
	w.pods = append(w.pods, p)
}

// lead starts a process of drover, whose clock is ahead by wrong.
func (w *world) lead(wrong time.Duration) {
	p := &w.process
	p.count++
	p.since, p.wrong, p.clock = w.now, wrong, clocktesting.NewFakePassiveClock(noon)
	p.pool = NewPool(PoolOptions{Drainer: &Drainer{Client: w, Reader: w}, Clock: p.clock})
}

// pass advances the time: pods end, volumes are detached, and controllers create pods again.
func (w *world) pass(until time.Duration) {
	w.now = until
	for _, p := range slices.Clone(w.pods) {
		if p.pod.DeletionTimestamp == nil || p.stuck || w.now < p.endsAt || w.endsAfterSilence(p) {
			continue
		}
		w.pods = slices.DeleteFunc(w.pods, func(other *modelPod) bool { return other == p })
		if i := slices.IndexFunc(w.attached, func(v *modelVolume) bool { return v.name == p.volume }); i >= 0 {
			w.attached[i].detached = p.endsAt + w.attached[i].takes
		}
		if p.comesBack {
			w.addPod(p.owner)
			w.pods[len(w.pods)-1].pod.Spec.Tolerations = p.pod.Spec.Tolerations
			w.pods[len(w.pods)-1].comesBack = true
		}
	}
	w.attached = slices.DeleteFunc(w.attached, func(v *modelVolume) bool { return w.now >= v.detached })
}

// endsAfterSilence reports whether the kubelet stopped before it could end the pod.
func (w *world) endsAfterSilence(p *modelPod) bool { return p.endsAt >= w.silent }

// run drains the node until the server is deleted, as the Machine controller does, and reports what was wrong.
func (w *world) run() []string {
	w.process.lastPass = -1
	for every := w.between(5*time.Second, 30*time.Second); w.now < 100*time.Hour; w.pass(w.now + every) {
		if i := slices.IndexFunc(w.absences, func(a absence) bool { return w.now >= a.from }); i >= 0 {
			w.absent(w.absences[i])
			w.absences = slices.Delete(w.absences, i, i+1)
		}
		if w.now >= w.changed {
			w.timeout = w.newTimeout
		}
		if left, deleted := w.act(); deleted {
			w.checkEnd(left)
			return w.faults
		}
	}
	w.fault("the drain does not end")
	return w.faults
}

// absent advances the time to the end of an absence. An outage is an absence in which the process tries to act.
func (w *world) absent(a absence) {
	w.log("%v: absence until %v, restart %v, outage %v", w.now, a.until, a.restart, a.outage)
	w.process.gaps++
	for a.outage && w.now < a.until {
		w.outage = true
		if _, deleted := w.act(); deleted && !w.byPerson() {
			w.fault("the server was deleted although the API server did not answer")
		}
		w.outage = false
		w.pass(min(a.until, w.now+time.Minute))
	}
	w.pass(max(a.until, w.now))
	if a.restart {
		w.lead(a.clock)
	}
	w.process.lastPass = -1
}

// act reconciles once, as the Machine controller does. It reports whether the server is deleted, and what was then left on the node.
func (w *world) act() (left []Blocked, deleted bool) {
	p := &w.process
	if w.now >= w.skipped || w.timeout == 0 {
		return nil, true // no pod is evicted, because a person wants it so
	}
	at := noon.Add(w.now + p.wrong)
	p.clock.SetTime(at)
	final, over := TimedOut(w.node, w.timeout, at)
	p.mode = Mode{Abrupt: w.now >= w.forced || w.isSilent(), Final: final, Over: over, NoTarget: !Begun(w.node) && !w.target}
	node, err := Cordon(w.ctx, w, w.node, at)
	if err != nil {
		return nil, false
	}
	w.count()
	result, known, err := p.pool.Drain(w.ctx, Request{UID: "u", Order: Order{Node: node.Name, Mode: p.mode, VolumeTimeout: w.volumeTimeout}})
	w.log("%v: %+v: %+v, %v", w.now, p.mode, result, err)
	w.checkRound(&result)
	return result.Left(), known && result.Done
}

// count counts the time in which drover acts on the cordoned node.
func (w *world) count() {
	p := &w.process
	if p.begunBy == 0 {
		p.begunBy, p.noTarget = p.count, p.mode.NoTarget
	}
	if p.mode.Final && p.lastRound == 0 {
		p.lastRound = w.now
	}
	if p.lastPass >= 0 && !w.outage {
		p.acted += w.now - p.lastPass
	}
	p.lastPass = w.now
}

// byPerson reports whether a person has ended the drain.
func (w *world) byPerson() bool { return w.now >= w.forced || w.now >= w.skipped || w.timeout == 0 }

// isSilent reports whether the Node's condition Ready has been Unknown for five minutes.
func (w *world) isSilent() bool { return w.now >= w.silent+40*time.Second+5*time.Minute }

func TestADrainInRandomWorlds(t *testing.T) {
	if *onlyWorld != 0 {
		w := newWorld(t.Context(), *onlyWorld)
		w.log = t.Logf
		w.describe()
		for _, fault := range w.run() {
			t.Error(fault)
		}
		return
	}
	var next, bad atomic.Uint64
	var all sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		all.Go(func() {
			for seed := next.Add(1); seed <= uint64(*worlds); seed = next.Add(1) {
				if faults := newWorld(t.Context(), seed).run(); len(faults) > 0 && bad.Add(1) <= 5 {
					t.Errorf("-world=%d: no pod goes without having been asked, nor before its grace period, unless forced, silent, or out of time (F-136 … F-140): %s", seed, strings.Join(faults, "; "))
				}
			}
		})
	}
	all.Wait()
	if n := bad.Load(); n > 5 {
		t.Errorf("%d of %d worlds are bad", n, *worlds)
	}
}
