package servers

import (
	"testing"

	"github.com/drover-project/drover/machines/cloud"
)

func TestOnlyTheBootVolumeIsDeletedWithTheServer(t *testing.T) {
	r := &Row{Volumes: []Volume{{ID: "data"}, {ID: "boot", EndsWithServer: true}}}
	if got := r.endingVolumes(); len(got) != 1 || got[0] != "boot" {
		t.Fatalf("got %v: a volume that Kubernetes attached is never drover's", got)
	}
}

func TestStateFromStatusTaskAndPower(t *testing.T) {
	for name, tt := range map[string]struct {
		status, task string
		power        int
		state        cloud.ServerState
		busy         string
	}{
		"a server that is shut down is Stopped":                                       {"SHUTOFF", "", 4, cloud.ServerStopped, ""},
		"a server in SHUTOFF whose power was last on is Other":                        {"SHUTOFF", "", 1, cloud.ServerOther, ""},
		"a server in SHUTOFF whose power is unknown is Other":                         {"SHUTOFF", "", 0, cloud.ServerOther, ""},
		"a server that is starting is Starting":                                       {"SHUTOFF", "powering-on", 4, cloud.ServerStarting, ""},
		"a server in SHUTOFF with a task that drover does not know is Other and busy": {"SHUTOFF", "image_uploading", 4, cloud.ServerOther, "image_uploading"},
		"a server that is being deleted is Deleting":                                  {"SHUTOFF", "deleting", 4, cloud.ServerDeleting, ""},
		"a running server is Active":                                                  {"ACTIVE", "", 1, cloud.ServerActive, ""},
		"a server that is shutting down is Active and busy":                           {"ACTIVE", "powering-off", 1, cloud.ServerActive, "powering-off"},
		"a server that is being built is not busy":                                    {"BUILD", "spawning", 0, cloud.ServerBuilding, ""},
		"a server in ERROR is Error":                                                  {"ERROR", "", 1, cloud.ServerError, ""},
		"a paused server is Other":                                                    {"PAUSED", "", 3, cloud.ServerOther, ""},
		"a suspended server is Other":                                                 {"SUSPENDED", "", 4, cloud.ServerOther, ""},
		"a shelved server is Other":                                                   {"SHELVED_OFFLOADED", "", 4, cloud.ServerOther, ""},
		"a server whose cell does not answer is Other":                                {"UNKNOWN", "", 0, cloud.ServerOther, ""},
		"a server that is being resized is busy with its status":                      {"RESIZE", "resize_prep", 1, cloud.ServerOther, "RESIZE"},
		"a server whose resize waits for a confirmation is busy with its status":      {"VERIFY_RESIZE", "", 1, cloud.ServerOther, "VERIFY_RESIZE"},
		"a rescued server is busy with its status":                                    {"RESCUE", "", 1, cloud.ServerOther, "RESCUE"},
		"a server that is migrating is busy":                                          {"MIGRATING", "migrating", 1, cloud.ServerOther, "MIGRATING"},
		"a server that is being rebuilt is busy":                                      {"REBUILD", "rebuild_spawning", 1, cloud.ServerOther, "REBUILD"},
		"a server that reboots is busy":                                               {"HARD_REBOOT", "rebooting_hard", 1, cloud.ServerOther, "HARD_REBOOT"},
		"a paused server that is being unpaused is busy with its task":                {"PAUSED", "unpausing", 3, cloud.ServerOther, "unpausing"},
	} {
		t.Run(name, func(t *testing.T) {
			r := &Row{Status: tt.status, TaskState: tt.task, PowerState: tt.power}
			if r.State() != tt.state || r.Busy() != tt.busy {
				t.Errorf("got %s and %q, want %s and %q", r.State(), r.Busy(), tt.state, tt.busy)
			}
		})
	}
}
