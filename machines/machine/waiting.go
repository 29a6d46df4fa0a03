package machine

import (
	"encoding/json"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/machine/lifecycle"
)

// waiting is a Machine that has no Ready Node yet or is being deleted, and why.
type waiting struct {
	Machine string `json:"machine"`
	Reason  string `json:"reason"`
	Why     string `json:"why"`
}

// ServeHTTP returns as JSON what each Machine waits for that has no Ready Node or is being deleted: the message of its condition Ready or
// Deleting. For a Machine that drover ignores and so does not write, it returns the reason for that.
func (r *Reconciler) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	var list v1alpha1.MachineList
	if err := r.options.Control.GetClient().List(req.Context(), &list, client.UnsafeDisableDeepCopy); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	all := []waiting{}
	for i := range list.Items {
		if found, ok := r.waitOf(&list.Items[i]); ok {
			all = append(all, found)
		}
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(all); err != nil {
		ctrl.LoggerFrom(req.Context()).V(1).Info("Failed to write what the Machines wait for", "error", err.Error())
	}
}

// waitOf returns what a Machine waits for, and whether it waits.
func (r *Reconciler) waitOf(m *v1alpha1.Machine) (waiting, bool) {
	f := &lifecycle.Facts{Observed: &lifecycle.Observed{}, Policy: &lifecycle.Policy{}, Progress: &lifecycle.Progress{}}
	f.ReadMachine(m, r.store.Controller, r.options.Cloud)
	out := waiting{Machine: client.ObjectKeyFromObject(m).String()}
	c := m.Condition(v1alpha1.ConditionReady)
	switch {
	case f.LeftAlone():
		d := lifecycle.Next(f)
		out.Reason, out.Why = d.Reason, lifecycle.Why(f, d)
		return out, true
	case f.Deleting:
		c = m.Condition(v1alpha1.ConditionDeleting)
	case c.Status == corev1.ConditionTrue:
		return out, false
	}
	out.Reason, out.Why = c.Reason, c.Message
	return out, true
}
