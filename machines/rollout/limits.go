package rollout

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// limits bound a rolling update, in Machines.
type limits struct {
	surge, unavailable int32
}

// limitsOf resolves the fenceposts for a size (MC-15): surge rounds up (default 1), unavailable rounds down (default 0)
// and is at most the size; both 0 makes unavailable 1, since nothing could move otherwise.
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
	up, err := intstr.GetScaledValueFromIntOrPercent(&surge, int(replicas), true)
	if err != nil || up < 0 {
		return limits{}, fmt.Errorf("spec.strategy.rollingUpdate.maxSurge is %q: it must be a number or a percentage like 25%%, not negative", surge.String())
	}
	down, err := intstr.GetScaledValueFromIntOrPercent(&unavailable, int(replicas), false)
	if err != nil || down < 0 {
		return limits{}, fmt.Errorf("spec.strategy.rollingUpdate.maxUnavailable is %q: it must be a number or a percentage like 25%%, not negative", unavailable.String())
	}
	if unavailable.Type == intstr.String && down > int(replicas) {
		return limits{}, fmt.Errorf("spec.strategy.rollingUpdate.maxUnavailable is %q: it must be at most 100%%", unavailable.String())
	}
	if up == 0 && down == 0 {
		down = 1
	}
	return limits{surge: int32(up), unavailable: min(int32(down), replicas)}, nil
}

// check refuses a deployment that cannot be followed, with one message that says what to do (MCM-1, MCM-2).
func check(d *v1alpha1.MachineDeployment) error {
	selector, err := metav1.LabelSelectorAsSelector(&d.Spec.Selector)
	if err != nil {
		return fmt.Errorf("spec.selector cannot be read: %w", err)
	}
	if selector.Empty() {
		return fmt.Errorf("spec.selector is empty: it must select the labels of spec.template.metadata.labels")
	}
	if !selector.Matches(labels.Set(d.Spec.Template.Metadata.Labels)) {
		return fmt.Errorf("spec.selector (%s) does not match spec.template.metadata.labels: add the selector's labels to the template", selector)
	}
	if d.Spec.Replicas != nil && *d.Spec.Replicas < 0 {
		return fmt.Errorf("spec.replicas is %d: it must not be negative", *d.Spec.Replicas)
	}
	switch t := strategyOf(d); t {
	case v1alpha1.RollingUpdate, v1alpha1.OnDelete, v1alpha1.Recreate:
	default:
		return fmt.Errorf("spec.strategy.type is %q: it must be RollingUpdate, OnDelete or Recreate", t)
	}
	_, err = limitsOf(d, 100)
	return err
}

func strategyOf(d *v1alpha1.MachineDeployment) v1alpha1.StrategyType {
	if d.Spec.Strategy == nil || d.Spec.Strategy.Type == "" {
		return v1alpha1.RollingUpdate
	}
	return d.Spec.Strategy.Type
}

func minReadySeconds(d *v1alpha1.MachineDeployment) int32 {
	if d.Spec.MinReadySeconds == nil {
		return 0
	}
	return *d.Spec.MinReadySeconds
}
