package chaos

import (
	"encoding/json"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/test/chaos/world"
)

// newVersion is the kubelet version of the new template.
const newVersion = "1.37.2"

// rollWithSurge rolls out a new template for a deployment of two Machines, with one additional Machine at a time, and deletes the
// deployment.
func (h *harness) rollWithSurge() error {
	d, err := h.rolled(1, 0)
	if err != nil {
		return err
	}
	return h.deleteDeployment(d, 4)
}

// rollWithoutSurge rolls out a new template for a deployment of two Machines, with one unavailable Machine at a time. Then it
// removes a Machine by an entry in spec.removals, scales the deployment up, and deletes it.
func (h *harness) rollWithoutSurge() error {
	d, err := h.rolled(0, 1)
	if err != nil {
		return err
	}
	machines, err := h.Machines()
	if err != nil {
		return err
	}
	goes, stays := machines[0], machines[1]
	removal := v1alpha1.Removal{Name: goes.Name, UID: goes.UID, Time: metav1.Now()}
	if err := h.patchDeployment(d, map[string]any{"replicas": 1, "removals": []v1alpha1.Removal{removal}}); err != nil {
		return err
	}
	if err := h.running(1); err != nil {
		return err
	}
	if machines, err = h.Machines(); err != nil {
		return err
	}
	if machines[0].UID != stays.UID {
		return fmt.Errorf("%s is left, but %s was named and %s should stay", machines[0].Name, goes.Name, stays.Name)
	}
	if err := h.patchDeployment(d, map[string]any{"replicas": 2}); err != nil {
		return err
	}
	if err := h.running(2); err != nil {
		return err
	}
	return h.deleteDeployment(d, 5)
}

// rolled creates a deployment of two Machines with the limits surge and unavailable, and rolls out a new template.
func (h *harness) rolled(surge, unavailable int) (*v1alpha1.MachineDeployment, error) {
	d, err := h.deploymentOf(2, surge, unavailable)
	if err != nil {
		return nil, err
	}
	h.recordDeletion()
	if err := h.changeTemplate(d); err != nil {
		return nil, err
	}
	if err := h.until("both Machines have the new template", func() (bool, error) { return h.areNew(2) }); err != nil {
		return nil, err
	}
	return d, h.running(2)
}

// changeTemplate changes the template of a deployment.
func (h *harness) changeTemplate(d *v1alpha1.MachineDeployment) error {
	return h.patchDeployment(d, map[string]any{"template": map[string]any{"spec": map[string]any{"versions": map[string]any{"kubelet": newVersion}}}})
}

// areNew reports whether there are n Machines, all with the new template.
func (h *harness) areNew(n int) (bool, error) {
	machines, err := h.Machines()
	old := slices.ContainsFunc(machines, func(m v1alpha1.Machine) bool { return m.Spec.Versions.Kubelet != newVersion })
	return len(machines) == n && !old, err
}

// deploymentOf creates a deployment of n Machines and waits until they run.
func (h *harness) deploymentOf(n, surge, unavailable int) (*v1alpha1.MachineDeployment, error) {
	m, err := h.NewMachine()
	if err != nil {
		return nil, err
	}
	labels := map[string]string{"deployment": "workers"}
	d := &v1alpha1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Name: "workers", Namespace: world.Namespace}}
	d.Spec.Replicas = new(int32(n))
	d.Spec.Selector = metav1.LabelSelector{MatchLabels: labels}
	d.Spec.Template.Metadata.Labels = labels
	d.Spec.Template.Spec = m.Spec
	d.Spec.Strategy = &v1alpha1.MachineDeploymentStrategy{RollingUpdate: &v1alpha1.MachineRollingUpdate{
		MaxSurge: new(intstr.FromInt(surge)), MaxUnavailable: new(intstr.FromInt(unavailable)),
	}}
	if err := h.Admin.Create(h.Context, d); err != nil {
		return nil, fmt.Errorf("creating the deployment: %w", err)
	}
	return d, h.running(n)
}

// patchDeployment changes a deployment's spec.
func (h *harness) patchDeployment(d *v1alpha1.MachineDeployment, spec map[string]any) error {
	raw, err := json.Marshal(map[string]any{"spec": spec})
	if err != nil {
		return err
	}
	if err := h.Admin.Patch(h.Context, d, client.RawPatch(types.MergePatchType, raw)); err != nil {
		return fmt.Errorf("changing the deployment: %w", err)
	}
	return nil
}

// deleteDeployment deletes a deployment. made is the number of servers that were created for the deployment in total.
func (h *harness) deleteDeployment(d *v1alpha1.MachineDeployment, made int) error {
	if err := h.Admin.Delete(h.Context, d); err != nil {
		return fmt.Errorf("deleting the deployment: %w", err)
	}
	return h.ended(made, 1)
}
