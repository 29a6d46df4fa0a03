package lifecycle

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/drover-project/drover/machines/cloud"
)

func TestPredictionOfTheNextChangeToAMachinesServerOrNode(t *testing.T) {
	for name, tt := range map[string]struct {
		from   func() Facts
		change func(*Facts)
		want   Decision
	}{
		"predicts no change for a Machine that machine-controller created and that has a Node (CAPI-54)": {healthy, func(f *Facts) {
			f.Named, f.Joined, f.Synced, f.Placed = false, false, false, false
		}, Decision{Rest, ReasonJoined}},
		"predicts a wait for the Node when the server has no Node yet (CAPI-54)": {func() Facts { return booting(cloud.ServerActive) }, func(f *Facts) {
			f.Named, f.Finalizers = false, false
		}, Decision{AwaitNode, ReasonWaitingForNode}},
		"predicts that drover gives up the server when its Node has not registered in time (MC-57)": {func() Facts { return booting(cloud.ServerActive) }, func(f *Facts) {
			f.Named, f.Late = false, true
		}, Decision{GiveUp, ReasonJoinTimeout}},
		"predicts the creation of a server when there is none (CAPI-54)":                                                {fresh, func(f *Facts) { f.Placed = false }, Decision{MakeUserData, ReasonCreating}},
		"predicts the drain of the Node when the Machine is being deleted (CAPI-37)":                                    {going, func(*Facts) {}, Decision{DrainNode, ReasonDraining}},
		"predicts no change while the server in the provider ID belongs to another Machine, because drover waits (F-1)": {healthy, func(f *Facts) { f.Cloud.Foreign = "another's" }, Decision{Wait, ReasonForeign}},
		"predicts no change when the Node has just registered (CAPI-54)":                                                {func() Facts { return booting(cloud.ServerActive) }, func(f *Facts) { f.Node = &corev1.Node{} }, Decision{Rest, ReasonJoined}},
	} {
		t.Run(name, func(t *testing.T) {
			f := tt.from()
			tt.change(&f)
			if got := Foresee(&f); got != tt.want {
				t.Errorf("the last step is %v, want %v", got, tt.want)
			}
		})
	}
}
