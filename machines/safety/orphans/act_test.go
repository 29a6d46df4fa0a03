package orphans

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/drover-project/drover/machines/safety/orphans/verdict"
)

func TestAnAcceptedDeletionOfAnOrphanIsCountedOnce(t *testing.T) {
	for observed, want := range map[bool]float64{false: 1, true: 0} {
		t.Run("the metric counts "+map[bool]string{false: "only once a deletion that is accepted twice", true: "no deletion with --observe"}[observed]+" (CAPI-59)", func(t *testing.T) {
			c, _ := speaker(t)
			c.Observed, c.memory.Asked = observed, map[string]time.Time{}
			for range 2 {
				c.accepted(&verdict.Orphan{Kind: "server", ID: "a"})
			}
			if got := testutil.ToFloat64(c.metrics.collected.WithLabelValues("server")); got != want {
				t.Errorf("the metric is %v", got)
			}
		})
	}
}
