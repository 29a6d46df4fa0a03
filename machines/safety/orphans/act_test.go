package orphans

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/safety/orphans/verdict"
)

// refusing is a cloud that refuses to delete the resources whose ID begins with "bad".
type refusing struct {
	cloud.Cloud
	asked []string
}

func (r *refusing) Collect(_ context.Context, o cloud.Resource) error {
	r.asked = append(r.asked, o.ID)
	if strings.HasPrefix(o.ID, "bad") {
		return errors.New("refused")
	}
	return nil
}

func TestHowManyOrphansOneRoundDeletes(t *testing.T) {
	due := func(ids ...string) *verdict.Verdict {
		v := &verdict.Verdict{Judged: true}
		for _, id := range ids {
			v.Orphans = append(v.Orphans, verdict.Orphan{Resource: cloud.Resource{Kind: "port", ID: id}, Delete: true})
		}
		return v
	}
	for name, tc := range map[string]struct {
		ids      []string
		observed bool
		want     string
		counted  float64
	}{
		"a round deletes as many as the limit allows (MCM-81)":                          {[]string{"a", "b", "c"}, false, "[a b]", 2},
		"a deletion that the cloud refuses does not count and delays no other (MCM-81)": {[]string{"bad 1", "bad 2", "a", "b", "c"}, false, "[bad 1 bad 2 a b]", 2},
		"the metric counts no deletion in observe mode (CAPI-59)":                       {[]string{"a"}, true, "[a]", 0},
	} {
		t.Run(name, func(t *testing.T) {
			c, _ := speaker(t)
			asked := &refusing{}
			c.Cloud, c.MaxPerPass, c.Observed = asked, 2, tc.observed
			c.act(t.Context(), due(tc.ids...))
			if got := fmt.Sprint(asked.asked); got != tc.want {
				t.Errorf("asked for %s", got)
			}
			if got := testutil.ToFloat64(c.metrics.collected.WithLabelValues("port")); got != tc.counted {
				t.Errorf("the metric is %v", got)
			}
		})
	}
}
