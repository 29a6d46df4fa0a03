package chaos

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/test/kube/memory"
)

const (
	machineName = "worker-1"
	// bootMargin is longer than a server takes to boot.
	bootMargin = 30 * time.Second
	// patience is how much virtual time a goal may take, crash and all.
	patience = time.Hour
)

// Run is one life of a Machine, from nothing to a Ready node and back, in a world that follows from the seed.
type Run struct {
	Catalog *memory.Catalog
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
}

// Do plays the run. An error says what is not as it must be; it must be called inside a bubble of testing/synctest.
func (r Run) Do() (out Outcome, err error) {
	w, err := newWorld(r.Catalog, r.Seed)
	if err != nil {
		return out, fmt.Errorf("making the world: %w", err)
	}
	p := &play{World: w, run: r}
	p.process = w.start(r.Crash)
	defer func() {
		p.process.stopped()
		if p.calls == nil {
			p.calls = p.process.life.made()
		}
		out = Outcome{Calls: p.calls, Crashed: p.crashes > 0}
		w.close()
	}()
	return out, p.whole()
}

// whole is the life of one Machine with the judgement at both ends.
func (p *play) whole() error {
	m, err := p.newMachine(machineName)
	if err != nil {
		return err
	}
	if err := p.admin.Create(p.ctx, m); err != nil {
		return fmt.Errorf("creating the Machine: %w", err)
	}
	if err := p.until("the Machine has a Ready node", p.running); err != nil {
		return err
	}
	if err := errors.Join(p.oneServer(), p.untouched()); err != nil {
		return fmt.Errorf("once the Machine runs: %w", err)
	}
	if err := p.admin.Delete(p.ctx, m); err != nil {
		return fmt.Errorf("deleting the Machine: %w", err)
	}
	if err := p.until("the Machine is gone", p.gone); err != nil {
		return err
	}
	if err := errors.Join(p.nothingLeft(), p.untouched(), p.madeOnce()); err != nil {
		return fmt.Errorf("once the Machine is gone: %w", err)
	}
	return nil
}

// until lets time pass until a goal is reached, and has a dead process followed by a fresh one.
func (p *play) until(goal string, reached func() (bool, error)) error {
	deadline := time.Now().Add(patience)
	for {
		// Judging takes its turn like any call, so that it sees the same thing in every repetition.
		if err := p.turns.await(p.ctx, "judge"); err != nil {
			return err
		}
		select {
		case <-p.process.life.died:
			p.replace()
		case <-p.process.done:
			if dead := p.process.life.over(); !dead {
				return fmt.Errorf("drover ended by itself: %w", p.process.err)
			}
			p.replace()
		default:
		}
		ok, err := reached()
		if err != nil || ok {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("not reached within %v: %s\n%s", patience, goal, p.describe())
		}
		time.Sleep(time.Second)
	}
}

// replace buries a dead process and, after a while in which the world goes on alone, starts a fresh one.
func (p *play) replace() {
	p.process.stopped()
	p.crashes++
	if p.calls == nil {
		p.calls = p.process.life.made()
	}
	time.Sleep([]time.Duration{0, 3 * time.Second, 2 * time.Minute}[p.random.IntN(3)])
	p.process = p.start(nil)
	if p.run.Again > 0 && p.crashes == 1 {
		p.process.life.expire(p.run.Again)
	}
}

func (p *play) running() (bool, error) {
	var m v1alpha1.Machine
	if err := p.admin.Get(p.ctx, types.NamespacedName{Namespace: namespace, Name: machineName}, &m); err != nil {
		return false, err
	}
	if m.Status.Phase == nil || *m.Status.Phase != v1alpha1.PhaseRunning || m.Status.NodeRef == nil {
		return false, nil
	}
	var n corev1.Node
	if err := p.admin.Get(p.ctx, types.NamespacedName{Name: m.Status.NodeRef.Name}, &n); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	started := !slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == v1alpha1.DefaultStartupTaint })
	return started && n.Labels[v1alpha1.LabelOwnedBy] == string(m.UID), nil
}

func (p *play) gone() (bool, error) {
	err := p.admin.Get(p.ctx, types.NamespacedName{Namespace: namespace, Name: machineName}, &v1alpha1.Machine{})
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	return false, err
}

// describe says how things stand, for somebody who looks for the cause.
func (p *play) describe() string {
	var b strings.Builder
	var m v1alpha1.Machine
	if err := p.admin.Get(p.ctx, types.NamespacedName{Namespace: namespace, Name: machineName}, &m); err == nil {
		fmt.Fprintf(&b, "Machine: finalizers %v, deletion %v, provider ID %v\n", m.Finalizers, m.DeletionTimestamp, m.Spec.ProviderID)
		for _, c := range m.Status.Conditions {
			fmt.Fprintf(&b, "  %s=%s %s %s\n", c.Type, c.Status, c.Reason, c.Message)
		}
	}
	fmt.Fprintf(&b, "in the cloud: %+v\n", p.ours())
	calls := p.process.life.made()
	for _, call := range calls[max(0, len(calls)-15):] {
		fmt.Fprintf(&b, "  last calls: %s #%d\n", call.Call, call.Nth)
	}
	return b.String()
}
