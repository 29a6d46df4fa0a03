package rollout

import (
	"fmt"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// decided is what a deployment last decided for one of its sets. The deployment writes it into [v1alpha1.AnnotationDecided] together with
// the set's size, so that a size or template of another client differs from it.
type decided struct {
	size int32
	// template is the hash of the set's template.
	template string
}

func (d decided) String() string { return fmt.Sprintf("%d.%s", d.size, d.template) }

// decidedFor reads the annotation of a set. ok is false when the set has none, or one that cannot be read.
func decidedFor(set *v1alpha1.MachineSet) (d decided, ok bool) {
	size, template, ok := strings.Cut(set.Annotations[v1alpha1.AnnotationDecided], ".")
	n, err := strconv.ParseInt(size, 10, 32)
	if !ok || err != nil || n < 0 || template == "" {
		return decided{}, false
	}
	return decided{size: int32(n), template: template}, true
}

// Decide records in the annotations of a set that its template is what its deployment decided, and its size, too, when none is recorded.
func Decide(set *v1alpha1.MachineSet) error {
	hash, err := templateHash(&set.Spec.Template, 0)
	if err != nil || set.Spec.Replicas == nil {
		return err
	}
	d, ok := decidedFor(set)
	if !ok {
		d.size = *set.Spec.Replicas
	}
	d.template = hash
	metav1.SetMetaDataAnnotation(&set.ObjectMeta, v1alpha1.AnnotationDecided, d.String())
	return nil
}

// UndecidedSize returns why a set must not follow its spec.replicas: its deployment did not write this size. It returns "" for a size that
// the deployment wrote, and for a set without a deployment. known is the size that the deployment decided; nil when that is unknown.
func UndecidedSize(set *v1alpha1.MachineSet) (why string, known *int32) {
	owner := deploymentOf(set)
	if owner == "" {
		return "", nil
	}
	d, ok := decidedFor(set)
	switch found := set.Spec.Replicas; {
	case !ok:
		return fmt.Sprintf("%s has not confirmed the size of this set yet: until then, the set creates no Machine, and deletes none to become smaller", owner), nil
	case found == nil:
		return fmt.Sprintf("spec.replicas is missing, and %s decided %d: the set waits until this size is restored", owner, d.size), &d.size
	case *found != d.size:
		return fmt.Sprintf("spec.replicas is %d, and %s decided %d: the set does not follow a size that another client wrote, and waits until it is set back; scale %s instead",
			*found, owner, d.size, owner), &d.size
	}
	return "", &d.size
}

// UndecidedTemplate returns why a set must not create Machines of its template: another client than its deployment wrote the template. It
// returns "" for the template that the deployment wrote, and for a set without a deployment.
func UndecidedTemplate(set *v1alpha1.MachineSet) string {
	owner := deploymentOf(set)
	d, ok := decidedFor(set)
	if owner == "" || !ok {
		return ""
	}
	if hash, err := templateHash(&set.Spec.Template, 0); err != nil || hash == d.template {
		return ""
	}
	return fmt.Sprintf("spec.template is not what %s wrote: the set creates no Machine of it, and waits until the template is set back; change spec.template of %s instead",
		owner, owner)
}

// deploymentOf returns the deployment of a set, for messages; "" when the set has none.
func deploymentOf(set *v1alpha1.MachineSet) string {
	ref := metav1.GetControllerOfNoCopy(set)
	if ref == nil || ref.Kind != v1alpha1.MachineDeploymentKind.Kind {
		return ""
	}
	return ref.Kind + " " + ref.Name
}

// decidedSize returns the size that the deployment decided for a set, from the stored size and from the annotation. When they differ, it
// returns what is nearest to the living Machines: after a write of another client, that is the size in the annotation, since the set has not
// followed. After the write of a controller that does not know the annotation, such as an older version, it is the stored size, since the
// set of that time has followed.
func decidedSize(set *v1alpha1.MachineSet, living int32) int32 {
	stored := living
	if n := set.Spec.Replicas; n != nil && *n >= 0 {
		// A negative size was stored before sizes were validated, and is ignored. A size above the maximum is lowered to the maximum.
		stored = min(*n, v1alpha1.MaxReplicas)
	}
	d, ok := decidedFor(set)
	if !ok {
		return stored
	}
	return min(max(living, min(stored, d.size)), max(stored, d.size))
}

// setBack finds what other clients have written into a set: a size, and a template. It plans the annotation for the state that the set will
// have. A template that another client wrote stays recorded as such, unless it is the deployment's template.
func (w *work) setBack(s *setWork) error {
	hash, err := templateHash(&s.set.Spec.Template, 0)
	if err != nil {
		return fmt.Errorf("set %s: %w", s.set.Name, err)
	}
	before, ok := decidedFor(s.set)
	if stored := s.set.Spec.Replicas; ok && stored != nil && *stored != before.size && *stored != s.size {
		s.found = stored
	}
	if ok && before.template != hash && !Follows(s.set, w.d) {
		hash = before.template
	}
	s.annotations[v1alpha1.AnnotationDecided] = decided{s.size, hash}.String()
	return nil
}

// isEdited reports whether a set was made for the deployment's template and has another one that another client wrote.
func (w *work) isEdited(set *v1alpha1.MachineSet) bool {
	d, ok := decidedFor(set)
	if !ok {
		return false
	}
	wanted, err := templateHash(&w.d.Spec.Template, 0)
	madeFor := d.template == wanted || set.Annotations[v1alpha1.AnnotationStoredTemplate] == wanted+"."+d.template
	return err == nil && madeFor && UndecidedTemplate(set) != "" && !Follows(set, w.d)
}

// original returns the deployment's template with the labels that it has in the set.
func (w *work) original(set *v1alpha1.MachineSet) *v1alpha1.MachineTemplateSpec {
	t := w.d.Spec.Template.DeepCopy()
	if hash := set.Spec.Selector.MatchLabels[v1alpha1.LabelTemplateHash]; hash != "" {
		t.Metadata.Labels = withHash(t.Metadata.Labels, hash)
	}
	return t
}
