package world

import (
	"fmt"
	"path"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// replacementTime is how long a replacement counts at most: the time to join, and two minutes.
const replacementTime = 12 * time.Minute

// serverOf returns the server that a provider ID names.
func serverOf(providerID string) string { return path.Base(providerID) }

// healthy reports whether a Machine runs and nobody has made its Node unhealthy.
func (w *World) healthy(m *v1alpha1.Machine) bool {
	return m.DeletionTimestamp == nil && ptr.Deref(m.Status.Phase, "") == v1alpha1.PhaseRunning &&
		!w.safety.isSick(serverOf(ptr.Deref(m.Spec.ProviderID, "")))
}

// mayBeReplaced returns an error when a sick Machine of a set is about to be deleted that is not in the set's record of replacements,
// or while another one of the set is being replaced.
func (w *World) mayBeReplaced(m *v1alpha1.Machine, set *v1alpha1.MachineSet, s sizes) error {
	if m.DeletionTimestamp != nil || !w.safety.isSick(serverOf(ptr.Deref(m.Spec.ProviderID, ""))) {
		return nil
	}
	if !slices.ContainsFunc(set.Status.HealthReplacements, func(r v1alpha1.HealthReplacement) bool { return r.UID == m.UID }) {
		return fmt.Errorf("unhealthy Machine %s of set %s, whose record of replacements is %v", m.Name, set.Name, set.Status.HealthReplacements)
	}
	up := s.living(func(other *v1alpha1.Machine, its *v1alpha1.MachineSet, _ *v1alpha1.MachineDeployment) bool {
		return its.UID == set.UID && ptr.Deref(other.Status.Phase, "") == v1alpha1.PhaseRunning
	})
	coming := len(up) < int(ptr.Deref(set.Spec.Replicas, 0))
	for uid, began := range w.safety.replacements() {
		exists := slices.ContainsFunc(s.machines, func(other v1alpha1.Machine) bool { return other.UID == uid })
		if uid != m.UID && (exists || coming) && time.Since(began) < replacementTime {
			return fmt.Errorf("unhealthy Machine %s of set %s, while Machine %s is being replaced since %v (it exists: %v; Machines that run: %v)",
				m.Name, set.Name, uid, time.Since(began), exists, up)
		}
	}
	return nil
}

// replacements returns a copy of when each sick Machine was deleted.
func (s *safety) replacements() map[types.UID]time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make(map[types.UID]time.Time, len(s.replaced))
	for uid, at := range s.replaced {
		all[uid] = at
	}
	return all
}

// noteReplaced notes when a sick Machine was deleted.
func (w *World) noteReplaced(name string) error {
	var m v1alpha1.Machine
	if err := w.Admin.Get(w.Context, types.NamespacedName{Namespace: Namespace, Name: name}, &m); err != nil {
		return client.IgnoreNotFound(err)
	}
	if m.DeletionTimestamp == nil || !w.safety.isSick(serverOf(ptr.Deref(m.Spec.ProviderID, ""))) {
		return nil
	}
	w.safety.mu.Lock()
	defer w.safety.mu.Unlock()
	if _, known := w.safety.replaced[m.UID]; !known {
		w.safety.replaced[m.UID] = time.Now()
	}
	return nil
}

// isOfLiving returns an error when a server is the one of a Machine that is not being deleted.
func (w *World) isOfLiving(server string) error {
	machines, err := w.Machines()
	if err != nil {
		return err
	}
	s, _ := w.Cloud.Server(server)
	for i := range machines {
		if m := &machines[i]; m.DeletionTimestamp == nil && s.Status == "ACTIVE" && serverOf(ptr.Deref(m.Spec.ProviderID, "")) == server {
			return fmt.Errorf("server %s is that of Machine %s", server, m.Name)
		}
	}
	return nil
}
