package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/machine"
	"github.com/drover-project/drover/machines/machine/lifecycle"
	"github.com/drover-project/drover/machines/machine/nodes"
	"github.com/drover-project/drover/machines/machine/steps"
)

// machineOptions are the flags about the life of a Machine.
type machineOptions struct {
	name              string
	drainTimeout      time.Duration
	joinTimeout       time.Duration
	startupTaint      string
	startupRequires   []string
	allowedNodeLabels []string
}

func (o *machineOptions) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.name, "name", o.name, "value of the label machine.k8s.io/controller of the Machines that drover looks after; empty: those without the label")
	f.DurationVar(&o.joinTimeout, "join-timeout", o.joinTimeout, "how long a server may take to become a node, from when drover first sees it")
	f.DurationVar(&o.drainTimeout, "drain-timeout", o.drainTimeout, "how long the drain of a node may last; 0: no pod is evicted, and the server is deleted at once")
	f.StringVar(&o.startupTaint, "startup-taint", o.startupTaint, "taint (effect NoSchedule) that a node has until it can take pods; empty: none")
	f.StringSliceVar(&o.startupRequires, "startup-requires", o.startupRequires, "what a node's first start waits for beside Ready: condition:TYPE, daemonset:NAMESPACE/NAME, taint:KEY (until it is gone)")
	f.StringSliceVar(&o.allowedNodeLabels, "allowed-node-labels", o.allowedNodeLabels, "keys of reserved labels (node-role and node-restriction.kubernetes.io) that a Machine may give its node")
}

func (o *machineOptions) validate() error {
	wrong := validation.IsValidLabelValue(o.name)
	errs := []error{
		unless(len(wrong) == 0, "--name %q: no label has such a value: %s", o.name, strings.Join(wrong, "; ")),
		unless(o.drainTimeout >= 0, "--drain-timeout %v is negative", o.drainTimeout),
		unless(o.joinTimeout > 0, "--join-timeout %v is not positive", o.joinTimeout),
	}
	if o.startupTaint != "" {
		errs = append(errs, checkKey("--startup-taint", "the key of a taint", o.startupTaint))
	}
	for _, key := range o.allowedNodeLabels {
		err := checkKey("--allowed-node-labels", "the key of a label", key)
		if err == nil {
			err = unless(v1alpha1.IsReservedNodeLabel(key), "--allowed-node-labels %q is not a reserved label: leave it out, because drover puts it on nodes anyway", key)
		}
		errs = append(errs, err)
	}
	_, err := o.startup()
	return errors.Join(append(errs, err)...)
}

// startup reads --startup-taint and --startup-requires.
func (o *machineOptions) startup() (nodes.StartRules, error) {
	out := nodes.StartRules{Taint: o.startupTaint}
	var errs []error
	for _, text := range o.startupRequires {
		kind, name, _ := strings.Cut(text, ":")
		switch kind {
		case "condition":
			errs = append(errs, checkKey("--startup-requires", "the type of a condition", name))
			out.Conditions = append(out.Conditions, corev1.NodeConditionType(name))
		case "taint":
			errs = append(errs, checkKey("--startup-requires", "the key of a taint", name))
			out.OtherTaints = append(out.OtherTaints, name)
		case "daemonset":
			namespace, name, _ := strings.Cut(name, "/")
			errs = append(errs, unless(namespace != "" && name != "" && !strings.Contains(name, "/"), "--startup-requires %q is not of the form daemonset:NAMESPACE/NAME", text))
			out.DaemonSets = append(out.DaemonSets, types.NamespacedName{Namespace: namespace, Name: name})
		default:
			errs = append(errs, fmt.Errorf("--startup-requires %q begins with none of the words condition:, daemonset: and taint: of the flag", text))
		}
	}
	return out, errors.Join(errs...)
}

// machines returns the options of the Machine controller that the flags set. A --drain-timeout of 0 means not to evict; the controller
// expects a negative value for that.
func (o *options) machines() (machine.Options, error) {
	first, err := o.startup()
	out := machine.Options{
		Name: o.name, Timeouts: lifecycle.Timeouts{Drain: o.drainTimeout, Volumes: volumeDetachTimeout, Join: o.joinTimeout},
		Nodes: steps.NodeOptions{
			Start:         first,
			AllowedLabels: o.allowedNodeLabels, HostLabel: o.has(physicalHostLabel),
			GPULabel: o.groups.gpuLabel, GPUResource: corev1.ResourceName(o.groups.gpuResource),
		},
	}
	if o.drainTimeout == 0 {
		out.Timeouts.Drain = -1
	}
	return out, err
}
