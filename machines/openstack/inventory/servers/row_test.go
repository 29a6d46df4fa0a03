package servers

import (
	"testing"

	"github.com/drover-project/drover/machines/cloud"
)

func TestTheBootVolumeIsTheOneThatEndsWithTheServer(t *testing.T) {
	r := &Row{Volumes: []Volume{{ID: "data"}, {ID: "boot", EndsWithServer: true}}}
	if got := r.endingVolumes(); len(got) != 1 || got[0] != "boot" {
		t.Fatalf("got %v: a volume that Kubernetes attached is never drover's", got)
	}
}

func TestWhatStatusTaskAndPowerAmountTo(t *testing.T) {
	for name, tt := range map[string]struct {
		status, task string
		power        int
		state        cloud.ServerState
		busy         string
	}{
		"a server that is shut down":                                     {"SHUTOFF", "", 4, cloud.ServerStopped, ""},
		"one whose power was last seen on may still run":                 {"SHUTOFF", "", 1, cloud.ServerOther, ""},
		"one of which no power was ever seen, too":                       {"SHUTOFF", "", 0, cloud.ServerOther, ""},
		"one that is being started":                                      {"SHUTOFF", "powering-on", 4, cloud.ServerStarting, ""},
		"one with which somebody does something else":                    {"SHUTOFF", "image_uploading", 4, cloud.ServerOther, "image_uploading"},
		"one that goes, whatever else":                                   {"SHUTOFF", "deleting", 4, cloud.ServerDeleting, ""},
		"one that runs":                                                  {"ACTIVE", "", 1, cloud.ServerActive, ""},
		"one that is being shut down":                                    {"ACTIVE", "powering-off", 1, cloud.ServerActive, "powering-off"},
		"one that is being built is not somebody's":                      {"BUILD", "spawning", 0, cloud.ServerBuilding, ""},
		"one in ERROR":                                                   {"ERROR", "", 1, cloud.ServerError, ""},
		"one that is paused":                                             {"PAUSED", "", 3, cloud.ServerOther, ""},
		"one that is suspended":                                          {"SUSPENDED", "", 4, cloud.ServerOther, ""},
		"one that is shelved":                                            {"SHELVED_OFFLOADED", "", 4, cloud.ServerOther, ""},
		"one whose cell does not answer":                                 {"UNKNOWN", "", 0, cloud.ServerOther, ""},
		"one that is being resized has the status as its word":           {"RESIZE", "resize_prep", 1, cloud.ServerOther, "RESIZE"},
		"one whose resize waits for a confirmation has no task":          {"VERIFY_RESIZE", "", 1, cloud.ServerOther, "VERIFY_RESIZE"},
		"one that is rescued, too":                                       {"RESCUE", "", 1, cloud.ServerOther, "RESCUE"},
		"one that is migrated":                                           {"MIGRATING", "migrating", 1, cloud.ServerOther, "MIGRATING"},
		"one that is rebuilt":                                            {"REBUILD", "rebuild_spawning", 1, cloud.ServerOther, "REBUILD"},
		"one that reboots":                                               {"HARD_REBOOT", "rebooting_hard", 1, cloud.ServerOther, "HARD_REBOOT"},
		"one that is paused and being unpaused has its task as the word": {"PAUSED", "unpausing", 3, cloud.ServerOther, "unpausing"},
	} {
		t.Run(name, func(t *testing.T) {
			r := &Row{Status: tt.status, TaskState: tt.task, PowerState: tt.power}
			if r.State() != tt.state || r.Busy() != tt.busy {
				t.Errorf("got %s and %q, want %s and %q", r.State(), r.Busy(), tt.state, tt.busy)
			}
		})
	}
}
