package machine_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestAConflictingWriteOfAMachineIsRepeatedWithIncreasingWaits(t *testing.T) {
	b := newBench(t, nil)
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "machines"}, "m", errors.New("it has changed"))
	b.failing = func(call string) error {
		if call == "PATCH *v1alpha1.Machine" {
			return conflict
		}
		return nil
	}
	var waits []time.Duration
	for range 8 {
		waits = append(waits, b.pass().RequeueAfter)
	}
	want := []time.Duration{200, 400, 800, 1600, 3200, 6400, 10000, 10000}
	for i := range want {
		want[i] *= time.Millisecond
	}
	if !slices.Equal(waits, want) {
		t.Errorf("the waits are %v, want %v", waits, want)
	}
	failing := b.failing
	b.failing = nil
	b.pass()
	b.cloud.change("u", func(s *fakeServer) { b.cloud.active(s) })
	b.create(b.nodeOf())
	b.failing = failing
	if wait := b.pass().RequeueAfter; wait != want[0] {
		t.Errorf("after a successful write the wait is %v, want %v", wait, want[0])
	}
}
