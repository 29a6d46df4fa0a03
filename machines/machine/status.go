package machine

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/bootstrap"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
)

// States and types of the last operation.
const (
	stateProcessing = "Processing"
	stateFailed     = v1alpha1.OperationFailed
	stateSuccessful = "Successful"
)

// providerStatus is drover's record of what the cloud holds for a Machine.
type providerStatus struct {
	HostID       string   `json:"hostID,omitempty"`
	ServerID     string   `json:"serverID,omitempty"`
	Zone         string   `json:"zone,omitempty"`
	PortIDs      []string `json:"portIDs,omitempty"`
	FloatingIPID string   `json:"floatingIPID,omitempty"`
	cloud.ProviderStatus
}

// mostWarnings bounds the text of warnings, in bytes.
const mostWarnings = 4096

// mostVolumes bounds how many volumes of replaced servers are remembered.
const mostVolumes = 16

// conclude derives the whole status from what the pass has found.
func (r *Reconciler) conclude(p *pass) {
	f := &p.facts
	if f.leftAlone() {
		return
	}
	c := conditions{machine: p.m, now: metav1.NewTime(r.Clock.Now())}
	concludeError(p)
	concludeServer(p)
	c.set(v1alpha1.ConditionServerReady, serverReady(p))
	if verdict, known := specValid(p); known {
		c.set(v1alpha1.ConditionSpecValid, verdict)
	}
	if starting := f.node != nil && !f.started; starting || !p.unsynced {
		c.set(v1alpha1.ConditionReady, r.nodeReady(p))
	}
	concludeWarnings(c, p)
	if f.deleting {
		c.set(v1alpha1.ConditionDeleting, verdict{corev1.ConditionTrue, p.last.reason, p.waitsFor()})
	}
	if n := f.node; n != nil && !f.deleting {
		p.m.Status.Versions = &v1alpha1.MachineVersionInfo{Kubelet: n.Status.NodeInfo.KubeletVersion}
	}
	p.m.Status.Phase = ptr.To(r.phase(p))
	concludeOperation(p, c.now)
}

// waitsFor is the message of the step that the pass ended with.
func (p *pass) waitsFor() string {
	if p.failure != nil {
		return fault.Line(p.failure.Message)
	}
	return p.detail
}

// concludeError shows the failure. It stays until there is a server (or, in deletion, until a pass without failure), so
// that the reason does not flicker while a back-off runs. That the cloud asks for patience is not shown.
func concludeError(p *pass) {
	s := &p.m.Status
	switch {
	case p.shown():
		s.ErrorReason = ptr.To(string(p.failure.Code))
		s.ErrorMessage = ptr.To(fault.Line(p.failure.Message))
	case stays(p.facts.cloud.Server), p.facts.deleting && p.failure == nil:
		s.ErrorReason, s.ErrorMessage = nil, nil
	}
}

// stays reports whether there is a server that has not failed and is not being deleted.
func stays(s *cloud.Server) bool {
	return s != nil && s.State != cloud.ServerError && s.State != cloud.ServerDeleting
}

func concludeServer(p *pass) {
	server := p.facts.cloud.Server
	if server == nil {
		return
	}
	recordProvider(&p.m.Status, providerStatus{
		ServerID: server.ID, Zone: server.Zone, HostID: server.HostID, PortIDs: server.PortIDs, FloatingIPID: server.FloatingIPID,
		ProviderStatus: cloud.ProviderStatus{VolumeIDs: server.VolumeIDs, ProjectID: server.ProjectID, Region: server.Region},
	})
	if len(server.Addresses) == 0 {
		return
	}
	addresses := slices.Clone(server.Addresses)
	slices.SortFunc(addresses, func(a, b corev1.NodeAddress) int {
		return strings.Compare(string(a.Type)+a.Address, string(b.Type)+b.Address)
	})
	p.m.Status.Addresses = addresses
}

