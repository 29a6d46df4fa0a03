package openstack

import (
	"encoding/json"
	"testing"

	"github.com/drover-project/drover/machines/openstack/client"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
	sim "github.com/drover-project/drover/test/openstack"
)

func uid(text string) types.UID { return types.UID(text) }

// records writes the volumes into the Machine's status as the Machine controller does.
func records(t *testing.T, m *v1alpha1.Machine, ids ...string) {
	t.Helper()
	raw, err := json.Marshal(cloud.ProviderStatus{VolumeIDs: ids})
	if err != nil {
		t.Fatal(err)
	}
	m.Status.ProviderStatus = &runtime.RawExtension{Raw: raw}
}

func TestJudgeVolume(t *testing.T) {
	attached := func(status, server string) *volume {
		v := &volume{Status: status}
		v.Attachments = append(v.Attachments, struct {
			ServerID string `json:"server_id"`
		}{server})
		return v
	}
	for name, tc := range map[string]struct {
		volume *volume
		want   volumeFate
	}{
		"left behind":   {&volume{Status: "available"}, volumeLeft},
		"left broken":   {&volume{Status: "error"}, volumeLeft},
		"being deleted": {&volume{Status: "deleting"}, volumeGoing},
		"still bound to the Machine's own server":         {attached("in-use", "own"), volumeGoing},
		"bound to somebody else's server":                 {attached("in-use", "other"), volumeForeign},
		"bound to somebody else's server, says Cinder so": {attached("available", "other"), volumeForeign},
	} {
		t.Run(name, func(t *testing.T) {
			if got := judgeVolume(tc.volume, []string{"", "own"}); got != tc.want {
				t.Fatalf("got %v", got)
			}
		})
	}
}

func TestTheBootVolumeIsTheOneThatEndsWithTheServer(t *testing.T) {
	r := &row{Volumes: []attachedVolume{{ID: "data"}, {ID: "boot", EndsWithServer: true}}}
	if got := volumesOf(r); len(got) != 1 || got[0] != "boot" {
		t.Fatalf("got %v: a volume that Kubernetes attached is never drover's", got)
	}
}

func TestTheBootVolumeIsSeenGone(t *testing.T) {
	b := newBench(t)
	m := newMachine(t, "a", seedFields().with("rootDiskSizeGB", 20))
	_, s := b.active(m)
	if len(s.VolumeIDs) != 1 {
		t.Fatalf("got %v", s.VolumeIDs)
	}
	m.Spec.ProviderID = ptr.To(s.ProviderID)
	records(t, m, s.VolumeIDs...)
	i := b.instance(m)
	if !b.observe(i).Leftovers {
		t.Error("a recorded volume is a leftover")
	}
	b.sim.ForgetCalls()
	b.remove(i)
	b.nothingLeft()
	if gets, deletes := b.calls("GET /volumes/{id}"), b.calls("DELETE /volumes/{id}"); gets != 1 || deletes != 0 {
		t.Errorf("%d GETs, %d DELETEs; Nova deletes it", gets, deletes)
	}
}

func TestAVolumeThatWasLeftBehindIsDeletedWhenTheStatusNamesIt(t *testing.T) {
	b := newBench(t)
	m := newMachine(t, "a", seedFields())
	_, s := b.active(m)
	make := func() string {
		var made struct {
			Volume struct{ ID string } `json:"volume"`
		}
		b.raw(client.Volume, "POST", "volumes", map[string]any{"volume": map[string]any{"size": 1}}, &made)
		return made.Volume.ID
	}
	own, foreign := make(), make()
	m.Spec.ProviderID = ptr.To(s.ProviderID)
	records(t, m, own, "00000000-0000-0000-0000-000000000009")
	b.remove(b.instance(m))
	if left := b.sim.Leftovers(); len(left.Volumes) != 1 || left.Volumes[0] != foreign {
		t.Errorf("left %v, want only %s, which no status names", left.Volumes, foreign)
	}
}

func TestAVolumeThatServesAnotherServerIsLeftAlone(t *testing.T) {
	b := newBench(t)
	_, other := b.active(newMachine(t, "other", seedFields().with("rootDiskSizeGB", 20)))
	m := newMachine(t, "a", seedFields())
	_, s := b.active(m)
	m.Spec.ProviderID = ptr.To(s.ProviderID)
	records(t, m, other.VolumeIDs...)
	b.remove(b.instance(m))
	if left := b.sim.Leftovers(); len(left.Volumes) != 1 || len(left.Servers) != 1 {
		t.Errorf("left %+v", left)
	}
}

func TestTheSharedServerGroupIsMadeOnce(t *testing.T) {
	for name, nova := range map[string]string{"with one policy": "2.93", "with a list of policies": "2.60"} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, func(c *sim.Config) { c.ComputeMicroversion = nova })
			spec := func() fields { return seedFields().with("serverGroupID", nil).with("serverGroup", "shared") }
			groups := map[string]bool{}
			for _, machine := range []string{"a", "b"} {
				_, s := b.active(newMachine(t, machine, spec()))
				got, _ := b.sim.Server(s.ID)
				groups[got.ServerGroup] = true
			}
			b.options.SharedServerGroup = true
			b.restart()
			_, s := b.active(newMachine(t, "c", seedFields().with("serverGroupID", nil)))
			got, _ := b.sim.Server(s.ID)
			groups[got.ServerGroup] = true
			if made := b.calls("POST /os-server-groups"); made != 1 || len(groups) != 1 || groups[""] {
				t.Errorf("%d made, servers are in %v", made, groups)
			}
			_, s = b.active(newMachine(t, "d", seedFields()))
			if got, _ := b.sim.Server(s.ID); got.ServerGroup != sim.MetaKubeServerGroup {
				t.Errorf("a group that the spec names counts: %s", got.ServerGroup)
			}
		})
	}
}

func TestMicroversionsAreSettledOncePerEndpoint(t *testing.T) {
	b := newBench(t, func(c *sim.Config) { c.ComputeMicroversion = "2.50" })
	i, _ := b.active(newMachine(t, "a", seedFields()))
	b.remove(i)
	if got := b.calls("GET /v2.1"); got != 1 {
		t.Errorf("%d version documents", got)
	}
	if err := b.bringUp(newMachine(t, "tags", seedFields().with("tags", []string{"plain"}))); err == nil {
		t.Error("a tag was lost without a word")
	}
	for _, c := range b.sim.Calls() {
		if c.Status == 406 {
			t.Errorf("%s %s was asked with a version that the cloud does not have", c.Method, c.Path)
		}
	}
}
