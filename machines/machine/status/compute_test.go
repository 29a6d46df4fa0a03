package status

import (
	"testing"

	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/machine/lifecycle"
)

func TestWhenTheMessageOfConditionDeletingShowsTheErrorOfAFailedListOfServers(t *testing.T) {
	for step, tc := range map[lifecycle.Step]struct{ name, want string }{
		lifecycle.DrainNode:    {"the error is not shown while drover drains the Node, because a drain does not wait for the cloud", "waiting"},
		lifecycle.AwaitDetach:  {"the error is not shown while drover waits until volumes are detached, because that needs no list of servers", "waiting"},
		lifecycle.DeleteServer: {"the error is shown while drover deletes the server", "waiting; listing servers: refused"},
		lifecycle.Wait:         {"the error is shown while the deletion waits for anything other than drain and volumes", "waiting; listing servers: refused"},
	} {
		t.Run(tc.name+" (F-28, F-46)", func(t *testing.T) {
			in := &Input{
				Facts:  &lifecycle.Facts{Observed: &lifecycle.Observed{Cloud: cloud.Facts{Outdated: "listing servers: refused"}}, Policy: &lifecycle.Policy{}, Progress: &lifecycle.Progress{}},
				Result: Result{Last: lifecycle.Decision{Step: step}, Detail: "waiting"},
			}
			if got := in.deletionMessage(); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
