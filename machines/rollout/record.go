package rollout

import (
	"encoding/json"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// Record is a plan with its input. An operator can read it, and [Record.Replay] can compute the plan again.
type Record struct {
	Time time.Time `json:"time"`
	// Generation is the generation of the deployment. Replicas is the deployment's size for which the plan was made.
	Generation int64  `json:"generation"`
	Replicas   int32  `json:"replicas"`
	Steps      []Step `json:"steps"`
	// Snapshot is the input of the plan, reduced to what the decision depends on. Provider specs are replaced by fingerprints, because they
	// may contain credentials.
	Snapshot Snapshot `json:"snapshot"`
}

// NewRecord records a plan.
func NewRecord(s Snapshot, p Plan) (Record, error) {
	slim, err := Slim(s)
	if err != nil {
		return Record{}, err
	}
	return Record{Time: s.Now, Generation: s.Deployment.Generation, Replicas: p.Replicas, Steps: p.Steps, Snapshot: slim}, nil
}

// Replay computes the plan of a record again.
func (r Record) Replay() (Plan, error) { return Compute(r.Snapshot) }

// Slim returns a copy of a snapshot that contains only what Compute looks at. Compute returns the same plan for the copy.
func Slim(s Snapshot) (Snapshot, error) {
	slim := s
	d := &v1alpha1.MachineDeployment{ObjectMeta: slimMeta(s.Deployment.ObjectMeta), Spec: *s.Deployment.Spec.DeepCopy(), Status: s.Deployment.Status}
	d.Generation, d.Status.NodeTemplate = s.Deployment.Generation, nil
	d.Status.Backoffs, d.Status.JoinOutcomes, d.Status.RecentJoins = nil, nil, ""
	if err := seal(&d.Spec.Template); err != nil {
		return Snapshot{}, err
	}
	slim.Deployment, slim.Sets = d, make([]SetState, len(s.Sets))
	for i, state := range s.Sets {
		set := &v1alpha1.MachineSet{ObjectMeta: slimMeta(state.Set.ObjectMeta), Spec: *state.Set.Spec.DeepCopy(), Status: state.Set.Status}
		set.Generation, set.Status.NodeTemplate, set.Status.Backoffs = state.Set.Generation, nil, nil
		if err := seal(&set.Spec.Template); err != nil {
			return Snapshot{}, err
		}
		slim.Sets[i] = SetState{Set: set, Machines: make([]*v1alpha1.Machine, len(state.Machines)), Named: state.Named}
		for j, m := range state.Machines {
			slim.Sets[i].Machines[j] = slimMachine(m)
		}
	}
	return slim, nil
}

func slimMeta(m metav1.ObjectMeta) metav1.ObjectMeta {
	slim := metav1.ObjectMeta{
		Name: m.Name, Namespace: m.Namespace, UID: m.UID, CreationTimestamp: m.CreationTimestamp, DeletionTimestamp: m.DeletionTimestamp,
		Finalizers: m.Finalizers, Annotations: maps.Clone(m.Annotations),
	}
	delete(slim.Annotations, corev1.LastAppliedConfigAnnotation)
	return slim
}

func slimMachine(m *v1alpha1.Machine) *v1alpha1.Machine {
	slim := &v1alpha1.Machine{ObjectMeta: slimMeta(m.ObjectMeta)}
	slim.Annotations = nil
	for _, key := range []string{v1alpha1.AnnotationDeleteMachine, v1alpha1.AnnotationDeleteMachineCAPI, v1alpha1.AnnotationPriority} {
		if value, ok := m.Annotations[key]; ok {
			metav1.SetMetaDataAnnotation(&slim.ObjectMeta, key, value)
		}
	}
	slim.Spec.ProviderID = m.Spec.ProviderID
	slim.Status.Phase, slim.Status.ErrorReason = m.Status.Phase, m.Status.ErrorReason
	if ref := m.Status.NodeRef; ref != nil {
		slim.Status.NodeRef = &corev1.ObjectReference{Name: ref.Name}
	}
	for _, name := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionHealthy} {
		if c := m.Condition(name); c.Type != "" {
			slim.Status.Conditions = append(slim.Status.Conditions, v1alpha1.MachineCondition{Type: c.Type, Status: c.Status, LastTransitionTime: c.LastTransitionTime})
		}
	}
	return slim
}

// seal replaces the provider spec of a template by its fingerprint.
func seal(t *v1alpha1.MachineTemplateSpec) error {
	for _, p := range []*v1alpha1.ProviderSpec{&t.Spec.ProviderSpec, t.Spec.ProviderConfig} {
		if p == nil || p.Value == nil {
			continue
		}
		raw, err := json.Marshal(sealed{SHA256: fingerprint(p.Value.Raw)})
		if err != nil {
			return fmt.Errorf("encoding the fingerprint of a provider spec: %w", err)
		}
		p.Value = &runtime.RawExtension{Raw: raw}
	}
	return nil
}
