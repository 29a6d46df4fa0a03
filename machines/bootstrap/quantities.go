package bootstrap

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// reservable lists the resources that a kubelet can reserve. signals lists the signals of a kubelet's eviction
// thresholds.
var (
	reservable = []string{"cpu", "memory", "ephemeral-storage", "pid"}
	signals    = []string{
		"memory.available", "nodefs.available", "nodefs.inodesFree", "imagefs.available", "imagefs.inodesFree",
		"containerfs.available", "containerfs.inodesFree", "pid.available", "allocatableMemory.available",
	}
)

// number parses a whole number within bounds.
func number(value string, least, most int32) (*int32, error) {
	n, err := strconv.ParseInt(value, 10, 32)
	out := int32(n)
	if err != nil || out < least || out > most {
		return nil, fmt.Errorf("%q is not a whole number from %d to %d", value, least, most)
	}
	return &out, nil
}

// duration parses a time span such as 2m, which must not be negative.
func duration(value string) (metav1.Duration, error) {
	d, err := time.ParseDuration(value)
	if err != nil || d < 0 {
		return metav1.Duration{}, fmt.Errorf("%q is not a time span such as 2m or 1h30m", value)
	}
	return metav1.Duration{Duration: d}, nil
}

// positive checks that a quantity is above zero.
func positive(value string) error {
	q, err := resource.ParseQuantity(value)
	if err != nil || q.Sign() <= 0 {
		return fmt.Errorf("%q is not a quantity such as 200m or 1Gi", value)
	}
	return nil
}

// pairs parses a list of key=value or key<value, separated by commas, as in the kubelet's flags. It skips empty entries. check returns why the
// value of a key is invalid.
func pairs(value string, known []string, check func(name, amount string) error) (map[string]string, error) {
	out := map[string]string{}
	for _, p := range strings.Split(value, ",") {
		if strings.TrimSpace(p) == "" {
			continue
		}
		i := strings.IndexAny(p, "=<")
		if i <= 0 {
			return nil, fmt.Errorf("%q is not of the form name=value", p)
		}
		name, amount := strings.TrimSpace(p[:i]), strings.TrimSpace(p[i+1:])
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("%q is not one of %s", name, strings.Join(known, ", "))
		}
		if err := check(name, amount); err != nil {
			return nil, err
		}
		out[name] = amount
	}
	return out, nil
}

// checkReserved checks the reserved quantity of a resource.
func checkReserved(name, amount string) error {
	if q, err := resource.ParseQuantity(amount); err != nil || q.Sign() < 0 {
		return fmt.Errorf("%s=%s is not a quantity such as 200m or 1Gi", name, amount)
	}
	return nil
}

// checkThreshold checks the threshold of a signal: a quantity, or a percentage.
func checkThreshold(name, amount string) error {
	if percent, is := strings.CutSuffix(amount, "%"); is {
		share, err := strconv.ParseFloat(percent, 64)
		if err != nil || math.IsNaN(share) || share < 0 || share >= 100 {
			return fmt.Errorf("%s<%s is not a percentage from 0%% to below 100%%", name, amount)
		}
		return nil
	}
	if q, err := resource.ParseQuantity(amount); err != nil || q.Sign() < 0 {
		return fmt.Errorf("%s<%s is neither a quantity such as 100Mi nor a percentage", name, amount)
	}
	return nil
}
