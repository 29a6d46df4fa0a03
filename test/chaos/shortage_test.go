package chaos_test

import (
	"testing"

	"github.com/drover-project/drover/test/chaos"
)

func TestShortagesInVirtualTime(t *testing.T) {
	for name, scenario := range map[string]chaos.Scenario{
		"an image that appears 20 s after it was missed is used within a minute (F-49)":               chaos.LateImage(),
		"servers that fail one after the other hold the group back from the second failure on (F-50)": chaos.ServersFail(),
		"servers of a bare set that never join are replaced one at a time (F-52)":                     chaos.NobodyJoins(),
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(3) {
				if _, err := play(t, chaos.Run{Seed: seed, Scenario: scenario}); err != nil {
					t.Errorf("seed %d: %v", seed, err)
				}
			}
		})
	}
}