// recordProvider writes the record when it says something else than what is there. A volume that was recorded once stays:
// only Release may say that it is gone. Ports and floating IP stay while nobody knows of others: they are listed seldom.
func recordProvider(s *v1alpha1.MachineStatus, now providerStatus) {
	var old providerStatus
	if s.ProviderStatus != nil && json.Unmarshal(s.ProviderStatus.Raw, &old) == nil {
		volumes := slices.Concat(old.VolumeIDs, now.VolumeIDs)
		slices.Sort(volumes)
		volumes = slices.Compact(volumes)
		now.VolumeIDs = volumes[max(0, len(volumes)-mostVolumes):]
		if len(now.PortIDs) == 0 {
			now.PortIDs = old.PortIDs
		}
		now.FloatingIPID = cmp.Or(now.FloatingIPID, old.FloatingIPID)
		if equality.Semantic.DeepEqual(old, now) {
			return
		}
	}
	if raw, err := json.Marshal(now); err == nil {
		s.ProviderStatus = &runtime.RawExtension{Raw: raw}
	}
}

// recordBelongings writes down what goes with the server, and where it is, before the server is deleted: afterwards the cloud
// does not show it any more. It writes nothing when that is recorded already.
func (r *Reconciler) recordBelongings(ctx context.Context, p *pass) error {
	concludeServer(p)
	before, now := recordOf(p.base), recordOf(p.m)
	if before.FloatingIPID == now.FloatingIPID && equality.Semantic.DeepEqual(before.ProviderStatus, now.ProviderStatus) {
		return nil
	}
	return r.persist(ctx, p)
}

// recordOf reads drover's record; zero when there is none.
func recordOf(m *v1alpha1.Machine) (known providerStatus) {
	if s := m.Status.ProviderStatus; s == nil || json.Unmarshal(s.Raw, &known) != nil {
		return providerStatus{}
	}
	return known
}

// concludeWarnings says what of spec and annotations is accepted without effect. Most Machines have no such condition.
func concludeWarnings(c conditions, p *pass) {
	warnings := slices.Concat(p.wrong, withoutEffect(&p.m.Spec))
	if p.instance != nil {
		warnings = slices.Concat(warnings, p.instance.Warnings(), bootstrap.Warnings(p.instance.Config()))
	}
	slices.Sort(warnings)
	text := strings.Join(slices.Compact(warnings), "; ")
	switch {
	case text != "":
		c.set(v1alpha1.ConditionWarnings, verdict{corev1.ConditionTrue, reasonWithoutEffect, fault.Cut(text, mostWarnings)})
	case reasonOf(c.machine, v1alpha1.ConditionWarnings) != "" && p.facts.cloudErr == nil:
		c.set(v1alpha1.ConditionWarnings, verdict{corev1.ConditionFalse, reasonSpecValid, ""})
	}
}

// withoutEffect names the fields of a Machine's own spec that are given and that drover does not use.
func withoutEffect(spec *v1alpha1.MachineSpec) (names []string) {
	if spec.ConfigSource != nil {
		names = append(names, "configSource: has no effect; it may be removed")
	}
	if spec.Versions.ControlPlane != "" {
		names = append(names, "versions.controlPlane: has no effect; it may be removed")
	}
	return names
}

// shown tells whether a failure belongs into the error fields: not that the cloud asks for patience, nor that it cannot
// be asked about a server that lives.
func (p *pass) shown() bool {
	f := &p.facts
	lives := p.last.step == fail && f.hadServer && !f.deleting
	return p.failure != nil && p.failure.Class != fault.RateLimited && !lives
}

func serverReady(p *pass) verdict {
	server := p.facts.cloud.Server
	if server == nil {
		return serverAbsent(p)
	}
	switch server.State {
	case cloud.ServerActive:
		return verdict{corev1.ConditionTrue, reasonServerActive, ""}
	case cloud.ServerBuilding:
		if nodeRuns(p.facts.node) {
			// The last list is older than the Node. Showing it would cost a write of its own with the next list.
			return verdict{corev1.ConditionTrue, reasonServerActive, ""}
		}
		return verdict{corev1.ConditionFalse, reasonServerBuilding, ""}
	case cloud.ServerDeleting:
		return verdict{corev1.ConditionFalse, reasonServerDeleting, ""}
	case cloud.ServerError:
		message := "server " + server.ID + " is in ERROR"
		if server.Fault != nil {
			message = fault.Line(server.Fault.Message)
		}
		return verdict{corev1.ConditionFalse, reasonServerError, message}
	}
	return verdict{corev1.ConditionUnknown, reasonServerStopped, "the cloud calls its state " + server.Status}
}

