package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"
)

// freezeOptions set how many Machines beyond its size a node group may have before it is frozen. The flags and their defaults are
// those of machine-controller-manager.
type freezeOptions struct {
	up, down int
	period   time.Duration
}

func defaultFreeze() freezeOptions { return freezeOptions{up: 2, down: 1, period: time.Minute} }

func (o *freezeOptions) addFlags(f *pflag.FlagSet) {
	f.IntVar(&o.up, "safety-up", o.up, "how many living Machines beyond its size and surge freeze a MachineDeployment, and beyond twice its size a MachineSet without one: no more are made until they are fewer")
	f.IntVar(&o.down, "safety-down", o.down, "how many Machines fewer than those that freeze a group set it free again; from 1 to --safety-up")
	f.DurationVar(&o.period, "machine-safety-overshooting-period", o.period, "how often each group is looked at for too many Machines, beside whenever one is made; 0: nothing is frozen, and what is frozen is set free")
}

func (o *freezeOptions) validate() error {
	var errs []error
	if o.up < 1 {
		errs = append(errs, fmt.Errorf("--safety-up %d is less than 1: a rollout would freeze its own group", o.up))
	}
	if o.down < 1 || o.down > o.up {
		errs = append(errs, fmt.Errorf("--safety-down %d is not from 1 to --safety-up (%d): a frozen group could not be set free", o.down, o.up))
	}
	if o.period < 0 || o.period > 0 && o.period < time.Second {
		errs = append(errs, fmt.Errorf("--machine-safety-overshooting-period %v is neither 0 nor a second or more", o.period))
	}
	return errors.Join(errs...)
}
