package rollout

import (
	"slices"
	"testing"
)

func TestMachinesWithoutANodeAreListedInTheOrderInWhichASmallerSizeDeletesThem_CAC84_CAC85(t *testing.T) {
	listed := func(f *MachineFacts) { f.Listed = true }
	got := namesOf(Unfulfilled([]MachineFacts{
		fact("registered", 1), fact("registered-failed", 1, failed), fact("notready", 1, notReady),
		fact("server-old", 5, noNode, withServer), fact("server-new", 1, noNode, withServer),
		fact("failed-server", 3, noNode, withServer, failed),
		fact("none-old", 9, noNode), fact("none-new", 2, noNode), fact("none-failed", 4, noNode, failed),
		fact("dying", 1, noNode, dying), fact("listed", 1, noNode, listed),
	}))
	want := []string{"none-new", "none-failed", "none-old", "failed-server", "server-new", "server-old"}
	if !slices.Equal(got, want) {
		t.Errorf("Unfulfilled() = %v, want %v", got, want)
	}
}
