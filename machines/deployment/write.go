package deployment

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/ownership"
	"github.com/drover-project/drover/machines/rollout"
)

// writes carries out plans.
type writes struct {
	ownership.Writer
	// live reads from the API server itself, without a cache.
	live   client.Reader
	events events.EventRecorder
}

// carryOut makes the writes of a plan. Each write is safe even if the others fail. The API server refuses the write of an object that has
// changed since the plan was made. collided reports whether another object already has the name of the new set.
func (w writes) carryOut(ctx context.Context, d *v1alpha1.MachineDeployment, p rollout.Plan) (collided bool, err error) {
	var errs []error
	for i := range p.Changes {
		errs = append(errs, w.changeSet(ctx, d, &p.Changes[i]))
	}
	if p.Create != nil {
		var err error
		if err = w.unchanged(ctx, p.Instead); err == nil {
			collided, err = w.createSet(ctx, d, p.Create)
		}
		errs = append(errs, err)
	}
	for _, set := range p.Delete {
		err := w.Client.Delete(ctx, set, client.Preconditions{UID: &set.UID, ResourceVersion: &set.ResourceVersion})
		if client.IgnoreNotFound(err) != nil {
			errs = append(errs, fmt.Errorf("deleting MachineSet %s: %w", set.Name, err))
		}
	}
	if err := errors.Join(errs...); err != nil || collided {
		return collided, err
	}
	return false, w.ownSpec(ctx, d, p)
}

// changeSet writes a set's size, its share of the removals, and the Machines that the rollout removes, in one update. An Event reports a
// size of another client that is set back.
func (w writes) changeSet(ctx context.Context, d *v1alpha1.MachineDeployment, c *rollout.SetChange) error {
	spec := map[string]any{"replicas": c.Replicas}
	if len(c.Removals) > 0 || len(c.Set.Spec.Removals) > 0 {
		spec["removals"] = c.Removals
	}
	if len(c.RolloutRemovals) > 0 || len(c.Set.Spec.RolloutRemovals) > 0 {
		spec["rolloutRemovals"] = c.RolloutRemovals
	}
	if c.MinReadySeconds != c.Set.Spec.MinReadySeconds {
		spec["minReadySeconds"] = c.MinReadySeconds
	}
	metadata := ownership.Metadata(c.Set)
	annotations := map[string]any{}
	for key, value := range c.Annotations {
		if annotations[key] = value; value == "" {
			annotations[key] = nil
		}
	}
	if len(annotations) > 0 {
		metadata["annotations"] = annotations
	}
	err := w.Merge(ctx, c.Set.DeepCopy(), map[string]any{"metadata": metadata, "spec": spec})
	if err != nil {
		return fmt.Errorf("writing MachineSet %s: %w", c.Set.Name, err)
	}
	if c.Found != nil {
		w.events.Eventf(c.Set, d, "Warning", reasonSizeSetBack, "Scale", "%s set spec.replicas to %d; MachineDeployment %s decides the size of this set, so it was set to %d: scale the MachineDeployment instead, with kubectl scale machinedeployment %s",
			writerOf(c.Set, ownership.FieldReplicas), *c.Found, d.Name, c.Replicas, d.Name)
	}
	return nil
}

// unchanged returns [ownership.ErrCacheOld] when the API server has another version of one of the sets than the informer cache.
func (w writes) unchanged(ctx context.Context, sets []*v1alpha1.MachineSet) error {
	for _, set := range sets {
		var now v1alpha1.MachineSet
		if err := w.live.Get(ctx, client.ObjectKeyFromObject(set), &now); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("reading MachineSet %s: %w", set.Name, err)
		}
		if now.ResourceVersion != set.ResourceVersion {
			return ownership.ErrCacheOld
		}
	}
	return nil
}

// createSet creates the set for the current template. It returns [ownership.ErrCacheOld] when the name belongs to a set of this deployment: a plan
// avoids the names of the sets that the informer cache shows, so the cache does not show this one yet. When the name belongs to any other
// set, createSet reports a collision, and the next plan uses another name (MC-26, MCM-22).
func (w writes) createSet(ctx context.Context, d *v1alpha1.MachineDeployment, set *v1alpha1.MachineSet) (collided bool, err error) {
	stored := set.DeepCopy()
	err = w.Client.Create(ctx, stored, w.FieldManager)
	if err == nil {
		w.events.Eventf(d, set, "Normal", "MachineSetCreated", "Create", "created set %s for the current template", set.Name)
		return false, w.compare(ctx, d, stored)
	}
	if !apierrors.IsAlreadyExists(err) {
		return false, fmt.Errorf("creating MachineSet %s: %w", set.Name, err)
	}
	var there v1alpha1.MachineSet
	if err := w.live.Get(ctx, client.ObjectKeyFromObject(set), &there); err != nil {
		return false, fmt.Errorf("reading MachineSet %s, whose name is taken: %w", set.Name, err)
	}
	if metav1.IsControlledBy(&there, d) && there.DeletionTimestamp.IsZero() {
		return false, ownership.ErrCacheOld
	}
	return true, nil
}

