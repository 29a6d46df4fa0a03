package rollout

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// findCurrent sets w.current to the set that follows the deployment's template, or else to one that was made for it and has another template,
// which another client wrote. Of several such sets it takes the largest, then the oldest, so that nothing rolls without need (CAPI-54). When
// there is no such set, findCurrent describes a new set, unless the deployment is paused
// or has lost too many sets. It returns the collision count.
func (w *work) findCurrent() (collisions *int32, err error) {
	w.current = w.largest(func(set *v1alpha1.MachineSet) bool { return Follows(set, w.d) })
	if w.current == nil {
		if w.current = w.largest(w.isEdited); w.current != nil {
			w.current.original = w.original(w.current.set)
			w.note(fmt.Sprintf("another client has changed the template of %s: setting it back", w.current.set.Name))
		}
	}
	collisions = w.d.Status.CollisionCount
	if w.current != nil || w.d.Spec.Paused || !w.mayCreateSet() {
		return collisions, nil
	}
	set, collisions, err := w.newSet(collisions)
	if err != nil {
		return nil, err
	}
	w.current = &setWork{set: set, isNew: true, annotations: map[string]string{v1alpha1.AnnotationRolloutRecord: recordValue}, availableFrom: []int32{0}}
	w.sets = append(w.sets, w.current)
	w.note("no set has this template: creating " + set.Name)
	return collisions, nil
}

// largest returns the largest set that matches, and the oldest of several; nil when none does.
func (w *work) largest(matches func(*v1alpha1.MachineSet) bool) (found *setWork) {
	for _, s := range w.sets {
		if (found == nil || s.before > found.before) && matches(s.set) {
			found = s
		}
	}
	return found
}

// newSet describes a set for the deployment's template. It avoids a name that another set has (MC-26).
func (w *work) newSet(collisions *int32) (*v1alpha1.MachineSet, *int32, error) {
	count := int32(0)
	if collisions != nil {
		count = *collisions
	}
	base := v1alpha1.SetBase(w.d.Name)
	var hash, name string
	for {
		var err error
		if hash, err = templateHash(&w.d.Spec.Template, count); err != nil {
			return nil, nil, err
		}
		if name = base + "-" + hash; !w.taken(name) {
			break
		}
		count++
		collisions = &count
	}
	template := w.d.Spec.Template.DeepCopy()
	template.Metadata.Labels = withHash(template.Metadata.Labels, hash)
	selector := w.d.Spec.Selector.DeepCopy()
	selector.MatchLabels = withHash(selector.MatchLabels, hash)
	return &v1alpha1.MachineSet{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: w.d.Namespace,
			Labels:          withHash(w.d.Spec.Template.Metadata.Labels, hash),
			Annotations:     map[string]string{},
			Finalizers:      []string{metav1.FinalizerDeleteDependents},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(w.d, v1alpha1.MachineDeploymentKind)},
		},
		Spec: v1alpha1.MachineSetSpec{MinReadySeconds: minReadySeconds(w.d), Selector: *selector, Template: *template},
	}, collisions, nil
}

func (w *work) taken(name string) bool {
	return slices.ContainsFunc(w.sets, func(s *setWork) bool { return s.set.Name == name })
}

