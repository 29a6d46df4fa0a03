package lifecycle

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/drover-project/drover/machines/cloud"
)

func TestForesee(t *testing.T) {
	for name, tt := range map[string]struct {
		from   func() Facts
		change func(*Facts)
		want   Decision
	}{
		"a Machine of machine-controller that has a Node comes to rest (CAPI-54)": {healthy, func(f *Facts) {
			f.Named, f.Joined, f.Synced, f.Placed = false, false, false, false
		}, Decision{Rest, ReasonJoined}},
		"one whose server has no Node waits for it (CAPI-54)": {func() Facts { return booting(cloud.ServerActive) }, func(f *Facts) {
			f.Named, f.Finalizers = false, false
		}, Decision{AwaitNode, ReasonWaitingForNode}},
		"and is given up when it is late (MC-57)": {func() Facts { return booting(cloud.ServerActive) }, func(f *Facts) {
			f.Named, f.Late = false, true
		}, Decision{GiveUp, ReasonJoinTimeout}},
		"one without a server gets one (CAPI-54)":      {fresh, func(f *Facts) { f.Placed = false }, Decision{MakeUserData, ReasonCreating}},
		"one that is being deleted goes on (CAPI-37)":  {going, func(*Facts) {}, Decision{DrainNode, ReasonDraining}},
		"one whose server is another's is left (F-1)":  {healthy, func(f *Facts) { f.Cloud.Foreign = "another's" }, Decision{Wait, ReasonForeign}},
		"a Node that has come late is taken (CAPI-54)": {func() Facts { return booting(cloud.ServerActive) }, func(f *Facts) { f.Node = &corev1.Node{} }, Decision{Rest, ReasonJoined}},
	} {
		t.Run(name, func(t *testing.T) {
			f := tt.from()
			tt.change(&f)
			steps := Foresee(&f)
			if got := steps[len(steps)-1]; got != tt.want {
				t.Errorf("it ends with %v, want %v; the steps: %v", got, tt.want, steps)
			}
		})
	}
}