// compare looks at a new set as the API server has stored it. It reports by an Event what makes the set another one than drover wrote, and
// records that a changed template stands for the deployment's template.
func (w writes) compare(ctx context.Context, d *v1alpha1.MachineDeployment, stored *v1alpha1.MachineSet) error {
	selector, err := metav1.LabelSelectorAsSelector(&d.Spec.Selector)
	if err != nil {
		return err
	}
	if notOwned := ownership.WhyNotOwned(d, stored, selector); len(notOwned) > 0 {
		w.events.Eventf(d, stored, "Warning", ownership.ReasonStoredDifferently, "Create", "%s", ownership.StoredDifferently(v1alpha1.MachineSetKind.Kind, notOwned))
	}
	if rollout.TemplatesEqual(&stored.Spec.Template, &d.Spec.Template) {
		return nil
	}
	value, err := rollout.StoredTemplate(&d.Spec.Template, &stored.Spec.Template)
	if err != nil {
		return err
	}
	if err := rollout.Decide(stored); err != nil {
		return err
	}
	// The write does not depend on the set's version: the controller of sets has written the set already, and a plan that is made without this
	// record would take the template for one that another client has changed.
	metadata := map[string]any{"uid": stored.UID, "annotations": map[string]any{
		v1alpha1.AnnotationStoredTemplate: value, v1alpha1.AnnotationDecided: stored.Annotations[v1alpha1.AnnotationDecided],
	}}
	if err := w.Merge(ctx, stored, map[string]any{"metadata": metadata}); err != nil {
		return fmt.Errorf("recording the stored template of MachineSet %s: %w", stored.Name, err)
	}
	return nil
}

// ownSpec writes the fields of the deployment that the controller owns: the revision, and spec.removals without the entries that have been
// carried out. It also restores fields that a write of another client has removed, because that client does not know them.
func (w writes) ownSpec(ctx context.Context, d *v1alpha1.MachineDeployment, p rollout.Plan) error {
	metadata := ownership.Metadata(d)
	fields := map[string]any{"metadata": metadata}
	if p.Revision != "" {
		metadata["annotations"] = map[string]any{v1alpha1.AnnotationRevision: p.Revision}
	}
	spec := map[string]any{}
	if p.WriteRemovals {
		spec["removals"] = p.Removals
	}
	if p.PlaceholderSeries != nil {
		spec["placeholderSeries"] = p.PlaceholderSeries
	}
	if len(spec) > 0 {
		fields["spec"] = spec
	}
	if p.Revision == "" && len(spec) == 0 {
		return nil
	}
	if err := w.Merge(ctx, d.DeepCopy(), fields); err != nil {
		return fmt.Errorf("writing the revision and the removals: %w", err)
	}
	return nil
}

// restoreReplicas restores spec.replicas after another client's write has removed it. The watch then enqueues the deployment
// again.
func (w writes) restoreReplicas(ctx context.Context, d *v1alpha1.MachineDeployment, p rollout.Plan) error {
	err := w.Merge(ctx, d, map[string]any{
		"metadata": ownership.Metadata(d),
		"spec":     map[string]any{"replicas": p.Replicas},
	})
	if err != nil {
		return fmt.Errorf("restoring spec.replicas: %w", err)
	}
	return nil
}

// operation is one operation of a JSON patch.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// edit changes an object by a JSON patch, unless the object has changed since it was read. It updates the object from the answer.
func (w writes) edit(ctx context.Context, o client.Object, operations ...operation) error {
	read := operation{Op: "test", Path: "/metadata/resourceVersion", Value: o.GetResourceVersion()}
	body, err := json.Marshal(append([]operation{read}, operations...))
	if err != nil {
		return fmt.Errorf("encoding the patch: %w", err)
	}
	return w.Client.Patch(ctx, o, client.RawPatch(types.JSONPatchType, body), w.FieldManager)
}

// rollBack restores the template that the annotation rollback-to asks for, and removes the annotation in the same write. It reports
// whether the deployment had the annotation; the watch then enqueues the deployment again.
func (w writes) rollBack(ctx context.Context, s rollout.Snapshot) (bool, error) {
	p := rollout.Rollback(s.Deployment, s.Sets)
	if p == nil {
		return false, nil
	}
	d := s.Deployment
	operations := []operation{{Op: "remove", Path: "/metadata/annotations/" + strings.ReplaceAll(v1alpha1.AnnotationRollbackTo, "/", "~1")}}
	if p.Template != nil {
		operations = append(operations, operation{Op: "replace", Path: "/spec/template", Value: p.Template})
	}
	if err := w.edit(ctx, d.DeepCopy(), operations...); err != nil {
		return true, fmt.Errorf("rolling back: %w", err)
	}
	ctrl.LoggerFrom(ctx).Info("Rollback", "reason", p.Reason, "message", p.Message)
	kind := "Normal"
	if p.Failed {
		kind = "Warning"
	}
	w.events.Eventf(d, nil, kind, p.Reason, "Rollback", "%s", p.Message)
	return true, nil
}