func withHash(labels map[string]string, hash string) map[string]string {
	labels = maps.Clone(labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[v1alpha1.LabelTemplateHash] = hash
	return labels
}

// annotate plans the annotations of all sets, as machine-controller writes them: the sizes on active sets, the revision and the
// deployment's own annotations on the current set. On all sets it plans what was decided for them.
func (w *work) annotate() error {
	for _, s := range w.sets {
		if err := w.setBack(s); err != nil {
			return err
		}
		if s.size > 0 || s == w.current {
			s.annotations[v1alpha1.AnnotationDesiredReplicas] = strconv.Itoa(int(w.replicas))
			s.annotations[v1alpha1.AnnotationMaxReplicas] = strconv.Itoa(int(w.replicas + w.limits.surge))
		}
		switch onDelete := strategyOf(w.d) == v1alpha1.OnDelete; {
		case onDelete && s != w.current && !w.d.Spec.Paused:
			s.annotations[v1alpha1.AnnotationNoCreate] = "true"
		case s.set.Annotations[v1alpha1.AnnotationNoCreate] != "":
			s.annotations[v1alpha1.AnnotationNoCreate] = ""
		}
	}
	if w.current == nil {
		return nil
	}
	for key, value := range w.d.Annotations {
		if !notCopied[key] && value != "" {
			w.current.annotations[key] = value
		}
	}
	w.annotateRevision()
	return nil
}

// notCopied lists the annotations of a deployment that describe only the deployment.
var notCopied = map[string]bool{
	corev1.LastAppliedConfigAnnotation: true,
	v1alpha1.AnnotationRevision:        true,
	v1alpha1.AnnotationRevisionHistory: true,
	v1alpha1.AnnotationDesiredReplicas: true,
	v1alpha1.AnnotationMaxReplicas:     true,
	v1alpha1.AnnotationPaused:          true,
	v1alpha1.AnnotationPausedCAPI:      true,
	v1alpha1.AnnotationRollbackTo:      true,
	v1alpha1.AnnotationRolloutRecord:   true,
	v1alpha1.AnnotationUnfreeze:        true,
	v1alpha1.AnnotationUnfreezeMCM:     true,
	v1alpha1.AnnotationStoredTemplate:  true,
	v1alpha1.AnnotationDecided:         true,
	v1alpha1.AnnotationNoCreate:        true,
}

// annotateRevision assigns to the current set the highest revision. When a set becomes current again, its history keeps its former
// revisions (MC-20). Nothing else changes the history (MC-21).
func (w *work) annotateRevision() {
	var highest int32
	for _, s := range w.old() {
		if n, ok := number(s.set, v1alpha1.AnnotationRevision); ok {
			highest = max(highest, n)
		}
	}
	c := w.current
	own, ok := number(c.set, v1alpha1.AnnotationRevision)
	if ok && own > highest {
		return
	}
	c.annotations[v1alpha1.AnnotationRevision] = strconv.Itoa(int(highest + 1))
	if ok {
		former := strconv.Itoa(int(own))
		if history := c.set.Annotations[v1alpha1.AnnotationRevisionHistory]; history != "" {
			former = history + "," + former
		}
		c.annotations[v1alpha1.AnnotationRevisionHistory] = former
	}
}

// revision returns the new value of the deployment's revision annotation, or "" when the annotation does not have to change.
func (w *work) revision() string {
	if w.current == nil {
		return ""
	}
	revision, ok := w.current.annotations[v1alpha1.AnnotationRevision]
	if !ok {
		revision = w.current.set.Annotations[v1alpha1.AnnotationRevision]
	}
	if revision == w.d.Annotations[v1alpha1.AnnotationRevision] {
		return ""
	}
	return revision
}

// defaultHistory is how many empty old sets are kept when spec.revisionHistoryLimit is not set (MC-1).
const defaultHistory = 1

// surplusHistory returns the empty old sets beyond the limit, once the deployment is complete (MC-25).
func (w *work) surplusHistory(status v1alpha1.MachineDeploymentStatus) []*v1alpha1.MachineSet {
	if w.d.Spec.Paused || !complete(status, w.replicas) {
		return nil
	}
	limit := defaultHistory
	if n := w.d.Spec.RevisionHistoryLimit; n != nil {
		limit = int(max(0, *n))
	}
	var empty []*v1alpha1.MachineSet
	for _, s := range w.old() {
		if s.empty() {
			empty = append(empty, s.set)
		}
	}
	slices.SortStableFunc(empty, byRevision)
	surplus := empty[:max(0, len(empty)-limit)]
	for _, set := range surplus {
		w.note(fmt.Sprintf("deleting %s: it is empty, and beyond the history limit of %d", set.Name, limit))
	}
	return surplus
}

func byRevision(a, b *v1alpha1.MachineSet) int {
	x, _ := number(a, v1alpha1.AnnotationRevision)
	y, _ := number(b, v1alpha1.AnnotationRevision)
	return cmp.Compare(x, y)
}
