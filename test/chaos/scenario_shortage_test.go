package chaos_test

import (
	"testing"

	"github.com/drover-project/drover/test/chaos"
)

func TestWhatDroverDoesAboutMissingImagesAndFailingServers(t *testing.T) {
	for name, scenario := range map[string]chaos.Scenario{
		"a Machine whose image is uploaded 20 s after the first look-up gets a server within a minute (F-49)": chaos.LateImage(),
		"a group backs off after its second server has gone to ERROR for an unknown reason (F-50)":            chaos.ServersFail(),
		"a bare set replaces the servers that never join the cluster, one at a time (F-52)":                   chaos.NobodyJoins(),
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
