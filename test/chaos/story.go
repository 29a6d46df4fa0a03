package chaos

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	sim "github.com/drover-project/drover/test/openstack"
)

// Story is what happens in a run besides the crash.
type Story struct {
	Name string
	// before is called when drover starts, each every second.
	before func(*play) error
	each   func(*play)
	// zombie: the first process does not die.
	zombie *zombie
	// held is how long the network holds back a create before which the process dies; 0: it never left the process.
	held time.Duration
	play func(*play) error
}

// Stories are all there are. The first is the plain life of one Machine.
func Stories() []Story {
	return []Story{
		{Name: "a Machine comes and goes", play: (*play).oneMachine},
		{Name: "answers of the cloud get lost", before: loseAnswers, play: (*play).oneMachine},
		{Name: "the first server fails", each: failFirst, play: (*play).oneMachine},
		{Name: "a set grows, loses a server, shrinks and goes", play: (*play).oneSet},
		{Name: "lists lag", before: lagLists, play: (*play).oneMachine},
		{Name: "a pod may not go, and then its volume takes its time", before: (*play).addVolume, play: (*play).oneMachine},
		{Name: "the old process lives on without its lease", zombie: &zombie{}, play: (*play).oneMachine},
		{Name: "the old process stands still and goes on", zombie: &zombie{still: 20 * time.Second}, play: (*play).oneMachine},
		{Name: "a set, and the old process lives on", zombie: &zombie{}, play: (*play).oneSet},
		{Name: "the network holds a create back (F-21)", held: 23 * time.Second, play: (*play).oneMachine},
		{Name: "the ConfigMap and the Cluster that the spec needs go with the Machine, and the answer to a create is lost (F-17)", before: loseServerAnswer, play: (*play).referencesGo},
	}
}

// loseAnswers carries the first create of each kind out and cuts the connection instead of answering.
func loseAnswers(p *play) error {
	for _, call := range []string{"POST /ports", "POST /floatingips", "POST /servers"} {
		p.Cloud.Inject(sim.Fault{Call: call, Drop: true, Times: 1})
	}
	return nil
}

// lagLists makes lists of servers show what was there five seconds ago.
func lagLists(p *play) error {
	p.Cloud.SetListLag(5 * time.Second)
	return nil
}

// failFirst puts the first server of ours that is seen building into ERROR.
func failFirst(p *play) {
	servers := p.ours().Servers
	if p.failed != "" || len(servers) == 0 {
		return
	}
	if s, _ := p.Cloud.Server(servers[0]); s.Status == "BUILD" && p.Cloud.FailServer(servers[0], "No valid host was found. There are not enough hosts available.") {
		p.failed = servers[0]
	}
}

// oneMachine makes a Machine without an owner, and deletes it when it runs.
func (p *play) oneMachine() error {
	m, err := p.newMachine()
	if err != nil {
		return err
	}
	if err := p.admin.Create(p.ctx, m); err != nil {
		return fmt.Errorf("creating the Machine: %w", err)
	}
	if err := p.running(1); err != nil {
		return err
	}
	if p.lateOrder() {
		// What the late create does to the Machine's server shows when its own server has failed or booted.
		sleep(p.ctx, p.run.Story.held+2*bootMargin)
		if err := p.running(1); err != nil {
			return err
		}
	}
	p.leave()
	if err := p.admin.Delete(p.ctx, m); err != nil {
		return fmt.Errorf("deleting the Machine: %w", err)
	}
	made, spare := 1, 0
	if p.failed != "" {
		made++
	}
	if p.late {
		// A server whose create arrives late comes to nothing: its port is gone.
		spare = 1
	}
	return p.ended(made, spare)
}

// oneSet makes a set of two, has one server deleted behind drover's back, and takes the set down.
func (p *play) oneSet() error {
	m, err := p.newMachine()
	if err != nil {
		return err
	}
	set, err := p.setOfTwo(m)
	if err != nil {
		return err
	}
	if err := p.running(2); err != nil {
		return err
	}
	// Names follow from the seed, IDs do not.
	lost := slices.MinFunc(p.ours().Servers, func(a, b string) int { return cmp.Compare(p.serverName(a), p.serverName(b)) })
	if !p.Cloud.DeleteServer(lost) {
		return fmt.Errorf("server %s could not be deleted", lost)
	}
	if err := p.until("the lost server is replaced", func() (bool, error) {
		return !slices.Contains(p.ours().Servers, lost) && len(p.ours().Servers) == 2, nil
	}); err != nil {
		return err
	}
	if err := p.running(2); err != nil {
		return err
	}
	if err := p.scale(set, 1); err != nil {
		return err
	}
	if err := p.running(1); err != nil {
		return err
	}
	if err := p.admin.Delete(p.ctx, set); err != nil {
		return fmt.Errorf("deleting the set: %w", err)
	}
	return p.ended(3, 1)
}

// setOfTwo makes a set of two Machines like m.
func (p *play) setOfTwo(m *v1alpha1.Machine) (*v1alpha1.MachineSet, error) {
	labels := map[string]string{"set": "workers"}
	set := &v1alpha1.MachineSet{ObjectMeta: metav1.ObjectMeta{Name: "workers", Namespace: namespace}}
	set.Spec.Replicas = new(int32(2))
	set.Spec.Selector = metav1.LabelSelector{MatchLabels: labels}
	set.Spec.Template.Metadata.Labels = labels
	set.Spec.Template.Spec = m.Spec
	if err := p.admin.Create(p.ctx, set); err != nil {
		return nil, fmt.Errorf("creating the set: %w", err)
	}
	return set, nil
}

func (p *play) serverName(id string) string {
	s, _ := p.Cloud.Server(id)
	return s.Name
}

func (p *play) scale(set *v1alpha1.MachineSet, n int32) error {
	patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, n)
	if err := p.admin.Patch(p.ctx, set, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("scaling the set: %w", err)
	}
	return nil
}

func (p *play) machines() ([]v1alpha1.Machine, error) {
	var list v1alpha1.MachineList
	if err := p.admin.List(p.ctx, &list, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("listing the Machines: %w", err)
	}
	return list.Items, nil
}

// areRunning: there are so many Machines, each with its own Ready node without the startup taint.
func (p *play) areRunning(n int) (bool, error) {
	machines, err := p.machines()
	if err != nil || len(machines) != n {
		return false, err
	}
	for i := range machines {
		if ok, err := p.isRunning(&machines[i]); err != nil || !ok {
			return false, err
		}
	}
	return true, nil
}

func (p *play) isRunning(m *v1alpha1.Machine) (bool, error) {
	if m.DeletionTimestamp != nil || m.Status.Phase == nil || *m.Status.Phase != v1alpha1.PhaseRunning || m.Status.NodeRef == nil {
		return false, nil
	}
	var n corev1.Node
	if err := p.admin.Get(p.ctx, types.NamespacedName{Name: m.Status.NodeRef.Name}, &n); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	started := !slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == v1alpha1.DefaultStartupTaint })
	return started && n.Labels[v1alpha1.LabelOwnedBy] == string(m.UID), nil
}
