package drain

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// cordonedAt returns a node whose taint records that its drain had lasted for the given time at noon.
func cordonedAt(lasted string) *corev1.Node {
	taint := deleting
	taint.Value, taint.TimeAdded = lasted, &metav1.Time{Time: noon}
	return &corev1.Node{Spec: corev1.NodeSpec{Taints: []corev1.Taint{taint}}}
}

func TestHowLongADrainHasLasted(t *testing.T) {
	plain := deleting
	for name, tt := range map[string]struct {
		node *corev1.Node
		at   time.Duration
		want time.Duration
	}{
		"no time before the node is cordoned (F-138)":                                                {&corev1.Node{}, time.Hour, 0},
		"no time when the taint has no time, because an earlier version of drover has set it":        {&corev1.Node{Spec: corev1.NodeSpec{Taints: []corev1.Taint{plain}}}, time.Hour, 0},
		"the time since the cordon (F-138)":                                                          {cordonedAt(""), 3 * time.Minute, 3 * time.Minute},
		"the recorded time and the time since the record (F-138, MCM-58)":                            {cordonedAt("1h30m0s"), time.Minute, 91 * time.Minute},
		"at most five minutes of a time in which drover could not act (F-138)":                       {cordonedAt("1h0m0s"), 24 * time.Hour, 65 * time.Minute},
		"no time that a clock which was ahead has recorded for the future":                           {cordonedAt("1h0m0s"), -24 * time.Hour, time.Hour},
		"the time since the record when somebody has given the taint a value that is not a duration": {cordonedAt("soon"), time.Minute, time.Minute},
	} {
		t.Run("the drain has lasted for "+name, func(t *testing.T) {
			if got := Lasted(tt.node, noon.Add(tt.at)); got != tt.want {
				t.Errorf("Lasted() = %v, want %v", got, tt.want)
			}
		})
	}
}

func TestTheTimeOfADrainIsRecordedOnItsNode(t *testing.T) {
	c := fake.NewClientBuilder().WithObjects(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}).Build()
	writes, now := 0, noon
	cordon := func() *corev1.Node {
		t.Helper()
		n := &corev1.Node{}
		if err := c.Get(t.Context(), client.ObjectKey{Name: "n"}, n); err != nil {
			t.Fatal(err)
		}
		got, err := Cordon(t.Context(), c, n, now)
		if err != nil {
			t.Fatal(err)
		}
		if got.ResourceVersion != n.ResourceVersion {
			writes++
		}
		return got
	}
	for now = noon; now.Before(noon.Add(2 * time.Hour)); now = now.Add(30 * time.Second) {
		cordon()
	}
	if got := Lasted(cordon(), now); got != 2*time.Hour || writes > 31 {
		t.Errorf("a drain with a round every 30 s for two hours has lasted for %v, with %d writes of the Node (F-138)", got, writes)
	}
	before := writes
	now = now.Add(100 * time.Hour)
	if got := Lasted(cordon(), now); got != 2*time.Hour+mostAway || writes != before+1 {
		t.Errorf("after an absence of 100 hours it has lasted for %v, with %d more writes (F-138)", got, writes-before)
	}
	now = now.Add(-time.Hour) // the clock of the next leader is right again
	cordon()
	now = now.Add(time.Minute)
	if got := Lasted(cordon(), now); got != 2*time.Hour+mostAway+time.Minute {
		t.Errorf("a minute after a leader with a wrong clock it has lasted for %v", got)
	}
}
