package lifecycle

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/drover-project/drover/machines/cloud"
)

func TestAForecastEndsAtTheFirstChange(t *testing.T) {
	for name, tt := range map[string]struct {
		from   func() Facts
		change func(*Facts)
		want   Decision
	}{
		"foresees that a Machine of machine-controller with a Node needs no change (CAPI-54)": {healthy, func(f *Facts) {
			f.Named, f.Joined, f.Synced, f.Placed = false, false, false, false
		}, Decision{Rest, ReasonJoined}},
		"foresees a wait for the Node of a server without a Node (CAPI-54)": {func() Facts { return booting(cloud.ServerActive) }, func(f *Facts) {
			f.Named, f.Finalizers = false, false
		}, Decision{AwaitNode, ReasonWaitingForNode}},
		"foresees that a server whose Node is late is given up (MC-57)": {func() Facts { return booting(cloud.ServerActive) }, func(f *Facts) {
			f.Named, f.Late = false, true
		}, Decision{GiveUp, ReasonJoinTimeout}},
		"foresees the creation of a missing server (CAPI-54)":                  {fresh, func(f *Facts) { f.Placed = false }, Decision{MakeUserData, ReasonCreating}},
		"foresees that a deletion begins with a drain (CAPI-37)":               {going, func(*Facts) {}, Decision{DrainNode, ReasonDraining}},
		"foresees a wait when the server belongs to another Machine (F-1)":     {healthy, func(f *Facts) { f.Cloud.Foreign = "another's" }, Decision{Wait, ReasonForeign}},
		"foresees that nothing is changed after the Node has joined (CAPI-54)": {func() Facts { return booting(cloud.ServerActive) }, func(f *Facts) { f.Node = &corev1.Node{} }, Decision{Rest, ReasonJoined}},
	} {
		t.Run(name, func(t *testing.T) {
			f := tt.from()
			tt.change(&f)
			steps := Foresee(&f)
			if got := steps[len(steps)-1]; got != tt.want {
				t.Errorf("the last step is %v, want %v; the steps: %v", got, tt.want, steps)
			}
		})
	}
}
