package model

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// Settings are the autoscaler's options that may differ from group to group.
type Settings struct {
	// UtilizationThreshold and GPUUtilizationThreshold are fractions from 0 to 1.
	UtilizationThreshold, GPUUtilizationThreshold float64
	UnneededTime, UnreadyTime, ProvisionTime      time.Duration
	// ZeroOrMax requires the group to have either its maximum size or 0. IgnoreDaemonSets leaves pods of DaemonSets out of the
	// utilization.
	ZeroOrMax, IgnoreDaemonSets bool
}

const (
	// RepairTime is how much longer than the join timeout the autoscaler must wait for a node, so that drover acts first (CA-C96).
	RepairTime = 2 * time.Minute
	// mostRepairTime is how much longer than the join timeout the annotation of a group can make the autoscaler wait for a node. During
	// that time the autoscaler orders no other nodes for the pods that the group is to take, which may be those of other users (F-92).
	mostRepairTime = 10 * time.Minute
)

// Override holds the options in the annotations of a group's object. A nil field means that the autoscaler's flag applies.
type Override struct {
	utilization, gpuUtilization  *float64
	unneeded, unready, provision *time.Duration
	zeroOrMax, ignoreDaemonSets  *bool
	// startup is true when the annotations set a startup time.
	startup bool
	// Problems describe, for users, the annotation values that are ignored.
	Problems []string
}

// readOptions parses the annotations with the prefix AnnotationOptions or AnnotationOptionsCAPI. If both exist for an option,
// AnnotationOptions takes precedence. A value that cannot be parsed is ignored and added to Problems.
func readOptions(annotations map[string]string) Override {
	var o Override
	values := map[string]string{}
	for _, prefix := range []string{v1alpha1.AnnotationOptionsCAPI, v1alpha1.AnnotationOptions} {
		for key, value := range annotations {
			if name, ok := strings.CutPrefix(key, prefix); ok {
				values[name] = value
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if err := o.set(name, values[name]); err != nil {
			o.Problems = append(o.Problems, fmt.Sprintf("annotation autoscaling-options-%s has the value %q: %v; the autoscaler's flag applies", name, values[name], err))
		}
	}
	return o
}

func (o *Override) set(name, value string) (err error) {
	switch name {
	case "scaledownutilizationthreshold":
		o.utilization, err = shareOf(value)
	case "scaledowngpuutilizationthreshold":
		o.gpuUtilization, err = shareOf(value)
	case "scaledownunneededtime":
		o.unneeded, err = durationOf(value)
	case "scaledownunreadytime":
		o.unready, err = durationOf(value)
	case "maxnodeprovisiontime":
		o.provision, err = durationOf(value)
	case "ignoredaemonsetsutilization":
		o.ignoreDaemonSets, err = truthOf(value)
	case "zeroormaxnodescaling":
		o.zeroOrMax, err = truthOf(value)
	case "maxnodestartuptime":
		o.startup = true
	default:
		err = errors.New("there is no such option")
	}
	return err
}

func shareOf(value string) (*float64, error) {
	f, err := strconv.ParseFloat(value, 64)
	// The condition is written so that it also refuses NaN.
	if err != nil || !(f >= 0 && f <= 1) {
		return nil, errors.New("it must be a number from 0 to 1")
	}
	return &f, nil
}

func durationOf(value string) (*time.Duration, error) {
	d, err := time.ParseDuration(value)
	if err != nil || d <= 0 {
		return nil, errors.New("it must be a time above 0, such as 10m")
	}
	return &d, nil
}

func truthOf(value string) (*bool, error) {
	b, err := strconv.ParseBool(value)
	if err != nil {
		return nil, errors.New("it must be true or false")
	}
	return &b, nil
}

// limits returns the options without those that drover ignores, and describes each ignored option in Problems. drover ignores
// all-or-nothing scaling unless the rules r allow it, and a provision time that is too short for drover to replace a server that
// does not join. It shortens a provision time that is too long.
func (o Override) limits(r Rules) Override {
	out := o
	out.Problems = slices.Clone(o.Problems)
	if o.zeroOrMax != nil && *o.zeroOrMax && !r.ZeroOrMax {
		out.zeroOrMax = nil
		out.Problems = append(out.Problems, "all-or-nothing scaling is not enabled (--features=zero-or-max): the autoscaler would add nodes up to the maximum at once and never scale the group down")
	}
	least, most := r.JoinTimeout+RepairTime, r.JoinTimeout+mostRepairTime
	switch {
	case o.provision == nil:
	case *o.provision > most:
		out.provision = &most
		out.Problems = append(out.Problems, fmt.Sprintf("maxnodeprovisiontime is %s: %s is used, which is --join-timeout and %s; with a longer time, pods of other users could wait for the nodes of this group", *o.provision, most, mostRepairTime))
	case *o.provision < least:
		out.provision = nil
		out.Problems = append(out.Problems, fmt.Sprintf("maxnodeprovisiontime is %s: it must be at least %s, which is --join-timeout and %s for a replacement; the autoscaler's flag applies", *o.provision, least, RepairTime))
	}
	if o.startup {
		out.Problems = append(out.Problems, "maxnodestartuptime cannot be passed to the autoscaler: its protocol has no field for it; set its flag --max-node-startup-time, for all groups")
	}
	return out
}

// Any reports whether the group has any option of its own. If not, the autoscaler's flags apply.
func (o Override) Any() bool {
	return o.utilization != nil || o.gpuUtilization != nil || o.unneeded != nil || o.unready != nil || o.provision != nil ||
		o.zeroOrMax != nil || o.ignoreDaemonSets != nil
}

// Over returns the autoscaler's settings, overridden by the group's options.
func (o Override) Over(defaults Settings) Settings {
	setIf(&defaults.UtilizationThreshold, o.utilization)
	setIf(&defaults.GPUUtilizationThreshold, o.gpuUtilization)
	setIf(&defaults.UnneededTime, o.unneeded)
	setIf(&defaults.UnreadyTime, o.unready)
	setIf(&defaults.ProvisionTime, o.provision)
	setIf(&defaults.ZeroOrMax, o.zeroOrMax)
	setIf(&defaults.IgnoreDaemonSets, o.ignoreDaemonSets)
	return defaults
}

func setIf[T any](into *T, value *T) {
	if value != nil {
		*into = *value
	}
}
