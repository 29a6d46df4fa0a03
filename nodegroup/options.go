package nodegroup

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

// Settings are the values of the autoscaler's flags that may differ from group to group.
type Settings struct {
	// UtilizationThreshold and GPUUtilizationThreshold are shares from 0 to 1.
	UtilizationThreshold, GPUUtilizationThreshold float64
	UnneededTime, UnreadyTime, ProvisionTime      time.Duration
	// ZeroOrMax: the group has its maximum or nothing. IgnoreDaemonSets: their pods do not count as use.
	ZeroOrMax, IgnoreDaemonSets bool
}

// repairTime is how much longer than a server may take to join the autoscaler must wait for its node, so that drover acts
// first (CA-C96).
const repairTime = 2 * time.Minute

// override is what annotations of a group's object put in the place of the autoscaler's flags.
type override struct {
	utilization, gpuUtilization  *float64
	unneeded, unready, provision *time.Duration
	zeroOrMax, ignoreDaemonSets  *bool
	startup                      bool
	problems                     []string
}

// readOptions reads the annotations of both prefixes; under the first they win. What cannot be read is left out, and told.
func readOptions(annotations map[string]string) override {
	var o override
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
			o.problems = append(o.problems, fmt.Sprintf("annotation autoscaling-options-%s has the value %q: %v; the autoscaler's flag holds", name, values[name], err))
		}
	}
	return o
}

func (o *override) set(name, value string) (err error) {
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
	// Written so that what is no number is refused too.
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

// limits is the override as far as it may be used: all-or-nothing scaling only where that is allowed, and no provision time
// in which drover could not replace a server that does not join. What is left out is told.
func (o override) limits(zeroOrMax bool, join time.Duration) override {
	out := o
	out.problems = slices.Clone(o.problems)
	if o.zeroOrMax != nil && *o.zeroOrMax && !zeroOrMax {
		out.zeroOrMax = nil
		out.problems = append(out.problems, "all-or-nothing scaling is not enabled (--allow-zero-or-max): the autoscaler would never scale the group down, and one failed machine would cost it all others")
	}
	if o.provision != nil && *o.provision < join+repairTime {
		out.provision = nil
		out.problems = append(out.problems, fmt.Sprintf("maxnodeprovisiontime is %s: it must be at least %s, which is --join-timeout and %s for a replacement; the autoscaler's flag holds", *o.provision, join+repairTime, repairTime))
	}
	if o.startup {
		out.problems = append(out.problems, "maxnodestartuptime cannot be told to the autoscaler: its protocol has no field for it; set its flag --max-node-startup-time, for all groups")
	}
	return out
}

// any reports whether the group has an option of its own; otherwise the autoscaler's flags hold for everything.
func (o override) any() bool {
	return o.utilization != nil || o.gpuUtilization != nil || o.unneeded != nil || o.unready != nil || o.provision != nil ||
		o.zeroOrMax != nil || o.ignoreDaemonSets != nil
}

// over lays the override over the autoscaler's own values.
func (o override) over(defaults Settings) Settings {
	put(&defaults.UtilizationThreshold, o.utilization)
	put(&defaults.GPUUtilizationThreshold, o.gpuUtilization)
	put(&defaults.UnneededTime, o.unneeded)
	put(&defaults.UnreadyTime, o.unready)
	put(&defaults.ProvisionTime, o.provision)
	put(&defaults.ZeroOrMax, o.zeroOrMax)
	put(&defaults.IgnoreDaemonSets, o.ignoreDaemonSets)
	return defaults
}

func put[T any](into *T, value *T) {
	if value != nil {
		*into = *value
	}
}

// Settings returns a group's own options over those that the autoscaler's flags give; false when the flags hold, which is so
// for every group without such annotations, and for every autoscaler that does not say its provision time: up to 1.28 it has
// no field for that and would take an answer for a provision time of zero. It never fails: the autoscaler forgets an order
// whose options it cannot read, and gives it again (CA-C90 … C96).
func (g *Groups) Settings(id string, defaults Settings) (Settings, bool) {
	if defaults.ProvisionTime > 0 {
		g.provision.Store(int64(defaults.ProvisionTime))
	}
	e := g.current().byID[id]
	if e == nil || defaults.ProvisionTime <= 0 {
		return Settings{}, false
	}
	if !e.options.any() {
		return Settings{}, false
	}
	return e.options.over(defaults), true
}
