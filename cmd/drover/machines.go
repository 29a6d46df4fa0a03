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
)

// machineOptions are the flags of the Machine controller, in addition to those of the whole binary.
type machineOptions struct {
	name                string
	volumeDetachTimeout time.Duration
	drainWorkers        int
	startServers        bool
	startupConditions   []string
	startupDaemonSets   []string
	otherStartupTaints  []string
	allowedNodeLabels   []string
	hostLabel           bool
}

func defaultMachines() machineOptions {
	return machineOptions{volumeDetachTimeout: 5 * time.Minute, drainWorkers: 10, startServers: true}
}

func (o *machineOptions) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.name, "name", o.name, "value that the label machine.k8s.io/controller of a Machine must have for drover to look after it; Machines with another are left alone until they are deleted. Empty: those without the label. Sets and deployments are kept at their size whatever their label is, so two programs cannot share a cluster by it")
	f.DurationVar(&o.volumeDetachTimeout, "volume-detach-timeout", o.volumeDetachTimeout, "how long the volumes of evicted pods may take to be detached before their server is deleted; 0: they are not waited for")
	f.IntVar(&o.drainWorkers, "drain-workers", o.drainWorkers, "nodes drained at a time")
	f.BoolVar(&o.startServers, "start-servers", o.startServers, "start a server, once, that somebody has shut down")
	f.StringSliceVar(&o.startupConditions, "startup-conditions", o.startupConditions, "conditions of a node, beside Ready, that must be True before its first start is complete: before it loses the startup taint and its Machine is Ready")
	f.StringSliceVar(&o.startupDaemonSets, "startup-daemonsets", o.startupDaemonSets, "DaemonSets, as namespace/name, that must have a Ready pod on a node before its first start is complete")
	f.StringSliceVar(&o.otherStartupTaints, "other-startup-taints", o.otherStartupTaints, "keys of taints (NoSchedule or NoExecute) that other programs remove from a new node, such as node.cilium.io/agent-not-ready: its first start is not complete while it has one of them. Those of Kubernetes itself are always waited for. One that spec.taints names is on the node from its registration and not put back")
	f.StringSliceVar(&o.allowedNodeLabels, "allowed-node-labels", o.allowedNodeLabels, "keys of reserved labels that drover puts on a node when its Machine has them: node-role.kubernetes.io/control-plane, node-role.kubernetes.io/master, and keys in the domain node-restriction.kubernetes.io or one below it. A reserved label that is not listed is put on no node")
	f.BoolVar(&o.hostLabel, "physical-host-label", o.hostLabel, "put the label "+v1alpha1.LabelPhysicalHost+" on nodes, by which pods can be spread over physical hosts. Groups are then balanced only by an autoscaler with --balancing-ignore-label="+v1alpha1.LabelPhysicalHost)
}

func (o *machineOptions) validate() error {
	var errs []error
	if wrong := validation.IsValidLabelValue(o.name); len(wrong) > 0 {
		errs = append(errs, fmt.Errorf("--name %q: no label has such a value: %s", o.name, strings.Join(wrong, "; ")))
	}
	if o.volumeDetachTimeout < 0 {
		errs = append(errs, fmt.Errorf("--volume-detach-timeout %v is negative", o.volumeDetachTimeout))
	}
	if o.drainWorkers < 1 {
		errs = append(errs, fmt.Errorf("--drain-workers %d is less than 1", o.drainWorkers))
	}
	for _, text := range o.startupDaemonSets {
		if namespace, name, ok := strings.Cut(text, "/"); !ok || namespace == "" || name == "" || strings.Contains(name, "/") {
			errs = append(errs, fmt.Errorf("--startup-daemonsets %q is not of the form namespace/name", text))
		}
	}
	for _, key := range o.otherStartupTaints {
		errs = append(errs, checkKey("--other-startup-taints", "the key of a taint", key))
	}
	for _, name := range o.startupConditions {
		errs = append(errs, checkKey("--startup-conditions", "the type of a condition", name))
	}
	for _, key := range o.allowedNodeLabels {
		if err := checkKey("--allowed-node-labels", "the key of a label", key); err != nil || v1alpha1.IsReservedNodeLabel(key) {
			errs = append(errs, err)
			continue
		}
		errs = append(errs, fmt.Errorf("--allowed-node-labels %q is not a reserved label: leave it out, because drover puts it on nodes anyway", key))
	}
	return errors.Join(errs...)
}

// machinesInto sets the options from the flags. A timeout of 0 on the command line means not to wait; the controller
// expects a negative value for that.
func (o *options) machinesInto(into *machine.Options) {
	never := func(d time.Duration) time.Duration {
		if d == 0 {
			return -1
		}
		return d
	}
	into.Name = o.machines.name
	into.StartupTaint, into.JoinTimeout, into.Workers = o.startupTaint, o.joinTimeout, o.workers
	into.DrainTimeout, into.VolumeDetachTimeout = never(o.drainTimeout), never(o.machines.volumeDetachTimeout)
	into.DrainWorkers, into.LeaveStopped = o.machines.drainWorkers, !o.machines.startServers
	into.OtherStartupTaints, into.AllowedNodeLabels = o.machines.otherStartupTaints, o.machines.allowedNodeLabels
	into.HostLabel, into.GPULabel, into.GPUResource = o.machines.hostLabel, o.groups.gpuLabel, corev1.ResourceName(o.groups.gpuResource)
	for _, name := range o.machines.startupConditions {
		into.StartupConditions = append(into.StartupConditions, corev1.NodeConditionType(name))
	}
	for _, text := range o.machines.startupDaemonSets {
		namespace, name, _ := strings.Cut(text, "/")
		into.StartupDaemonSets = append(into.StartupDaemonSets, types.NamespacedName{Namespace: namespace, Name: name})
	}
}
