package ownership

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

func TestAStatusIsWrittenOncePerInterval(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	start := time.Unix(1, 0)
	now, set := clocktesting.NewFakePassiveClock(start), &v1alpha1.MachineSet{}
	set.Namespace, set.Name = "ns", "set"
	s := Statuses{Writer: Writer{Client: fake.NewClientBuilder().WithScheme(scheme).Build(), FieldManager: "tester"}, Clock: now}
	for _, step := range []struct {
		name   string
		after  time.Duration
		urgent bool
		want   time.Duration
	}{
		{"the first write of an object's status is made at once (F-57)", 0, false, 0},
		{"the second write of the object's status, 4 s after the first, waits until the interval of 10 s is over (F-57)", 4 * time.Second, false, 6 * time.Second},
		{"an urgent write of the object's status does not wait", 5 * time.Second, true, 0},
		{"the second write of the object's status is made when the interval of 10 s is over (F-57)", 10 * time.Second, false, 0},
		{"the third write of the object's status, 1 s after the second, waits until another interval of 10 s is over (F-57)", 11 * time.Second, false, 9 * time.Second},
	} {
		t.Run(step.name, func(t *testing.T) {
			now.SetTime(start.Add(step.after))
			got, err := s.WriteWhenDue(t.Context(), set, &v1alpha1.MachineSetStatus{}, 10*time.Second, step.urgent)
			if got != step.want || err != nil {
				t.Errorf("WriteWhenDue() = %v, %v; want %v", got, err, step.want)
			}
		})
	}
}
