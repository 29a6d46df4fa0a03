package set

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/ownership"
)

// setEvents wakes a set, and remembers the removals that it names. Those of a set of a deployment stand there too.
func (r *Reconciler) setEvents() handler.TypedEventHandler[*v1alpha1.MachineSet, ctrl.Request] {
	named := func(s *v1alpha1.MachineSet) []v1alpha1.Removal {
		if metav1.GetControllerOfNoCopy(s) != nil {
			return nil
		}
		return s.Spec.Removals
	}
	return ownership.Remembering(&r.named, named, &handler.TypedEnqueueRequestForObject[*v1alpha1.MachineSet]{})
}

// machineEvents wakes the set of a Machine that came, changed or went.
func (r *Reconciler) machineEvents() handler.TypedEventHandler[*v1alpha1.Machine, ctrl.Request] {
	return ownership.Events[*v1alpha1.Machine]{Kind: v1alpha1.MachineSetKind.Kind, Gather: gather, Candidates: r.allSets, Gone: r.pending.gone}.Handler()
}

// allSets are those that an orphan may fit.
func (r *Reconciler) allSets(ctx context.Context, namespace string) ([]ownership.Candidate, error) {
	var list v1alpha1.MachineSetList
	if err := r.client.List(ctx, &list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	all := make([]ownership.Candidate, len(list.Items))
	for i := range list.Items {
		all[i] = ownership.Candidate{Name: list.Items[i].Name, Selector: &list.Items[i].Spec.Selector}
	}
	return all, nil
}
