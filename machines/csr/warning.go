package csr

import (
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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

// mostWarned is the number of Machines about which drover remembers that it has warned. When there are more, it forgets the oldest first,
// and may warn about them earlier.
const mostWarned = 10_000

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
	if _, recently := r.warned.Get(m.UID); recently {
		return
	}
	r.warned.Add(m.UID, nil, warnEvery)
	regarding := &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: m.Key.Namespace, Name: m.Key.Name, UID: m.UID}}
	r.recorder.Eventf(regarding, nil, corev1.EventTypeWarning, reason, "ApproveCertificate", note, args...)
}
