package verdict

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

func TestTheHealthControllerCountsMachinesThatVanishWithoutADeletionAsMissingForAnHour(t *testing.T) {
	s := newScene()
	s.group("a", 5)
	var k Known
	look := func(after time.Duration) int { return k.Missing(noon.Add(after), s.Machines) }
	check(t, "in the first snapshot", look(0), 0)
	s.change(func(m *Machine) { m.DeletionTimestamp = ptr.To(metav1.NewTime(noon)) }, "a-0")
	s.change(func(m *Machine) { m.Status.NodeRef, m.Status.Phase = nil, ptr.To(v1alpha1.PhasePending) }, "a-1")
	check(t, "while one Machine is being deleted", look(time.Minute), 0)
	all := slices.Clone(s.Machines)
	s.remove("a-0", "a-1")
	check(t, "when a deleted Machine and one that had not started are gone", look(2*time.Minute), 0)
	s.remove("a-2", "a-3")
	check(t, "when two started Machines are missing", look(3*time.Minute), 2)
	check(t, "an hour later", look(time.Hour+3*time.Minute), 2)
	check(t, "more than an hour later", look(time.Hour+4*time.Minute), 0)
	s.Machines = all
	check(t, "when they are listed again", look(2*time.Hour), 0)
}
