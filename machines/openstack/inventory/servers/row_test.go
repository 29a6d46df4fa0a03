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

func TestStateAndOperationOfAServer(t *testing.T) {
	for name, tt := range map[string]struct {
		status, task string
		power        int
		state        cloud.ServerState
		busy         string
	}{
		"a server that is shut down has the state Stopped":                                                        {"SHUTOFF", "", 4, cloud.ServerStopped, ""},
		"a server in SHUTOFF whose power state is on has the state Other":                                         {"SHUTOFF", "", 1, cloud.ServerOther, ""},
		"a server in SHUTOFF whose power state is unknown has the state Other":                                    {"SHUTOFF", "", 0, cloud.ServerOther, ""},
		"a server whose task is powering-on has the state Starting":                                               {"SHUTOFF", "powering-on", 4, cloud.ServerStarting, ""},
		"a server in SHUTOFF whose task is image_uploading has the state Other and the operation image_uploading": {"SHUTOFF", "image_uploading", 4, cloud.ServerOther, "image_uploading"},
		"a server that is being deleted has the state Deleting":                                                   {"SHUTOFF", "deleting", 4, cloud.ServerDeleting, ""},
		"a running server has the state Active and no operation":                                                  {"ACTIVE", "", 1, cloud.ServerActive, ""},
		"a server that is shutting down has the state Active and the operation powering-off":                      {"ACTIVE", "powering-off", 1, cloud.ServerActive, "powering-off"},
		"a server that is being built has the state Building and no operation":                                    {"BUILD", "spawning", 0, cloud.ServerBuilding, ""},
		"a server in ERROR has the state Error":                                                                   {"ERROR", "", 1, cloud.ServerError, ""},
		"a paused server has the state Other":                                                                     {"PAUSED", "", 3, cloud.ServerOther, ""},
		"a suspended server has the state Other":                                                                  {"SUSPENDED", "", 4, cloud.ServerOther, ""},
		"a shelved server has the state Other":                                                                    {"SHELVED_OFFLOADED", "", 4, cloud.ServerOther, ""},
		"a server whose cell does not answer has the state Other":                                                 {"UNKNOWN", "", 0, cloud.ServerOther, ""},
		"a server that is being resized has the state Other and the operation RESIZE":                             {"RESIZE", "resize_prep", 1, cloud.ServerOther, "RESIZE"},
		"a server whose resize waits for a confirmation has the state Other and the operation VERIFY_RESIZE":      {"VERIFY_RESIZE", "", 1, cloud.ServerOther, "VERIFY_RESIZE"},
		"a rescued server has the state Other and the operation RESCUE":                                           {"RESCUE", "", 1, cloud.ServerOther, "RESCUE"},
		"a server that is migrating has the state Other and the operation MIGRATING":                              {"MIGRATING", "migrating", 1, cloud.ServerOther, "MIGRATING"},
		"a server that is being rebuilt has the state Other and the operation REBUILD":                            {"REBUILD", "rebuild_spawning", 1, cloud.ServerOther, "REBUILD"},
		"a server that reboots has the state Other and the operation HARD_REBOOT":                                 {"HARD_REBOOT", "rebooting_hard", 1, cloud.ServerOther, "HARD_REBOOT"},
		"a paused server that is being unpaused has the state Other and the operation unpausing":                  {"PAUSED", "unpausing", 3, cloud.ServerOther, "unpausing"},
	} {
		t.Run(name, func(t *testing.T) {
			r := &Row{Status: tt.status, TaskState: tt.task, PowerState: tt.power}
			if r.State() != tt.state || r.Busy() != tt.busy {
				t.Errorf("got %s and %q, want %s and %q", r.State(), r.Busy(), tt.state, tt.busy)
			}
		})
	}
}
