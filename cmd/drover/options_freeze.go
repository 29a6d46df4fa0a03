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
	f.IntVar(&o.up, "safety-up", o.up, "a MachineSet makes no Machine while its MachineDeployment has this many living Machines beyond its size and surge, or the set itself this many beyond twice its size, counting those that it has lost")
	f.IntVar(&o.down, "safety-down", o.down, "a frozen MachineSet makes Machines again when there are this many fewer than the number that froze it; from 1 to --safety-up")
	f.DurationVar(&o.period, "machine-safety-overshooting-period", o.period, "how often a frozen set is looked at, beside whenever one of its Machines or its size changes; 0: no set is frozen")
}

// safetyUp returns the option of the same name of the controller of sets.
func (o *freezeOptions) safetyUp() int {
	if o.period == 0 {
		return -1
	}
	return o.up
}

func (o *freezeOptions) validate() error {
	var errs []error
	if o.up < 1 {
		errs = append(errs, fmt.Errorf("--safety-up %d is less than 1: a rollout would freeze its own group", o.up))
	}
	if o.down < 1 || o.down > o.up {
		errs = append(errs, fmt.Errorf("--safety-down %d is not from 1 to --safety-up (%d): a frozen set could not be set free", o.down, o.up))
	}
	if o.period < 0 || o.period > 0 && o.period < time.Second {
		errs = append(errs, fmt.Errorf("--machine-safety-overshooting-period %v is neither 0 nor a second or more", o.period))
	}
	return errors.Join(errs...)
}
