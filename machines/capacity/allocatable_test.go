package capacity

import (
	"testing"
)

func TestTheShareOfMemoryForTheKernelCanBeSet(t *testing.T) {
	ten := rules
	ten.KernelMemory = 10
	got, err := ten.template(ofDeployment(deployment()), shape(), nil)
	// 4096 MiB - 409.6 - 300 - 500 - 100.
	if err != nil || got.Allocatable.Memory().Value() != 2921752166 {
		t.Errorf("%s of memory, error %v", got.Allocatable.Memory(), err)
	}
}
