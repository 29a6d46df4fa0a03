package rollout

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// limitsOf returns the surge and the unavailable Machines that a deployment with the given size may have (MC-15). A percentage of surge is
// rounded up, and a percentage of unavailable Machines down. The defaults are 1 and 0. Unavailable is at most the size. When both are 0,
// unavailable becomes 1, because nothing could change otherwise.
func limitsOf(d *v1alpha1.MachineDeployment, replicas int32) (limits, error) {
	surge, unavailable := intstr.FromInt32(1), intstr.FromInt32(0)
	if s := d.Spec.Strategy; s != nil && s.RollingUpdate != nil {
		if s.RollingUpdate.MaxSurge != nil {
			surge = *s.RollingUpdate.MaxSurge
		}
		if s.RollingUpdate.MaxUnavailable != nil {
			unavailable = *s.RollingUpdate.MaxUnavailable
		}
	}
	up, err := scaled(surge, replicas, true)
	if err != nil || up < 0 {
		return limits{}, fmt.Errorf("spec.strategy.rollingUpdate.maxSurge is %q: it must be a number or a percentage like 25%%, not negative", surge.String())
	}
	down, err := scaled(unavailable, replicas, false)
	if err != nil || down < 0 {
		return limits{}, fmt.Errorf("spec.strategy.rollingUpdate.maxUnavailable is %q: it must be a number or a percentage like 25%%, not negative", unavailable.String())
	}
	if strings.HasSuffix(unavailable.StrVal, "%") && down > replicas {
		return limits{}, fmt.Errorf("spec.strategy.rollingUpdate.maxUnavailable is %q: it must be at most 100%%", unavailable.String())
	}
	if up == 0 && down == 0 {
		down = 1
	}
	return limits{surge: up, unavailable: min(down, replicas)}, nil
}

// ReadOtherwise returns a sentence for each limit of a rolling update that is text without a percent sign: such text is a percentage,
// which an author may not expect.
func ReadOtherwise(d *v1alpha1.MachineDeployment) (texts []string) {
	s := d.Spec.Strategy
	if s == nil || s.RollingUpdate == nil {
		return nil
	}
	for _, limit := range []struct {
		name  string
		value *intstr.IntOrString
	}{{"maxSurge", s.RollingUpdate.MaxSurge}, {"maxUnavailable", s.RollingUpdate.MaxUnavailable}} {
		if v := limit.value; v != nil && v.Type == intstr.String && isPlainNumber(v.StrVal) {
			texts = append(texts, fmt.Sprintf("spec.strategy.rollingUpdate.%s: the text %q counts as %s%%, as with machine-controller; write %s for a number, or %q",
				limit.name, v.StrVal, v.StrVal, v.StrVal, v.StrVal+"%"))
		}
	}
	return texts
}

// isPlainNumber reports whether a text is a number without a percent sign.
func isPlainNumber(text string) bool {
	_, err := strconv.ParseUint(text, 10, 32)
	return err == nil
}

// mostPercent is the percentage that yields [v1alpha1.MaxReplicas] Machines for a size of 1, and at least as many for larger sizes.
// [scaled] replaces higher percentages by it. The result stays the same, because it is at most MaxReplicas.
const mostPercent = 100 * v1alpha1.MaxReplicas

// scaled returns a value as a number of Machines; a percentage refers to the given size. Text without a percent sign is a
// percentage too ("5" is 5 %), because machine-controller stores such text and reads it as a percentage. The result is at most
// [v1alpha1.MaxReplicas], whatever the value is, so that sums of sizes and limits fit into an int32.
func scaled(value intstr.IntOrString, size int32, roundUp bool) (int32, error) {
	if value.Type == intstr.String && isPlainNumber(value.StrVal) {
		value.StrVal += "%"
	}
	if digits, percent := strings.CutSuffix(value.StrVal, "%"); percent && value.Type == intstr.String {
		n, err := strconv.ParseUint(digits, 10, 64)
		if n > mostPercent && (err == nil || errors.Is(err, strconv.ErrRange)) {
			value.StrVal = strconv.Itoa(mostPercent) + "%"
		}
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(&value, int(size), roundUp)
	return int32(min(n, v1alpha1.MaxReplicas)), err
}

// ErrSizeTooLarge is the error that [Compute] wraps for a deployment whose spec.replicas is above [v1alpha1.MaxReplicas].
var ErrSizeTooLarge = errors.New("the size is too large")

// CheckSize returns an error, which includes the remedy, for a spec.replicas above [v1alpha1.MaxReplicas]. It returns nil for a nil
// size.
func CheckSize(replicas *int32) error {
	if replicas == nil || *replicas <= v1alpha1.MaxReplicas {
		return nil
	}
	return fmt.Errorf("%w: spec.replicas is %d, and at most %d are possible: no Machine is created or deleted until spec.replicas is lowered",
		ErrSizeTooLarge, *replicas, v1alpha1.MaxReplicas)
}

// check returns an error for an invalid deployment. The error message describes what to do (MCM-1, MCM-2).
func check(d *v1alpha1.MachineDeployment) error {
	selector, err := metav1.LabelSelectorAsSelector(&d.Spec.Selector)
	if err != nil {
		return fmt.Errorf("reading spec.selector: %w", err)
	}
	if selector.Empty() {
		return fmt.Errorf("spec.selector is empty: it must select the labels of spec.template.metadata.labels")
	}
	if !selector.Matches(labels.Set(d.Spec.Template.Metadata.Labels)) {
		return fmt.Errorf("spec.selector (%s) does not match spec.template.metadata.labels: add the selector's labels to the template", selector)
	}
	if requirements, _ := selector.Requirements(); slices.ContainsFunc(requirements, func(r labels.Requirement) bool { return r.Key() == v1alpha1.LabelTemplateHash }) {
		return fmt.Errorf("spec.selector names the label %s, which drover writes with another value on each set, so the deployment would not select its own sets: make a MachineDeployment without it",
			v1alpha1.LabelTemplateHash)
	}
	if d.Spec.Replicas != nil && *d.Spec.Replicas < 0 {
		return fmt.Errorf("spec.replicas is %d: it must not be negative", *d.Spec.Replicas)
	}
	if err := CheckSize(d.Spec.Replicas); err != nil {
		return err
	}
	switch t := strategyOf(d); t {
	case v1alpha1.RollingUpdate, v1alpha1.OnDelete, v1alpha1.Recreate:
	default:
		return fmt.Errorf("spec.strategy.type is %q: it must be RollingUpdate, OnDelete or Recreate", t)
	}
	_, err = limitsOf(d, 100)
	return err
}
