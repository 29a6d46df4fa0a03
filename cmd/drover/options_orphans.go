package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"
)

// The values of --orphans.
const (
	collectOrphans = "collect"
	reportOrphans  = "report"
	ignoreOrphans  = "off"
)

// orphanOptions are the flags for the collection of cloud resources and Nodes without a Machine.
type orphanOptions struct {
	mode        string
	age, period time.Duration
	maxPerPass  int
}

func defaultOrphans() orphanOptions {
	return orphanOptions{mode: collectOrphans, age: 15 * time.Minute, period: 15 * time.Minute, maxPerPass: 10}
}

func (o *orphanOptions) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.mode, "orphans", o.mode, "what becomes of servers, ports, floating IPs and Nodes that have this cluster's marks and no Machine any more: collect (delete what belonged to a Machine whose deletion drover has observed, or that a person has confirmed), report (list them and change nothing) or off (do not search)")
	f.DurationVar(&o.age, "orphan-age", o.age, "how long a Machine must have been gone before what it left is deleted, and how long its Node must not have been Ready")
	f.DurationVar(&o.period, "orphan-period", o.period, "time between two searches for orphans")
	f.IntVar(&o.maxPerPass, "orphan-max-per-pass", o.maxPerPass, "how many servers, ports, floating IPs and Nodes without a Machine one look may delete")
}

func (o *orphanOptions) validate() error {
	var errs []error
	if o.mode != collectOrphans && o.mode != reportOrphans && o.mode != ignoreOrphans {
		errs = append(errs, fmt.Errorf("--orphans %q: it can be %s, %s or %s", o.mode, collectOrphans, reportOrphans, ignoreOrphans))
	}
	if o.age < 0 {
		errs = append(errs, fmt.Errorf("--orphan-age %v is negative", o.age))
	}
	if o.period <= 0 {
		errs = append(errs, fmt.Errorf("--orphan-period %v is not positive", o.period))
	}
	if o.maxPerPass < 1 {
		errs = append(errs, fmt.Errorf("--orphan-max-per-pass %d is less than 1", o.maxPerPass))
	}
	return errors.Join(errs...)
}
