package main

import (
	"fmt"

	"github.com/spf13/pflag"
)

// freezeOptions set how many Machines beyond its size a node group may have before it is frozen.
type freezeOptions struct{ up int }

func defaultFreeze() freezeOptions { return freezeOptions{up: 2} }

func (o *freezeOptions) addFlags(f *pflag.FlagSet) {
	f.IntVar(&o.up, "safety-up", o.up, "a MachineSet makes no Machine while its MachineDeployment has this many living Machines beyond its size and surge, or the set itself this many beyond twice its size, counting those that it has lost; -1: no limit")
}

func (o *freezeOptions) validate() error {
	if o.up < 1 && o.up != -1 {
		return fmt.Errorf("--safety-up %d is neither -1 nor 1 or more", o.up)
	}
	return nil
}
