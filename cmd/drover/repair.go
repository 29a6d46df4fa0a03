package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/drover-project/drover/machines/health"
	"github.com/drover-project/drover/machines/health/verdict"
)

// repairOptions are the flags for the replacement of unhealthy Machines.
type repairOptions struct {
	timeout        time.Duration
	startTimeout   time.Duration
	nodeConditions []string
	maxReplacing   string
	maxUnhealthy   string
}

func (o *repairOptions) addFlags(f *pflag.FlagSet) {
	f.DurationVar(&o.timeout, "health-timeout", o.timeout, "how long a node may be not Ready, missing or in one of --health-node-conditions before its Machine is replaced; 0: no limit")
	f.DurationVar(&o.startTimeout, "start-timeout", o.startTimeout, "how long a registered node may take to complete its first start before its Machine is replaced; 0: no limit")
	f.StringSliceVar(&o.nodeConditions, "health-node-conditions", o.nodeConditions, "conditions of a node, beside Ready, that make it unhealthy unless they are False or absent")
	f.StringVar(&o.maxReplacing, "health-max-replacing", o.maxReplacing, "how many unhealthy Machines of a node group are replaced at once: a number, or a percentage, rounded up")
	f.StringVar(&o.maxUnhealthy, "health-max-unhealthy", o.maxUnhealthy, "share of unhealthy Machines of a node group and of the cluster above which none there is replaced, rounded down")
}

func (o *repairOptions) validate() error {
	n, err := verdict.Most(intstr.Parse(o.maxReplacing), 100)
	_, share := o.percent()
	errs := []error{
		unless(o.timeout >= 0, "--health-timeout %v is negative", o.timeout),
		unless(o.startTimeout >= 0, "--start-timeout %v is negative", o.startTimeout),
		unless(err == nil && n >= 1 && !strings.HasPrefix(o.maxReplacing, "-"), "--health-max-replacing %q is neither a number nor a percentage such as 10%%", o.maxReplacing),
		share,
	}
	for _, name := range o.nodeConditions {
		errs = append(errs, checkKey("--health-node-conditions", "the type of a condition", name))
	}
	return errors.Join(errs...)
}

// percent returns the percentage in --health-max-unhealthy as a number.
func (o *repairOptions) percent() (int, error) {
	n, err := strconv.Atoi(strings.TrimSuffix(o.maxUnhealthy, "%"))
	if err != nil || n < 0 || n > 100 || !strings.HasSuffix(o.maxUnhealthy, "%") {
		return 0, fmt.Errorf("--health-max-unhealthy %q is not a percentage from 0%% to 100%%", o.maxUnhealthy)
	}
	return n, nil
}

// addRepair adds the controller that replaces unhealthy Machines.
func addRepair(w wiring, o *options) error {
	percent, err := o.repair.percent()
	if err != nil {
		return err
	}
	settings := verdict.Settings{
		Timeout: o.repair.timeout, StartTimeout: o.repair.startTimeout, MaxReplacing: intstr.Parse(o.repair.maxReplacing), MaxUnhealthy: percent, Join: o.joinTimeout,
	}
	for _, name := range o.repair.nodeConditions {
		settings.Conditions = append(settings.Conditions, corev1.NodeConditionType(name))
	}
	repair, err := health.New(health.Options{
		Control: w.controllers, Target: w.target, Clock: clock.RealClock{}, Lease: w.lease, Trust: w.reach.Stale,
		Controller: o.name, Settings: settings, Registry: metrics.Registry,
	})
	if err != nil {
		return fmt.Errorf("making the controller of unhealthy Machines: %w", err)
	}
	return repair.SetupWithManager(w.controllers)
}
