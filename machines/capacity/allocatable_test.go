package capacity

import (
	"testing"
)

func TestTheMemoryOfANodeTemplateIsReducedByThePercentageThatIsSetForTheKernel(t *testing.T) {
	ten := rules
	ten.KernelMemory = 10
	got, err := ten.template(ofDeployment(deployment()), shape(), nil)
	// The flavor has 4096 MiB of memory: the kernel uses 409.6 MiB, 800 MiB are reserved, and 100 MiB are the eviction
	// threshold.
	if err != nil || got.Allocatable.Memory().Value() != 2921752166 {
		t.Errorf("%s of memory, error %v", got.Allocatable.Memory(), err)
	}
}
