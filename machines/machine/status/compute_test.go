package status

import (
	"testing"

	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/machine/lifecycle"
)

func TestReasonForOutdatedCloudDataInTheMessageOfConditionDeleting(t *testing.T) {
	for step, want := range map[lifecycle.Step]string{
		lifecycle.DrainNode:    "waiting",
		lifecycle.AwaitDetach:  "waiting",
		lifecycle.DeleteServer: "waiting; listing servers: refused",
		lifecycle.Wait:         "waiting; listing servers: refused",
	} {
		name := "is shown in a step that needs the cloud: "
		if want == "waiting" {
			name = "is not shown in a step that does not need the cloud: "
		}
		t.Run(name+string(step)+" (F-28, F-46)", func(t *testing.T) {
			in := &Input{
				Facts:  &lifecycle.Facts{Observed: &lifecycle.Observed{Cloud: cloud.Facts{Outdated: "listing servers: refused"}}},
				Result: Result{Last: lifecycle.Decision{Step: step}, Detail: "waiting"},
			}
			if got := in.deletionMessage(); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}
