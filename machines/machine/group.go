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

// group is the Machines that share a back-off. Its holder is the Machine's deployment, else its set, else the Machine itself.
type group struct {
	// holder is a *v1alpha1.MachineDeployment, a *v1alpha1.MachineSet or the *v1alpha1.Machine itself.
	holder client.Object
	// set is the UID of the Machine's set; empty when it has none.
	set types.UID
	// revision is that of the Machine's template.
	revision int64
}

// groupOf reads the Machine's group from the caches. An owner that is deleted or has another UID does not count.
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

// timeoutsOf returns the timeouts that the annotations of the Machine set, else those of its group's holder, else the flags.
// It skips an annotation that cannot be parsed and describes it in wrong. It is called in each reconcile, so that a running
// drain can be shortened.
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
