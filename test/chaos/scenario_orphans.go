package chaos

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/test/chaos/process"
	"github.com/drover-project/drover/test/chaos/schedule"
	"github.com/drover-project/drover/test/chaos/world"
)

const (
	// orphanName is the name of the Machine that is removed without its server.
	orphanName = "worker-2"
	// mustConfirm is the text in the report when an operator must confirm a deletion.
	mustConfirm = v1alpha1.AnnotationCollect
)

// oneOrphan creates two Machines, removes one of them together with its finalizers, and waits until the collector has deleted its
// server, port, floating IP and Node. Then it deletes the other Machine.
func (h *harness) oneOrphan() error {
	stays, err := h.createMachine(world.MachineName)
	if err != nil {
		return err
	}
	goes, err := h.createMachine(orphanName)
	if err != nil {
		return err
	}
	if err := h.running(2); err != nil {
		return err
	}
	before, err := h.machine(stays.Name)
	if err != nil {
		return err
	}
	if err := h.Orphan(goes); err != nil {
		return err
	}
	if err := h.collected(goes); err != nil {
		return err
	}
	after, err := h.machine(stays.Name)
	if err != nil || after.UID != before.UID || serverOf(after) != serverOf(before) {
		return fmt.Errorf("the other Machine was %s with server %s and is now %s with server %s (%w)", before.UID, serverOf(before), after.UID, serverOf(after), err)
	}
	if h.confirmed && h.run.Failing == nil && h.run.DisturbedWatch == nil && h.crashes == 0 {
		return fmt.Errorf("an operator had to confirm the deletion although drover saw all resources being created:\n%s", h.report())
	}
	return h.endMachine(stays, 2, 0)
}

// lateCreate creates two Machines, while the network delays a create call for the second one. When the second Machine
// is deleted, the resource of the late call is an orphan, and the collector deletes it.
func (h *harness) lateCreate() error {
	stays, err := h.createMachine(world.MachineName)
	if err != nil {
		return err
	}
	if err := h.running(1); err != nil {
		return err
	}
	goes, err := h.createMachine(orphanName)
	if err != nil {
		return err
	}
	if err := h.running(2); err != nil {
		return err
	}
	if h.heldBack {
		schedule.Sleep(h.Context, h.run.Scenario.holdBack+2*world.BootMargin)
		if err := h.running(2); err != nil {
			return err
		}
	}
	h.recordDeletion()
	if err := h.Admin.Delete(h.Context, goes); err != nil {
		return fmt.Errorf("deleting the Machine: %w", err)
	}
	if err := h.collected(goes); err != nil {
		return err
	}
	return h.endMachine(stays, 2, 1)
}

// createMachine creates a Machine without an owner.
func (h *harness) createMachine(name string) (*v1alpha1.Machine, error) {
	m, err := h.NewMachine()
	if err != nil {
		return nil, err
	}
	m.Name = name
	if err := h.Admin.Create(h.Context, m); err != nil {
		return nil, fmt.Errorf("creating Machine %s: %w", name, err)
	}
	return m, nil
}

// machine reads a Machine.
func (h *harness) machine(name string) (*v1alpha1.Machine, error) {
	m := &v1alpha1.Machine{}
	if err := h.Admin.Get(h.Context, types.NamespacedName{Namespace: world.Namespace, Name: name}, m); err != nil {
		return m, fmt.Errorf("reading Machine %s: %w", name, err)
	}
	return m, nil
}

// endMachine deletes the last Machine, and checks that nothing is left.
func (h *harness) endMachine(m *v1alpha1.Machine, made, spare int) error {
	h.recordDeletion()
	if err := h.Admin.Delete(h.Context, m); err != nil {
		return fmt.Errorf("deleting Machine %s: %w", m.Name, err)
	}
	return h.ended(made, spare)
}

// collected waits until the cloud holds the resources of one Machine only, and the Node of the other Machine is
// gone. Meanwhile it acts like an operator who reads the report and confirms that the other Machine is gone, if the report asks for it.
func (h *harness) collected(gone *v1alpha1.Machine) error {
	if err := h.until("the orphans are gone", func() (bool, error) {
		if err := h.operate(gone); err != nil {
			return false, err
		}
		var n corev1.Node
		err := h.Admin.Get(h.Context, types.NamespacedName{Name: gone.Name}, &n)
		o := h.Ours()
		return client.IgnoreNotFound(err) == nil && err != nil && len(o.Servers) == 1 && len(o.Ports) == 1 && len(o.FloatingIPs) == 1, client.IgnoreNotFound(err)
	}); err != nil {
		return fmt.Errorf("%w\nreport: %s", err, h.report())
	}
	return h.running(1)
}

// operate confirms that a Machine is gone when the report asks for it, unless that was done and drover has not read it yet.
func (h *harness) operate(gone *v1alpha1.Machine) error {
	found, err := h.found()
	if err != nil || !strings.Contains(found.Data["report"], mustConfirm) || found.Annotations[v1alpha1.AnnotationCollect] != "" {
		return err
	}
	h.confirmed = true
	return h.Confirm(gone.UID)
}

// found returns the ConfigMap of the orphan collector; empty when there is none.
func (h *harness) found() (*corev1.ConfigMap, error) {
	found := &corev1.ConfigMap{}
	err := h.Admin.Get(h.Context, types.NamespacedName{Namespace: world.Namespace, Name: world.CollectorConfigMap}, found)
	return found, client.IgnoreNotFound(err)
}

// report returns the report of the orphan collector.
func (h *harness) report() string {
	found, err := h.found()
	if err != nil {
		return err.Error()
	}
	return found.Data["report"]
}

// orphanSlack is how much longer than usual a run with a failing call may take. The collector needs two rounds each for the
// server, for the server's other resources, and for the Node.
const orphanSlack = 6 * process.OrphanPeriod

// isOfSecond reports whether p is a create call for the second Machine.
func isOfSecond(p process.Point) bool { return p.Nth > 1 }
