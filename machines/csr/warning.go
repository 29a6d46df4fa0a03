package csr

import (
	"context"
	"maps"
	"sync"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// Reasons of Events: about Machines that want the same node name, and about a Machine whose node waits for a certificate.
const (
	reasonNameTaken     = "NodeNameTaken"
	reasonNameAmbiguous = "NodeNameAmbiguous"
	reasonUndecided     = "CertificateUndecided"
)

// warnEvery is the least time between two Events about the same Machine.
const warnEvery = 10 * time.Minute

// warned records when drover last recorded an Event about each Machine.
type warned struct {
	mu   sync.Mutex
	last map[types.UID]time.Time
}

// due reports whether drover has not warned about a Machine for at least warnEvery. If so, it records now as the time of a warning.
func (w *warned) due(uid types.UID, now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if last, ok := w.last[uid]; ok && now.Sub(last) < warnEvery {
		return false
	}
	w.last[uid] = now
	return true
}

// sweep removes the entries of Machines about which drover may warn again.
func (w *warned) sweep(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	maps.DeleteFunc(w.last, func(_ types.UID, at time.Time) bool { return now.Sub(at) >= warnEvery })
}

// sweep runs until ctx ends. At intervals of warnEvery it removes from memory the Machines about which drover may warn again.
func (r *Reconciler) sweep(ctx context.Context) error {
	ticker := r.Clock.NewTicker(warnEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
			r.warned.sweep(r.Clock.Now())
		}
	}
}

// warn records an Event on each Machine that gets no certificate because another Machine has its node name.
func (r *Reconciler) warn(c Contenders) {
	for _, m := range c.Squatters {
		r.event(m, reasonNameTaken, "the node name %s belongs to Machine %s: no certificate is approved for this Machine; give it another name", m.ServerName, c.Holder.Key)
	}
	for _, m := range c.Equal {
		r.event(m, reasonNameAmbiguous, "Machines %s each have a server named %s: no certificate is approved for them until only one is left", keys(c.Equal), m.ServerName)
	}
}

// report records an Event about a request that has waited for minutes. Without its certificate a node cannot join, or serves no logs.
func (r *Reconciler) report(m *Machine, o *certificatesv1.CertificateSigningRequest, v Verdict) {
	if created := o.CreationTimestamp.Time; r.Clock.Since(created) >= shownAge {
		r.event(m, reasonUndecided, "certificate request %s for %s waits: %s; drover tries again until %s",
			o.Name, o.Spec.SignerName, v.Reason, created.Add(patience).UTC().Format(time.RFC3339))
	}
}

func (r *Reconciler) event(m *Machine, reason, note string, args ...any) {
	if !r.warned.due(m.UID, r.Clock.Now()) {
		return
	}
	regarding := &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: m.Key.Namespace, Name: m.Key.Name, UID: m.UID}}
	r.recorder.Eventf(regarding, nil, corev1.EventTypeWarning, reason, "ApproveCertificate", note, args...)
}
