package nodegroup

import (
	"context"
	"errors"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/safety/reach"
	"github.com/drover-project/drover/nodegroup/model"
	"github.com/drover-project/drover/nodegroup/model/membership"
	"github.com/drover-project/drover/test/pools"
)

// refusing is an API server that cannot be reached while away is true.
type refusing struct {
	client.Reader
	away bool
}

func (r *refusing) List(context.Context, client.ObjectList, ...client.ListOption) error {
	if r.away {
		return errors.New("connection refused")
	}
	return nil
}

func TestCallsBeforeDuringAndAfterAnOutageOfTheTargetClustersAPIServer(t *testing.T) {
	w := pools.NewWorld()
	p := w.Pool("a", 2, 0, 50)
	_, n := p.Node("a-1")
	b := newBench(t, w)
	target := &refusing{}
	watch := reach.New(reach.Options{Control: listing{b.client, b}, Target: target, Clock: b.clock})
	b.groups.options.Reach, b.groups.freshness.reach = watch, watch
	b.probeOnce(t.Context())
	t.Run("an increase is accepted before the outage (MCM-80)", func(t *testing.T) {
		wantKind(t, b.groups.IncreaseSize(t.Context(), p.ID(), 1), "")
		b.catchUp()
	})
	target.away = true
	for range 6 {
		b.clock.Step(probeEvery)
		b.probeOnce(t.Context())
	}
	t.Run("Refresh and changes are refused during the outage, with an error that names the target cluster (MCM-79, MCM-80)", func(t *testing.T) {
		for call, err := range map[string]error{
			"Refresh":            b.groups.Refresh(t.Context()),
			"IncreaseSize":       b.groups.IncreaseSize(t.Context(), p.ID(), 1),
			"DecreaseTargetSize": b.groups.DecreaseTargetSize(t.Context(), p.ID(), -1),
			"DeleteNodes":        b.groups.DeleteNodes(t.Context(), p.ID(), []membership.Node{pools.Asked(n)}),
		} {
			if model.KindOf(err) != model.Unavailable || !strings.Contains(err.Error(), "the API server of the cluster with the Nodes has not answered since") {
				t.Errorf("%s answers %v", call, err)
			}
		}
		b.expect(p, 3)
	})
	t.Run("reads other than Refresh are answered during the outage (MCM-80)", func(t *testing.T) {
		if got := len(b.groups.List()); got != 1 {
			t.Errorf("%d groups are listed", got)
		}
	})
	t.Run("Refresh succeeds once the API server answers again (MCM-79)", func(t *testing.T) {
		target.away = false
		b.probeOnce(t.Context())
		wantKind(t, b.groups.Refresh(t.Context()), "")
	})
}
