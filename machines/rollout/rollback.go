package rollout

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// Reasons of the Events about a rollback.
const (
	ReasonRollback          = "DeploymentRollback"
	ReasonRollbackNotFound  = "DeploymentRollbackRevisionNotFound"
	ReasonRollbackUnchanged = "DeploymentRollbackTemplateUnchanged"
)

// RollbackPlan holds what to do about the annotation rollback-to: remove the annotation, and restore Template unless Template is nil.
type RollbackPlan struct {
	Template *v1alpha1.MachineTemplateSpec
	// Reason and Message describe the result for an Event. Failed is true when no template could be restored.
	Reason, Message string
	Failed          bool
}

// Rollback decides about the annotation rollback-to. It returns nil when the deployment does not have the annotation. Revision 0 means
// the previous revision. When a set has become current again, its former revisions are found in its history (MCM-18).
func Rollback(d *v1alpha1.MachineDeployment, sets []SetState) *RollbackPlan {
	asked, ok := d.Annotations[v1alpha1.AnnotationRollbackTo]
	if !ok {
		return nil
	}
	notFound := func(message string) *RollbackPlan {
		return &RollbackPlan{Failed: true, Reason: ReasonRollbackNotFound, Message: message}
	}
	revision, err := strconv.ParseInt(asked, 10, 32)
	if err != nil || revision < 0 {
		return notFound(fmt.Sprintf("%s is %q: it must be a revision, or 0 for the previous one", v1alpha1.AnnotationRollbackTo, asked))
	}
	set := setOfRevision(sets, int32(revision))
	switch existing := strings.Join(revisions(sets), ", "); {
	case set == nil && revision == 0:
		return notFound("no set has a template from before the current one; existing revisions: " + existing)
	case set == nil:
		return notFound(fmt.Sprintf("no set has revision %d; existing revisions: %s", revision, existing))
	case UndecidedTemplate(set) != "":
		return notFound(fmt.Sprintf("the template of set %s is not that of its revision any more: another client has changed it", set.Name))
	}
	if revision == 0 {
		asked = set.Annotations[v1alpha1.AnnotationRevision]
	}
	if TemplatesEqual(&set.Spec.Template, &d.Spec.Template) {
		return &RollbackPlan{Reason: ReasonRollbackUnchanged, Message: fmt.Sprintf("the current template is that of revision %s already", asked)}
	}
	template := set.Spec.Template.DeepCopy()
	delete(template.Metadata.Labels, v1alpha1.LabelTemplateHash)
	return &RollbackPlan{Template: template, Reason: ReasonRollback,
		Message: fmt.Sprintf("restoring the template of revision %s, from set %s", asked, set.Name)}
}

// setOfRevision finds a set by its revision, or else by its history. Revision 0 means the second highest revision.
func setOfRevision(sets []SetState, revision int32) *v1alpha1.MachineSet {
	if revision == 0 {
		all := numbered(sets)
		if len(all) < 2 {
			return nil
		}
		return all[len(all)-2]
	}
	for _, s := range sets {
		if n, ok := number(s.Set, v1alpha1.AnnotationRevision); ok && n == revision {
			return s.Set
		}
	}
	for _, s := range sets {
		history := strings.Split(s.Set.Annotations[v1alpha1.AnnotationRevisionHistory], ",")
		if slices.Contains(history, strconv.Itoa(int(revision))) {
			return s.Set
		}
	}
	return nil
}

// numbered returns the sets that have a revision, the lowest first.
func numbered(sets []SetState) []*v1alpha1.MachineSet {
	var all []*v1alpha1.MachineSet
	for _, s := range sets {
		if _, ok := number(s.Set, v1alpha1.AnnotationRevision); ok {
			all = append(all, s.Set)
		}
	}
	slices.SortFunc(all, byRevision)
	return all
}

func revisions(sets []SetState) []string {
	var all []string
	for _, set := range numbered(sets) {
		all = append(all, set.Annotations[v1alpha1.AnnotationRevision])
	}
	return all
}
