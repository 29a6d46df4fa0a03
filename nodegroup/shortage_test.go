package nodegroup

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/fault"
)

func TestServersThatFailOneAfterTheOther(t *testing.T) {
	for name, tc := range map[string]struct {
		failures int32
		code     string
	}{
		"one failed server is not shown: the next may work (F-50)":                {1, ""},
		"the second in a row is shown at once, on all that have no server (F-50)": {2, "Unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			p := w.pool("a", 2, 0, 5)
			p.machine("a-1")
			p.machine("a-2")
			p.deployment.Status.Backoffs = []v1alpha1.GroupBackoff{{
				Class: string(fault.Unknown), Code: string(fault.CodeUnknown), Message: "server 1 went to ERROR: disk on fire",
				Step: tc.failures, Until: metav1.NewTime(noon.Add(fault.GroupWait(fault.Unknown, fault.CodeUnknown, tc.failures))),
			}}
			for _, i := range snapshotOf(t, w).groups[p.id()].instances {
				code := ""
				if i.Error != nil {
					code = i.Error.Code
				}
				if code != tc.code || i.Error != nil && i.Error.OutOfResources {
					t.Errorf("%s shows %+v, want %q", i.ID, i.Error, tc.code)
				}
			}
		})
	}
}
