package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/drover-project/drover/nodegroup"
	"github.com/drover-project/drover/nodegroup/model"
)

// groupOptions are the flags that select node groups and set what the autoscaler receives about them.
type groupOptions struct {
	namespaces   []string
	selector     string
	bareSets     bool
	prices       string
	restartGuard time.Duration
	zeroOrMax    bool
	gpuLabel     string
	gpuTypes     []string
	gpuResource  string
	kernelMemory float64
}

func defaultGroups() groupOptions {
	return groupOptions{gpuResource: "nvidia.com/gpu", kernelMemory: 3}
}

func (o *groupOptions) addFlags(f *pflag.FlagSet) {
	f.StringSliceVar(&o.namespaces, "namespaces", o.namespaces, "namespaces whose MachineDeployments may be node groups of the autoscaler; empty: all")
	f.StringVar(&o.selector, "selector", o.selector, "label selector that a MachineDeployment must match to be a node group; empty: any")
	f.BoolVar(&o.bareSets, "bare-machinesets", o.bareSets, "a MachineSet with bounds and without a MachineDeployment is a node group too")
	f.StringVar(&o.prices, "prices-configmap", o.prices, "ConfigMap in drover's namespace with prices of servers, for the expander price; empty: there are no prices")
	f.DurationVar(&o.restartGuard, "restart-guard", o.restartGuard, "how long after the start of an autoscaler groups in which nodes are awaited look as if they could not grow, so that it does not order those again; 0: not at all")
	f.BoolVar(&o.zeroOrMax, "allow-zero-or-max", o.zeroOrMax, "pass the annotation autoscaling-options-zeroormaxnodescaling on to the autoscaler, which then grows such a group to its maximum at once and never shrinks it")
	f.StringVar(&o.gpuLabel, "gpu-label", o.gpuLabel, "key of the node label that tells the type of GPU; empty: none")
	f.StringSliceVar(&o.gpuTypes, "gpu-types", o.gpuTypes, "types of GPU: values of --gpu-label, and the PCI aliases of flavors that are GPUs")
	f.StringVar(&o.gpuResource, "gpu-resource", o.gpuResource, "resource that GPUs of a flavor are on its nodes")
	f.Float64Var(&o.kernelMemory, "kernel-memory-percent", o.kernelMemory, "share of a flavor's memory that firmware and kernel keep, in percent, until a node has reported")
}

func (o *groupOptions) validate() error {
	errs := []error{checkNamespaces("--namespaces", o.namespaces...), checkKey("--gpu-resource", "the name of a resource", o.gpuResource)}
	if o.gpuLabel != "" {
		errs = append(errs, checkKey("--gpu-label", "the key of a label", o.gpuLabel))
	}
	if wrong := validation.IsDNS1123Subdomain(o.prices); o.prices != "" && len(wrong) > 0 {
		errs = append(errs, fmt.Errorf("--prices-configmap %q is not the name of a ConfigMap: %s", o.prices, wrong[0]))
	}
	if _, err := labels.Parse(o.selector); err != nil {
		errs = append(errs, fmt.Errorf("--selector: %w", err))
	}
	if o.restartGuard < 0 {
		errs = append(errs, fmt.Errorf("--restart-guard %v is negative", o.restartGuard))
	}
	if o.kernelMemory < 0 || o.kernelMemory >= 100 {
		errs = append(errs, fmt.Errorf("--kernel-memory-percent %v is not a share from 0 to below 100", o.kernelMemory))
	}
	return errors.Join(errs...)
}

// nodeGroups returns the options of package nodegroup that the flags set.
func (o *options) nodeGroups() (nodegroup.Options, error) {
	groups := nodegroup.Options{
		Discovery:    model.Discovery{Namespaces: o.groups.namespaces, BareSets: o.groups.bareSets},
		RestartGuard: o.groups.restartGuard, ZeroOrMax: o.groups.zeroOrMax, JoinTimeout: o.joinTimeout, StartupTaint: o.startupTaint, GPULabel: o.groups.gpuLabel,
	}
	if o.groups.prices != "" {
		groups.Prices = types.NamespacedName{Namespace: o.namespace, Name: o.groups.prices}
	}
	if o.groups.selector == "" {
		return groups, nil
	}
	selector, err := labels.Parse(o.groups.selector)
	if err != nil {
		return groups, fmt.Errorf("--selector: %w", err)
	}
	groups.Discovery.Selector = selector
	return groups, nil
}
