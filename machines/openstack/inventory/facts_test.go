package inventory

import "testing"

func TestTheBootVolumeIsTheOneThatEndsWithTheServer(t *testing.T) {
	r := &row{Volumes: []attachedVolume{{ID: "data"}, {ID: "boot", EndsWithServer: true}}}
	if got := volumesOf(r); len(got) != 1 || got[0] != "boot" {
		t.Fatalf("got %v: a volume that Kubernetes attached is never drover's", got)
	}
}
