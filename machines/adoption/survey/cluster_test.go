package survey

import (
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/drover-project/drover/machines/handover"
)

func TestTheAdoptionReportNamesTheProgramThatHoldsTheLeaderElectionLease(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	name := types.NamespacedName{Namespace: "kube-system", Name: "machine-controller"}
	for holder, want := range map[string]string{
		"machine-controller_1":         "machine-controller runs: machine-controller_1 renewed",
		handover.Holder("default"):     "drover runs already",
		handover.Holder("drover-test"): "another drover runs, in namespace drover-test",
	} {
		lease := &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: ptr.To(metav1.NewMicroTime(now))},
		}
		o := &Options{
			Client: fake.NewClientBuilder().WithObjects(lease).Build(), Clock: clocktesting.NewFakePassiveClock(now), Lease: name, Holder: handover.Holder("default"),
		}
		found, err := o.lease(t.Context())
		if err != nil || len(found) != 1 || !strings.HasPrefix(found[0].Message, want) {
			t.Errorf("lease() with the leader %s = %+v, %v; want %q", holder, found, err, want)
		}
	}
}
