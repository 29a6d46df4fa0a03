package backoff

import (
	"math/rand/v2"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

func TestJoins(t *testing.T) {
	const ok, failed = true, false
	for _, tt := range []struct {
		name   string
		before string
		ok     bool
		nodes  int
		after  string
		fail   bool
	}{
		{"a healthy group remembers nothing", "", ok, 5, "", false},
		{"the first failure of a group without nodes slows it down (CAPI-26)", "", failed, 0, "f", true},
		{"nodes that exist count as joins (CAPI-26)", "", failed, 3, "jjjf", false},
		{"half is enough (CAPI-26)", "jf", failed, 0, "jff", true},
		{"a probe that joins is not enough after one failure (CAPI-26)", "f", ok, 0, "fj", true},
		{"two joins are (CAPI-26)", "fj", ok, 0, "fjj", false},
		{"ten outcomes are remembered", "fjjjjjjjjj", ok, 0, "", false},
		{"a large group does not remember more", "", failed, 500, "jjjjjjjjjf", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			after := withJoin(outcomesIn(tt.before, nil), tt.ok, tt.nodes)
			if got := lettersOf(after); got != tt.after {
				t.Errorf("got %q, want %q", got, tt.after)
			}
			if got := joinsFail(after); got != tt.fail {
				t.Errorf("joins fail: got %v, want %v", got, tt.fail)
			}
		})
	}
}

// oldWithJoin is the function by which the release before status.joinOutcomes added an outcome to status.recentJoins.
func oldWithJoin(recent string, well bool, nodes int) string {
	outcome := "f"
	if well {
		outcome = "j"
	}
	switch {
	case well && recent == "":
		return ""
	case recent == "":
		for range min(nodes, 10-1) {
			recent += "j"
		}
	}
	recent += outcome
	recent = recent[max(0, len(recent)-10):]
	for _, c := range recent {
		if string(c) == "f" {
			return recent
		}
	}
	return ""
}

// oldJoinsFail is the function by which that release read them.
func oldJoinsFail(recent string) bool {
	failed := 0
	for _, c := range recent {
		if string(c) == "f" {
			failed++
		}
	}
	return failed > 0 && 2*failed >= len(recent)
}

// join is one outcome in a group that has so many nodes.
type join struct {
	ok    bool
	nodes int
}

// byOldRelease adds the outcome as the old release does, when it has just become the leader. Its write removes the typed field
// (TestTwoReleasesOnOneControlPlane).
func (j join) byOldRelease(d *v1alpha1.MachineDeployment) {
	if recent := oldWithJoin(d.Status.RecentJoins, j.ok, j.nodes); recent != d.Status.RecentJoins {
		d.Status.RecentJoins, d.Status.JoinOutcomes = recent, nil
	}
}

// byThisRelease adds the outcome as this release does, when it has just become the leader.
func (j join) byThisRelease(d *v1alpha1.MachineDeployment) {
	s := NewGroups(func(types.NamespacedName) {})
	if s.Joined(d, "m", j.ok, j.nodes) {
		status, _ := s.Status(d)
		d.Status.JoinOutcomes, d.Status.RecentJoins = status.JoinOutcomes, status.RecentJoins
	}
}

func TestReleasesThatTakeTurnsReadEachOther(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		d := &v1alpha1.MachineDeployment{}
		want := "" // what the old release alone would have written
		for range 40 {
			j := join{random.IntN(3) > 0, random.IntN(3)}
			want = oldWithJoin(want, j.ok, j.nodes)
			if random.IntN(2) == 0 {
				j.byOldRelease(d)
			} else {
				j.byThisRelease(d)
			}
			if got := d.Status.RecentJoins; got != want {
				t.Fatalf("the old release reads %q, want %q", got, want)
			}
			read := outcomesIn(d.Status.RecentJoins, d.Status.JoinOutcomes)
			if got := lettersOf(read); got != want || joinsFail(read) != oldJoinsFail(want) {
				t.Fatalf("this release reads %q (joins fail: %v), want %q", got, joinsFail(read), want)
			}
		}
	}
}

func TestOutcomesInBothFields(t *testing.T) {
	typed := []v1alpha1.JoinOutcome{v1alpha1.JoinSucceeded, v1alpha1.JoinFailed}
	for _, tt := range []struct{ name, letters, want string }{
		{"a later release writes the typed field only", "", "jf"},
		{"the letters count where the two differ", "ff", "ff"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := lettersOf(outcomesIn(tt.letters, typed)); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
