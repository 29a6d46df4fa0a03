package backoff

import (
	"math/rand/v2"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

func TestFailedJoinsOfNodesLimitAGroupToOneServerAtATime(t *testing.T) {
	const ok, failed = true, false
	for _, tt := range []struct {
		name   string
		before string
		ok     bool
		nodes  int
		after  string
		fail   bool
	}{
		{"a group without failed joins is not limited, and its successful joins are not recorded", "", ok, 5, "", false},
		{"a group without Nodes is limited after its first failed join (CAPI-26)", "", failed, 0, "f", true},
		{"existing Nodes count as successful joins, so one failed join does not limit the group (CAPI-26)", "", failed, 3, "jjjf", false},
		{"a group is limited when two of three joins failed (CAPI-26)", "jf", failed, 0, "jff", true},
		{"a group stays limited after one failed and one successful join (CAPI-26)", "f", ok, 0, "fj", true},
		{"a group is no longer limited after one failed and two successful joins (CAPI-26)", "fj", ok, 0, "fjj", false},
		{"a failed join is forgotten after ten successful joins", "fjjjjjjjjj", ok, 0, "", false},
		{"one failed join does not limit a group of 500 Nodes, and at most ten joins are recorded", "", failed, 500, "jjjjjjjjjf", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			after := withJoin(outcomesIn(tt.before, nil), tt.ok, tt.nodes)
			if got := lettersOf(after); got != tt.after {
				t.Errorf("got %q, want %q", got, tt.after)
			}
			if got := joinsFail(after); got != tt.fail {
				t.Errorf("joinsFail() = %v, want %v", got, tt.fail)
			}
		})
	}
}

// oldWithJoin does what withJoin did in the release before status.joinOutcomes existed.
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

// oldJoinsFail does what joinsFail did in the release before status.joinOutcomes existed.
func oldJoinsFail(recent string) bool {
	failed := 0
	for _, c := range recent {
		if string(c) == "f" {
			failed++
		}
	}
	return failed > 0 && 2*failed >= len(recent)
}

// join is the outcome of one join, and the number of Nodes that the group has at that time.
type join struct {
	ok    bool
	nodes int
}

// byOldRelease records the join as the previous release of drover does, whose write of the status removes
// status.joinOutcomes (see TestWritesOfThePreviousAndThisReleaseToTheSameGroupStatus).
func (j join) byOldRelease(d *v1alpha1.MachineDeployment) {
	if recent := oldWithJoin(d.Status.RecentJoins, j.ok, j.nodes); recent != d.Status.RecentJoins {
		d.Status.RecentJoins, d.Status.JoinOutcomes = recent, nil
	}
}

// byThisRelease records the join as this release of drover does.
func (j join) byThisRelease(d *v1alpha1.MachineDeployment) {
	s := NewGroups(func(types.NamespacedName) {})
	if s.Joined(d, "m", j.ok, j.nodes) {
		status, _ := s.Status(d)
		d.Status.JoinOutcomes, d.Status.RecentJoins = status.JoinOutcomes, status.RecentJoins
	}
}

func TestNoRecordedJoinInTheGroupStatusIsLostWhenTheOldAndTheNewReleaseLeadInTurn(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		d := &v1alpha1.MachineDeployment{}
		want := "" // the letters that drover's previous version would have written if it had recorded every join
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

func TestTheOutcomesOfJoinsAreReadFromOneOfTwoStatusFields(t *testing.T) {
	typed := []v1alpha1.JoinOutcome{v1alpha1.JoinSucceeded, v1alpha1.JoinFailed}
	for _, tt := range []struct{ name, letters, want string }{
		{"the new field joinOutcomes is read when the old field recentJoins is empty, because later releases of drover no longer write the old one", "", "jf"},
		{"the old field recentJoins is read when the two differ, because an older release writes only that field", "ff", "ff"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := lettersOf(outcomesIn(tt.letters, typed)); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
