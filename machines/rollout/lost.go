package rollout

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// mostLost is how many sets a deployment may have lost before it creates no further set.
const mostLost = 3

// lostRetry is the interval at which a deployment is reconciled that has lost sets, because changes of these sets do not enqueue it.
const lostRetry = 15 * time.Second

// LostSet is a set that was made for the deployment and does not belong to it any more, because it has lost its owner or a label. Its
// Machines count towards replicas plus surge, because they came from this deployment.
type LostSet struct {
	Name string
	// Machines is the size of the set, or the number of its living Machines if that is larger.
	Machines int32
}

// NewLostSet describes a set that was made for a deployment and does not belong to it any more.
func NewLostSet(set *v1alpha1.MachineSet, machines []*v1alpha1.Machine) LostSet {
	living := slices.DeleteFunc(slices.Clone(machines), func(m *v1alpha1.Machine) bool { return !m.DeletionTimestamp.IsZero() })
	count := int32(len(living))
	if size := set.Spec.Replicas; size != nil {
		count = max(count, min(*size, v1alpha1.MaxReplicas))
	}
	return LostSet{Name: set.Name, Machines: count}
}

// mayCreateSet reports whether the deployment may create another set. It may not while too many sets that were made for it do not belong to
// it, or were made for its current template and have another one: then something changes each set that drover creates.
func (w *work) mayCreateSet() bool {
	names := w.namesForTemplate()
	for _, s := range w.sets {
		if slices.Contains(names, s.set.Name) {
			w.changed = append(w.changed, s.set)
		}
	}
	return len(w.lost)+len(w.changed) < mostLost
}

// mostNames is how many collision counts before the stored one namesForTemplate looks at. The stored count grows when foreign objects have
// the names that drover tries, so few would do.
const mostNames = 64

// namesForTemplate returns the names that drover may have given to its last sets for the deployment's template. They go beyond the stored
// collision count by the number of the sets: each set that exists raises the count for the next one, and the status that stores the count
// may not have been written since.
func (w *work) namesForTemplate() []string {
	var stored int64
	if n := w.d.Status.CollisionCount; n != nil {
		stored = int64(max(0, *n))
	}
	last := min(stored+int64(len(w.sets)), math.MaxInt32)
	var names []string
	for count := max(0, stored-mostNames+1); count <= last; count++ {
		if hash, err := templateHash(&w.d.Spec.Template, int32(count)); err == nil {
			names = append(names, v1alpha1.SetBase(w.d.Name)+"-"+hash)
		}
	}
	return names
}

// limitGrowth lowers the sizes of growing sets, as far as replicas plus surge are exceeded because of Machines of lost sets.
func (w *work) limitGrowth() {
	var lost int32
	for _, l := range w.lost {
		lost += min(l.Machines, v1alpha1.MaxReplicas-lost)
	}
	if lost == 0 {
		return
	}
	over := w.occupied() + lost - w.replicas - w.limits.surge
	for _, s := range w.sets {
		if n := min(over, s.size-s.before); n > 0 {
			w.resize(s, s.size-n, fmt.Sprintf("%d Machines of lost sets count towards %d replicas and %d surge", lost, w.replicas, w.limits.surge))
			over -= n
		}
	}
}

// describeLost returns why sets that were made for the deployment do not count as its own, and what to do; "" when there are none.
func (w *work) describeLost() string {
	var all []string
	for _, l := range w.lost[:min(len(w.lost), mostLost)] {
		all = append(all, fmt.Sprintf("%s (%d Machines)", l.Name, l.Machines))
	}
	var text string
	if n := len(w.lost); n > 0 {
		text = fmt.Sprintf("%d sets were made for this deployment and do not belong to it, because they lack a label of spec.selector or the owner: %s. Their Machines count as Machines of this deployment. Give these sets their labels back, or delete them",
			n, strings.Join(all, ", "))
	}
	if len(w.lost)+len(w.changed) >= mostLost {
		text += "; no further set is created"
		if len(w.changed) > 0 {
			text += fmt.Sprintf(", because %d sets for the current template have another one, %s among them", len(w.changed), w.changed[0].Name)
		}
	}
	return strings.TrimPrefix(text, "; ")
}

// Follows reports whether a set has the template of the deployment: an equal one, or the one that the API server stored when drover wrote
// the deployment's template.
func Follows(set *v1alpha1.MachineSet, d *v1alpha1.MachineDeployment) bool {
	if TemplatesEqual(&set.Spec.Template, &d.Spec.Template) {
		return true
	}
	recorded := set.Annotations[v1alpha1.AnnotationStoredTemplate]
	if recorded == "" {
		return false
	}
	value, err := StoredTemplate(&d.Spec.Template, &set.Spec.Template)
	return err == nil && value == recorded
}

// storedDifferently describes what the API server has changed in the template of the current set; "" when it has changed nothing.
func (w *work) storedDifferently() string {
	if w.current == nil || w.current.isNew {
		return ""
	}
	differences := TemplateDifferences(&w.d.Spec.Template, &w.current.set.Spec.Template)
	if len(differences) == 0 {
		return ""
	}
	return fmt.Sprintf("set %s, and so each of its Machines, has another template than drover wrote, because an admission policy, a webhook or an older CRD changed it: %s",
		w.current.set.Name, strings.Join(differences, "; "))
}

// StoredTemplate returns the value of AnnotationStoredTemplate for a set that drover wrote with one template and that has the other one.
func StoredTemplate(written, stored *v1alpha1.MachineTemplateSpec) (string, error) {
	first, err := templateHash(written, 0)
	if err != nil {
		return "", err
	}
	second, err := templateHash(stored, 0)
	return first + "." + second, err
}
