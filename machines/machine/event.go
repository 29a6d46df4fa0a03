package machine

import "github.com/drover-project/drover/machines/api/v1alpha1"

// event reports something about a Machine to people. It is called when something changes, never at each look.
func (r *Reconciler) event(m *v1alpha1.Machine, kind, reason, message string) {
	r.recorder.Eventf(m, nil, kind, reason, "Reconcile", "%s", message)
}
