package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/intstr"

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

func defaultRepair() repairOptions {
	return repairOptions{
		timeout: 10 * time.Minute, startTimeout: 30 * time.Minute, maxReplacing: "1", maxUnhealthy: "40%",
		nodeConditions: []string{"KernelDeadlock", "ReadonlyFilesystem", "NetworkUnavailable"},
	}
}

func (o *repairOptions) addFlags(f *pflag.FlagSet) {
	f.DurationVar(&o.timeout, "health-timeout", o.timeout, "how long the node of a Machine may be not Ready, missing, or have one of --health-node-conditions, before the Machine is replaced; 0: without a limit")
	f.DurationVar(&o.startTimeout, "start-timeout", o.startTimeout, "how long a node that has registered may take to become Ready and complete its first start, before its Machine counts as unhealthy and is replaced; 0: without a limit")
	f.StringSliceVar(&o.nodeConditions, "health-node-conditions", o.nodeConditions, "conditions of a node, beside Ready, that make it unhealthy unless they are False or absent")
	f.StringVar(&o.maxReplacing, "health-max-replacing", o.maxReplacing, "how many unhealthy Machines of a MachineDeployment, or of a MachineSet without one, are replaced at once: a number, or a percentage of its size, rounded up; at least one")
	f.StringVar(&o.maxUnhealthy, "health-max-unhealthy", o.maxUnhealthy, "share of the Machines of a MachineDeployment, or of a MachineSet without one, and of the cluster that may be unhealthy: while more are, none there is replaced. Rounded down; fewer than three Machines have no share")
}

func (o *repairOptions) validate() error {
	var errs []error
	if o.timeout < 0 {
		errs = append(errs, fmt.Errorf("--health-timeout %v is negative", o.timeout))
	}
	if o.startTimeout < 0 {
		errs = append(errs, fmt.Errorf("--start-timeout %v is negative", o.startTimeout))
	}
	for _, name := range o.nodeConditions {
		errs = append(errs, checkKey("--health-node-conditions", "the type of a condition", name))
	}
	if n, err := verdict.Most(intstr.Parse(o.maxReplacing), 100); err != nil || strings.HasPrefix(o.maxReplacing, "-") || n < 1 {
		errs = append(errs, fmt.Errorf("--health-max-replacing %q is neither a number nor a percentage such as 10%%", o.maxReplacing))
	}
	if _, err := o.percent(); err != nil {
		errs = append(errs, err)
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
