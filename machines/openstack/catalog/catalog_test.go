package catalog

import (
	"fmt"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

func TestSweepOfTheCatalogCache(t *testing.T) {
	t.Run("removes the expired answers of the cloud and keeps the others (F-12)", func(t *testing.T) {
		clock := clocktesting.NewFakeClock(time.Now())
		c := newCache(clock)
		for n := range 10_000 {
			if _, err := lookup(c, fmt.Sprint(n), func() (int, error) { return n, nil }); err != nil {
				t.Fatal(err)
			}
		}
		clock.Step(positiveTTL / 2)
		_, _ = lookup(c, "young", func() (int, error) { return 0, nil })
		clock.Step(positiveTTL / 2)
		if c.sweep(); len(c.entries) != 1 {
			t.Errorf("%d answers are cached, want the young one", len(c.entries))
		}
	})
}
