package machine

import (
	"context"
	"fmt"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// group is what a Machine shares its back-off with: its deployment; its set, when that has none; else it is alone. What
// is read from the group is then read from the Machine.
type group struct {
	// holder is a *v1alpha1.MachineDeployment, a *v1alpha1.MachineSet or the *v1alpha1.Machine itself.
	holder client.Object
	// set is the UID of the Machine's set; empty when it has none.
	set types.UID
	// revision is that of the Machine's template.
	revision int64
}

// groupOf finds the Machine's group in the caches. An owner that is gone, or bears another UID, is none.
func (r *Reconciler) groupOf(ctx context.Context, m *v1alpha1.Machine) (group, error) {
	g := group{holder: m}
	var set v1alpha1.MachineSet
	found, err := r.owner(ctx, m, v1alpha1.MachineSetKind.Kind, &set)
	if err != nil || !found {
		return g, err
	}
	g.holder, g.set = &set, set.UID
	// A set without a readable revision counts as the oldest.
	g.revision, _ = strconv.ParseInt(set.Annotations[v1alpha1.AnnotationRevision], 10, 64)
	var d v1alpha1.MachineDeployment
	if found, err = r.owner(ctx, &set, v1alpha1.MachineDeploymentKind.Kind, &d); err == nil && found {
		g.holder = &d
	}
	return g, err
}

// owner reads the object's controller, when it is of that kind.
func (r *Reconciler) owner(ctx context.Context, of client.Object, kind string, into client.Object) (bool, error) {
	ref := metav1.GetControllerOf(of)
	if ref == nil || ref.Kind != kind {
		return false, nil
	}
	err := r.Control.GetClient().Get(ctx, client.ObjectKey{Namespace: of.GetNamespace(), Name: ref.Name}, into)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading %s %s: %w", kind, ref.Name, err)
	}
	return into.GetUID() == ref.UID, nil
}

// timeouts are how long the steps of one Machine may take.
type timeouts struct{ drain, volumes, join time.Duration }

// timeoutsOf reads the annotations of the Machine, then those of its group, over the flags. One that cannot be read is
// left out, and the second value says so. They are read at each look, so that a running drain can be shortened.
func (r *Reconciler) timeoutsOf(m *v1alpha1.Machine, g group) (t timeouts, wrong []string) {
	t = timeouts{drain: r.DrainTimeout, volumes: r.VolumeDetachTimeout, join: r.JoinTimeout}
	for key, into := range map[string]*time.Duration{
		v1alpha1.AnnotationDrainTimeout: &t.drain, v1alpha1.AnnotationVolumeDetachTimeout: &t.volumes, v1alpha1.AnnotationJoinTimeout: &t.join,
	} {
		for _, o := range []client.Object{m, g.holder} {
			text, ok := o.GetAnnotations()[key]
			if !ok {
				continue
			}
			d, err := time.ParseDuration(text)
			if err == nil && d >= 0 {
				*into = d
				break
			}
			wrong = append(wrong, fmt.Sprintf("annotation %s: %q is no duration such as 30m", key, text))
		}
	}
	return t, wrong
}
