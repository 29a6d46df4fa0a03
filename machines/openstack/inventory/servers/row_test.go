package servers

import "testing"

func TestTheBootVolumeIsTheOneThatEndsWithTheServer(t *testing.T) {
	r := &Row{Volumes: []Volume{{ID: "data"}, {ID: "boot", EndsWithServer: true}}}
	if got := r.endingVolumes(); len(got) != 1 || got[0] != "boot" {
		t.Fatalf("got %v: a volume that Kubernetes attached is never drover's", got)
	}
}