// nodeRuns reports whether a Node has a kubelet that is ready, and so runs on a server that was started.
func nodeRuns(node *corev1.Node) bool {
	if node == nil {
		return false
	}
	ready := readyCondition(node)
	return ready != nil && ready.Status == corev1.ConditionTrue
}

// serverAbsent says what it means that no server is known.
func serverAbsent(p *pass) verdict {
	f := &p.facts
	switch {
	case f.cloud.Foreign != "":
		return verdict{corev1.ConditionFalse, reasonForeign, f.cloud.Foreign}
	case f.cloud.Unknown != "":
		return verdict{corev1.ConditionUnknown, reasonServerUnknown, f.cloud.Unknown}
	case f.cloud.Gone:
		return verdict{corev1.ConditionFalse, reasonServerGone, p.waitsFor()}
	case f.cloud.Held != "":
		return verdict{corev1.ConditionUnknown, reasonHeld, f.cloud.Held}
	case p.last.step == fail && f.hadServer:
		return verdict{corev1.ConditionUnknown, string(p.failure.Code), fault.Line(p.failure.Message)}
	case f.named && !f.deleting:
		return verdict{corev1.ConditionUnknown, reasonServerUnknown, "the cloud shows no such server, which is no proof that it is gone"}
	}
	return verdict{corev1.ConditionFalse, ptr.Deref(p.m.Status.ErrorReason, reasonNoServer), ptr.Deref(p.m.Status.ErrorMessage, p.detail)}
}

// specValid is known once a spec was refused, or was good enough for a server.
func specValid(p *pass) (verdict, bool) {
	switch {
	case p.failure != nil && p.failure.Class == fault.Invalid && p.last.reason != reasonJoinTimeout:
		return verdict{corev1.ConditionFalse, string(p.failure.Code), fault.Line(p.failure.Message)}, true
	case p.facts.cloud.Server != nil:
		return verdict{corev1.ConditionTrue, reasonSpecValid, ""}, true
	}
	return verdict{}, false
}

// nodeReady is False until the first start of the Node is complete. Then it follows the Node's Ready condition, also when
// that is taken back (MC-59).
func (r *Reconciler) nodeReady(p *pass) verdict {
	f := &p.facts
	if f.node == nil {
		switch {
		case f.deleting:
			return verdict{corev1.ConditionFalse, reasonMachineDeleting, ""}
		case f.joined:
			return verdict{corev1.ConditionUnknown, reasonNodeMissing, p.detail}
		}
		if f.cloud.Server == nil {
			return verdict{corev1.ConditionFalse, reasonNoServer, ptr.Deref(p.m.Status.ErrorMessage, p.detail)}
		}
		return verdict{corev1.ConditionFalse, p.last.reason, p.waitsFor()}
	}
	if !f.started {
		return verdict{corev1.ConditionFalse, reasonNodeStarting, r.startMessage(p)}
	}
	ready := readyCondition(f.node)
	switch {
	case ready == nil:
		return verdict{corev1.ConditionUnknown, reasonNodeNotReady, "the Node reports no Ready condition"}
	case ready.Status == corev1.ConditionTrue:
		return verdict{corev1.ConditionTrue, reasonNodeReady, ""}
	}
	return verdict{ready.Status, reasonNodeNotReady, ready.Reason + ": " + ready.Message}
}

func (r *Reconciler) phase(p *pass) v1alpha1.MachinePhase {
	f := &p.facts
	was := ptr.Deref(p.base.Status.Phase, "")
	switch {
	case f.deleting:
		return v1alpha1.PhaseDeleting
	case p.shown() && terminal(p.failure):
		return v1alpha1.PhaseFailed
	case f.joined && (f.started || f.node == nil && was == v1alpha1.PhaseRunning):
		return v1alpha1.PhaseRunning
	case f.joined:
		return v1alpha1.PhaseJoined
	case stays(f.cloud.Server):
		return v1alpha1.PhaseProvisioning
	case was == v1alpha1.PhaseFailed && p.m.Status.ErrorReason != nil:
		return v1alpha1.PhaseFailed
	}
	return v1alpha1.PhasePending
}

// terminal tells whether waiting alone will not cure it: the description is wrong, or what it made is gone.
func terminal(f *fault.Error) bool {
	return f != nil && (f.Class == fault.Invalid || f.Class == fault.NotFound)
}
