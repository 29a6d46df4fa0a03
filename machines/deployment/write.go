package deployment

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/rollout"
)

// carryOut makes the writes of a plan: each by itself safe, each conditional on what the plan was made from. collided
// says that the name of the new set is taken by something else.
func (r *Reconciler) carryOut(ctx context.Context, d *v1alpha1.MachineDeployment, p rollout.Plan) (collided bool, err error) {
	var errs []error
	for i := range p.Changes {
		errs = append(errs, r.changeSet(ctx, &p.Changes[i]))
	}
	if p.Create != nil {
		var err error
		collided, err = r.createSet(ctx, d, p.Create)
		errs = append(errs, err)
	}
	for _, set := range p.Delete {
		err := r.client.Delete(ctx, set, client.Preconditions{UID: &set.UID, ResourceVersion: &set.ResourceVersion})
		if client.IgnoreNotFound(err) != nil {
			errs = append(errs, fmt.Errorf("deleting MachineSet %s: %w", set.Name, err))
		}
	}
	if err := errors.Join(errs...); err != nil || collided {
		return collided, err
	}
	return false, r.ownSpec(ctx, d, p)
}

// changeSet writes a set's size, its share of the removals and the Machines that the rollout removes in one update.
func (r *Reconciler) changeSet(ctx context.Context, c *rollout.SetChange) error {
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
	metadata := map[string]any{"uid": c.Set.UID, "resourceVersion": c.Set.ResourceVersion}
	if annotations := changedAnnotations(c); len(annotations) > 0 {
		metadata["annotations"] = annotations
	}
	err := r.writer().Patch(ctx, c.Set.DeepCopy(), map[string]any{"metadata": metadata, "spec": spec})
	if err != nil {
		return fmt.Errorf("writing MachineSet %s: %w", c.Set.Name, err)
	}
	return nil
}

// changedAnnotations are those that differ from what is stored; nil removes one.
func changedAnnotations(c *rollout.SetChange) map[string]any {
	changed := map[string]any{}
	for key, value := range c.Annotations {
		stored, ok := c.Set.Annotations[key]
		switch {
		case value == "" && ok:
			changed[key] = nil
		case value != "" && stored != value:
			changed[key] = value
		}
	}
	return changed
}

// createSet makes the set for the current template. When its name is taken by a set of ours with this very template,
// the cache is behind and nothing is wrong; anything else asks for another name (MC-26, MCM-22).
func (r *Reconciler) createSet(ctx context.Context, d *v1alpha1.MachineDeployment, set *v1alpha1.MachineSet) (collided bool, err error) {
	err = r.client.Create(ctx, set.DeepCopy(), client.FieldOwner(FieldManager))
	if !apierrors.IsAlreadyExists(err) {
		if err != nil {
			return false, fmt.Errorf("creating MachineSet %s: %w", set.Name, err)
		}
		r.events.Eventf(d, set, "Normal", "MachineSetCreated", "Create", "made set %s for the current template", set.Name)
		return false, nil
	}
	var there v1alpha1.MachineSet
	if err := r.live.Get(ctx, client.ObjectKeyFromObject(set), &there); err != nil {
		return false, fmt.Errorf("looking at MachineSet %s, whose name is taken: %w", set.Name, err)
	}
	ours := metav1.IsControlledBy(&there, d) && there.DeletionTimestamp.IsZero()
	return !ours || !rollout.TemplatesEqual(&there.Spec.Template, &d.Spec.Template), nil
}

// ownSpec writes the fields of the deployment that the controller owns: the revision, and spec.removals without the entries that
// are over. It also restores fields that another client dropped because it does not know them.
func (r *Reconciler) ownSpec(ctx context.Context, d *v1alpha1.MachineDeployment, p rollout.Plan) error {
	metadata := map[string]any{"uid": d.UID, "resourceVersion": d.ResourceVersion}
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
	if err := r.writer().Patch(ctx, d.DeepCopy(), fields); err != nil {
		return fmt.Errorf("writing the revision and the removals: %w", err)
	}
	return nil
}
