package chaos_test

import (
	"testing"

	"github.com/drover-project/drover/test/chaos"
)

func TestGroupsBackOffDuringShortages(t *testing.T) {
	for name, scenario := range map[string]chaos.Scenario{
		"a Machine uses an image within a minute when the image appears 20 s after the first look-up (F-49)": chaos.LateImage(),
		"a group backs off from its second failed server on (F-50)":                                          chaos.ServersFail(),
		"a set without a deployment replaces the servers that never join, one at a time (F-52)":              chaos.NobodyJoins(),
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(3) {
				if _, err := execute(t, chaos.Run{Seed: seed, Scenario: scenario}); err != nil {
					t.Errorf("seed %d: %v", seed, err)
				}
			}
		})
	}
}
