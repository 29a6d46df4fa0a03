package chaos

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"k8s.io/utils/ptr"

	"github.com/drover-project/drover/test/kube/memory"
)

const (
	machineName = "worker-1"
	// bootMargin is longer than a server takes to boot.
	bootMargin = 30 * time.Second
	// patience is how much virtual time a goal may take, crash and all.
	patience = time.Hour
	// lookAnyway is how many seconds a goal is not looked at while nothing changes in the cluster.
	lookAnyway = 10
	// mostCalls are many more than a process needs for a story: one that makes them goes round in circles.
	mostCalls = 2000
)

// Run is a story, from nothing to Ready nodes and back, in a world that follows from the seed.
type Run struct {
	Catalog *memory.Catalog
	Story   Story
	Seed    uint64
	// Crash is where the first process dies; nil: nowhere.
	Crash *Point
	// Again is after how many calls the second process dies too; 0: it does not.
	Again int
}

// Outcome is how a run went.
type Outcome struct {
	// Calls are those of the first process, in order.
	Calls []Point
	// Crashed: the point was reached.
	Crashed bool
}

// life of a run: who does drover's work now.
type play struct {
	*World
	run     Run
	process *process
	crashes int
	calls   []Point
	// luck says how long the world is alone after a crash.
	luck *rand.Rand
	// failed is the server that was made to fail.
	failed string
}

// Do plays the run. An error says what is not as it must be; it must be called inside a bubble of testing/synctest.
func (r Run) Do() (out Outcome, err error) {
	w, err := newWorld(r.Catalog, r.Seed)
	if err != nil {
		return out, fmt.Errorf("making the world: %w", err)
	}
	p := &play{World: w, run: r, luck: rand.New(rand.NewPCG(r.Seed, 2))}
	w.late, w.held = r.Story.held > 0 || r.Story.zombie != nil && r.Story.zombie.still > leaseLife, r.Story.held
	if r.Story.before != nil {
		if err := r.Story.before(p); err != nil {
			w.close()
			return out, err
		}
	}
	p.process = w.start(r.Crash, r.Story.zombie)
	defer func() {
		p.process.stopped()
		if p.calls == nil {
			p.calls = p.process.life.made()
		}
		out = Outcome{Calls: p.calls, Crashed: p.crashes > 0}
		w.close()
	}()
	return out, r.Story.play(p)
}

// running waits until so many Machines run, and judges what is there then.
func (p *play) running(n int) error {
	goal := fmt.Sprintf("%d Machines run", n)
	if err := p.until(goal, func() (bool, error) { return p.areRunning(n) }); err != nil {
		return err
	}
	if err := errors.Join(p.servers(n), p.order.err(), p.untouched()); err != nil {
		return fmt.Errorf("once %s: %w", goal, err)
	}
	return nil
}

// ended waits until no Machine is left, and judges what is left of them, and how much was ever made.
func (p *play) ended(made, spare int) error {
	var since time.Time
	err := p.until("no Machine is left", func() (bool, error) {
		machines, err := p.machines()
		if err != nil || len(machines) > 0 {
			return false, err
		}
		if since.IsZero() {
			since = time.Now()
		}
		// What is still done after the last Machine is part of the story.
		return time.Since(since) >= lookAnyway*time.Second/2, nil
	})
	if err != nil {
		return err
	}
	if p.calls == nil {
		p.calls = p.process.life.made()
	}
	if err := errors.Join(p.nothingLeft(), p.order.err(), p.untouched(), p.made(made, spare)); err != nil {
		return fmt.Errorf("once no Machine is left: %w", err)
	}
	return nil
}

// until lets time pass until a goal is reached, and has a dead process followed by a fresh one.
func (p *play) until(goal string, reached func() (bool, error)) error {
	deadline := time.Now().Add(patience)
	seen := uint64(0)
	for looks := 0; ; looks++ {
		// Judging takes its turn like any call, so that it sees the same thing in every repetition.
		if err := p.turns.await(p.ctx, "judge", alone); err != nil {
			return err
		}
		select {
		case <-p.process.life.over:
			p.replace()
		case <-p.process.done:
			if dead := p.process.life.ended(); !dead {
				return fmt.Errorf("drover ended by itself: %w", p.process.err)
			}
			p.replace()
		default:
		}
		if p.run.Story.each != nil {
			p.run.Story.each(p)
		}
		if now := p.Kube.Revision(); now != seen || looks%lookAnyway == 0 {
			seen = now
			if ok, err := reached(); err != nil || ok {
				return err
			}
		}
		if n := len(p.process.life.made()); n > mostCalls {
			return fmt.Errorf("%d calls were made for: %s\n%s", n, goal, p.describe())
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("not reached within %v: %s\n%s", patience, goal, p.describe())
		}
		time.Sleep(time.Second)
	}
}

// replace buries a dead process and, after a while in which the world goes on alone, starts a fresh one.
func (p *play) replace() {
	p.crashes++
	if p.calls == nil {
		p.calls = p.process.life.made()
	}
	if old := p.process; old.life.ended() {
		old.stopped()
		alone := []time.Duration{0, 3 * time.Second, 2 * time.Minute}[p.luck.IntN(3)]
		if p.lateOrder() {
			// The successor has to wait for the lease, so that it makes its server when the late create arrives.
			alone = leaseLife
		}
		time.Sleep(alone)
	} else {
		p.all.Go(func() {
			sleep(p.ctx, zombieLife)
			old.stopped()
		})
		time.Sleep(time.Until(old.life.lease.ends()))
	}
	p.process = p.start(nil, nil)
	if p.run.Again > 0 && p.crashes == 1 {
		p.process.life.expire(p.run.Again)
	}
}

// describe says how things stand, for somebody who looks for the cause.
func (p *play) describe() string {
	var b strings.Builder
	machines, _ := p.machines()
	for _, m := range machines {
		fmt.Fprintf(&b, "Machine %s of %v: finalizers %v, deletion %v, provider ID %s\n",
			m.Name, m.OwnerReferences, m.Finalizers, m.DeletionTimestamp, ptr.Deref(m.Spec.ProviderID, ""))
		for _, c := range m.Status.Conditions {
			fmt.Fprintf(&b, "  %s=%s %s %s\n", c.Type, c.Status, c.Reason, c.Message)
		}
	}
	fmt.Fprintf(&b, "in the cloud: %+v\n", p.ours())
	for _, call := range p.Cloud.Calls() {
		if call.Method != http.MethodGet {
			fmt.Fprintf(&b, "  %s %s %s: %d\n", call.Time.UTC().Format("15:04:05.000"), call.Method, call.Path, call.Status)
		}
	}
	calls := p.process.life.made()
	for _, call := range calls[max(0, len(calls)-15):] {
		fmt.Fprintf(&b, "  last calls: %s #%d\n", call.Call, call.Nth)
	}
	return b.String()
}
