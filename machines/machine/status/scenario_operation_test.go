package status

import (
	"testing"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/machine/lifecycle"
)

func TestTheLastOperationInAMachinesStatus(t *testing.T) {
	failure := fault.New(fault.Quota, fault.CodeQuotaExceeded, "no more cores")
	for name, tt := range map[string]struct {
		observed    lifecycle.Observed
		last        lifecycle.Decision
		failure     *fault.Error
		kind, state string
	}{
		"the operation is Create while there is no Node":                    {lifecycle.Observed{}, lifecycle.Decision{Step: lifecycle.AwaitNode}, nil, "Create", stateProcessing},
		"the operation Create has failed when the cloud refuses the server": {lifecycle.Observed{}, lifecycle.Decision{Step: lifecycle.EnsureServer}, failure, "Create", v1alpha1.OperationFailed},
		"the operation Join is successful when the Node has joined":         {lifecycle.Observed{Joined: true}, lifecycle.Decision{Step: lifecycle.Rest}, nil, "Join", stateSuccessful},
		"the operation is Drain while pods are evicted":                     {lifecycle.Observed{Deleting: true}, lifecycle.Decision{Step: lifecycle.DrainNode}, nil, "Drain", stateProcessing},
		"the operation is Delete while volumes are being detached":          {lifecycle.Observed{Deleting: true}, lifecycle.Decision{Step: lifecycle.AwaitDetach, Reason: lifecycle.ReasonDetaching}, failure, "Delete", stateProcessing},
		"the operation is Delete while the server is being deleted":         {lifecycle.Observed{Deleting: true}, lifecycle.Decision{Step: lifecycle.DeleteServer}, nil, "Delete", stateProcessing},
	} {
		t.Run(name, func(t *testing.T) {
			in := &Input{Machine: &v1alpha1.Machine{}, Facts: &lifecycle.Facts{Observed: &tt.observed}, Result: Result{Last: tt.last, Failure: tt.failure}}
			if kind, state, _ := in.operation(); kind != tt.kind || state != tt.state {
				t.Errorf("operation() = %s, %s, want %s, %s", kind, state, tt.kind, tt.state)
			}
		})
	}
}
