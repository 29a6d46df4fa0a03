package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/nodegroup"
	"github.com/drover-project/drover/nodegroup/model"
)

const (
	// pricesConfigMap is the ConfigMap with the prices, in drover's namespace.
	pricesConfigMap = "drover-prices"
	// restartGuardTime is how long after the start of an autoscaler groups that await nodes look as if they could not grow, at most. It is
	// as long as the autoscaler waits for a node by default.
	restartGuardTime = 15 * time.Minute
)

// groupOptions are the flags that select node groups and set what the autoscaler receives about them.
type groupOptions struct {
	namespaces  []string
	selector    string
	gpuLabel    string
	gpuResource string
}

func (o *groupOptions) addFlags(f *pflag.FlagSet) {
	f.StringSliceVar(&o.namespaces, "namespaces", o.namespaces, "namespaces whose MachineDeployments may be node groups of the autoscaler; empty: all")
	f.StringVar(&o.selector, "selector", o.selector, "label selector that a MachineDeployment must match to be a node group; empty: any")
	f.StringVar(&o.gpuLabel, "gpu-label", o.gpuLabel, "key of the node label that tells the type of GPU; empty: none")
	f.StringVar(&o.gpuResource, "gpu-resource", o.gpuResource, "resource that GPUs of a flavor are on its nodes")
}

func (o *groupOptions) validate() error {
	errs := []error{checkNamespaces("--namespaces", o.namespaces...), checkKey("--gpu-resource", "the name of a resource", o.gpuResource)}
	if o.gpuLabel != "" {
		errs = append(errs, checkKey("--gpu-label", "the key of a label", o.gpuLabel))
	}
	_, err := o.parsed()
	return errors.Join(append(errs, err)...)
}

// parsed returns the selector of MachineDeployments; nil when the flag is empty.
func (o *groupOptions) parsed() (labels.Selector, error) {
	if o.selector == "" {
		return nil, nil
	}
	selector, err := labels.Parse(o.selector)
	if err != nil {
		return nil, fmt.Errorf("--selector: %w", err)
	}
	return selector, nil
}

// nodeGroups returns the options of package nodegroup that the flags set.
func (o *options) nodeGroups() (nodegroup.Options, error) {
	selector, err := o.groups.parsed()
	groups := nodegroup.Options{
		Discovery: model.Discovery{Namespaces: o.groups.namespaces, Selector: selector, BareSets: o.has(bareMachineSets)},
		ZeroOrMax: o.has(zeroOrMax), JoinTimeout: o.joinTimeout, StartupTaint: o.startupTaint, GPULabel: o.groups.gpuLabel,
	}
	if o.has(prices) {
		groups.Prices = types.NamespacedName{Namespace: o.namespace, Name: pricesConfigMap}
	}
	if o.has(restartGuard) {
		groups.RestartGuard = restartGuardTime
	}
	return groups, err
}
