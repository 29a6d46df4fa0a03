package capacity

import (
	"testing"
)

func TestTheMemoryOfANodeTemplateIsReducedByTheConfiguredShareOfTheKernel(t *testing.T) {
	ten := rules
	ten.KernelMemory = 10
	got, err := ten.template(ofDeployment(deployment()), shape(), nil)
	// 4096 MiB of the flavor, minus 409.6 for the kernel, 800 reserved, and 100 for the eviction threshold.
	if err != nil || got.Allocatable.Memory().Value() != 2921752166 {
		t.Errorf("%s of memory, error %v", got.Allocatable.Memory(), err)
	}
}
