package orphans

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/drover-project/drover/machines/safety/orphans/verdict"
)

func TestAnAcceptedDeletionOfAnOrphanIsCountedOnce(t *testing.T) {
	for name, tc := range map[string]struct {
		observed bool
		want     float64
	}{
		"the metric counts the deletion of an orphan only once when the cloud accepts the deletion twice (CAPI-59)": {false, 1},
		"the metric counts no deletion in observe mode (CAPI-59)":                                                   {true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			c, _ := speaker(t)
			c.Observed, c.memory.Asked = tc.observed, map[string]time.Time{}
			for range 2 {
				c.accepted(&verdict.Orphan{Kind: "server", ID: "a"})
			}
			if got := testutil.ToFloat64(c.metrics.collected.WithLabelValues("server")); got != tc.want {
				t.Errorf("the metric is %v", got)
			}
		})
	}
}
