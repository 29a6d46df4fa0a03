package openstack

import (
	"bytes"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/openstack/client"
	sim "github.com/drover-project/drover/test/openstack"
)

// recordsVolumes sets spec.providerID to the server, and status.providerStatus to the server's record with these volumes instead of the
// server's own.
func (b *bench) recordsVolumes(m *v1alpha1.Machine, s *cloud.Server, ids ...string) {
	b.t.Helper()
	with, record := *s, recordOf(s)
	record.VolumeIDs = ids
	with.Record = &record
	b.records(m, &with)
}

// newVolume creates a volume that is not attached.
func (b *bench) newVolume() string {
	b.t.Helper()
	var made struct {
		Volume struct{ ID string } `json:"volume"`
	}
	b.raw(client.Volume, "POST", "volumes", map[string]any{"volume": map[string]any{"size": 1}}, &made)
	return made.Volume.ID
}

// shownVolume is a RoundTripper that changes lists of servers: each server without a volume gets the volume id, as a volume that Nova
// deletes with the server. The simulated cloud does not have this attachment, so it does not delete the volume.
type shownVolume struct{ id atomic.Value }

func (s *shownVolume) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := http.DefaultTransport.RoundTrip(req)
	id, _ := s.id.Load().(string)
	if err != nil || id == "" || !strings.HasSuffix(req.URL.Path, "/servers/detail") {
		return resp, err
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	body = bytes.ReplaceAll(body, []byte(`"os-extended-volumes:volumes_attached":[]`),
		[]byte(`"os-extended-volumes:volumes_attached":[{"id":"`+id+`","delete_on_termination":true}]`))
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return resp, nil
}

func TestVolumeOfADeletedServer(t *testing.T) {
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
		"counts as left behind by Nova when its status is available":                                                   {&volume{Status: "available"}, volumeLeft},
		"counts as left behind by Nova when its status is error":                                                       {&volume{Status: "error"}, volumeLeft},
		"counts as left behind by Nova when its status is error_extending, from which Cinder deletes it":               {&volume{Status: "error_extending"}, volumeLeft},
		"counts as being deleted when its status is deleting":                                                          {&volume{Status: "deleting"}, volumeGoing},
		"counts as being deleted when it is still attached to the deleted server":                                      {attached("in-use", "own"), volumeGoing},
		"counts as the volume of another server when it is attached to that server":                                    {attached("in-use", "other"), volumeEnded},
		"counts as the volume of another server when it is attached to that server, even when its status is available": {attached("available", "other"), volumeEnded},
	} {
		t.Run(name, func(t *testing.T) {
			if got := judgeVolume(tc.volume, []string{"", "own"}); got != tc.want {
				t.Fatalf("got %v, want %v", got, tc.want)
			}
		})
	}
}

func TestDroverChecksThatNovaHasDeletedTheBootVolumeOfADeletedMachine(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	m := newMachine(t, "a", seedFields().with("rootDiskSizeGB", 20))
	_, s := b.active(m)
	if len(recordOf(s).VolumeIDs) != 1 {
		t.Fatalf("got %v", recordOf(s).VolumeIDs)
	}
	b.records(m, s)
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

func TestADeletedMachineWaitsForAVolumeThatCinderDoesNotDelete(t *testing.T) {
	t.Parallel()
	waiting := func(t *testing.T, body string, deletion sim.Fault) string {
		b := newBench(t)
		m := newMachine(t, "a", seedFields().with("rootDiskSizeGB", 20))
		_, s := b.active(m)
		b.records(m, s)
		i := b.instance(m)
		id := recordOf(s).VolumeIDs[0]
		b.sim.Inject(sim.Fault{Call: "GET /volumes/{id}", Status: http.StatusOK, Body: strings.ReplaceAll(body, "SERVER", s.ID)})
		if deletion.Call != "" {
			b.sim.Inject(deletion)
		}
		said := ""
		b.eventually("the release waits for the volume", func() bool {
			if b.observe(i).Server != nil {
				return i.DeleteServer(b.ctx) != nil
			}
			released, err := i.Release(b.ctx)
			if said = released.Waiting; err != nil {
				said = err.Error()
			}
			if released.Done {
				t.Fatal("the volume counts as released")
			}
			return strings.Contains(said, "olume")
		})
		return strings.ReplaceAll(strings.ReplaceAll(said, id, "VOLUME"), s.ID, "SERVER")
	}
	for _, tt := range []struct {
		name, body string
		deletion   sim.Fault
		want       string
	}{
		{"the message about the wait shows the volume's state and the server to which it is attached", `{"volume":{"status":"detaching","attachments":[{"server_id":"SERVER"}]}}`, sim.Fault{}, `volume VOLUME is "detaching" in Cinder, attached to server SERVER`},
		{"the message about the wait shows the volume's name", `{"volume":{"name":"root","status":"deleting"}}`, sim.Fault{}, `volume "root" (VOLUME) is "deleting" in Cinder`},
		{"the message about the wait names a volume whose deletion Cinder has accepted and not completed", `{"volume":{"status":"error_deleting"}}`, sim.Fault{Call: "DELETE /volumes/{id}", Status: http.StatusAccepted}, `volume VOLUME is "error_deleting" in Cinder`},
		{"the message about the wait names a volume whose deletion Cinder has refused", `{"volume":{"status":"error"}}`, sim.Fault{Call: "DELETE /volumes/{id}", Status: http.StatusInternalServerError}, `volume VOLUME is "error" in Cinder; deleting volume VOLUME of server a`},
		{"the message about the wait shows Cinder's text about a volume with snapshots (report 55)", `{"volume":{"name":"root","status":"available"}}`, sim.Fault{Call: "DELETE /volumes/{id}", Status: http.StatusBadRequest,
			Body: `{"badRequest":{"code":400,"message":"Invalid volume: Volume status must be available or error and must not be migrating, attached, belong to a group, have snapshots or be awaiting a transfer."}}`}, "have snapshots"},
		{"the message about the wait names the volume that has snapshots (report 55)", `{"volume":{"name":"root","status":"available"}}`, sim.Fault{Call: "DELETE /volumes/{id}", Status: http.StatusBadRequest}, `volume "root" (VOLUME) is "available" in Cinder; deleting volume VOLUME of server a`},
		{"the message about the wait names a volume that stays reserved (report 56)", `{"volume":{"status":"reserved"}}`, sim.Fault{}, `volume VOLUME is "reserved" in Cinder`},
	} {
		t.Run(tt.name+" (F-25)", func(t *testing.T) {
			if got := waiting(t, tt.body, tt.deletion); !strings.Contains(got, tt.want) {
				t.Errorf("got %q, want %q in it", got, tt.want)
			}
		})
	}
}

func TestVolumesThatNovaLeftBehind(t *testing.T) {
	t.Parallel()
	// deleted deletes the Machine's server, but not the server's volume, as when Nova fails to delete it. It returns the volumes that
	// are left, and the result of the release.
	deleted := func(b *bench, m *v1alpha1.Machine, s *cloud.Server, volume string, guarded bool) (volumes []string, released cloud.Released) {
		b.recordsVolumes(m, s, volume, "00000000-0000-0000-0000-000000000009")
		if guarded {
			b.guarded()
			b.restart()
		}
		released = b.gone(b.synced(m))
		return b.sim.Leftovers().Volumes, released
	}
	t.Run("a volume is reported, not deleted, when only the Machine's status names it and no admission policy guards the status (F-3)", func(t *testing.T) {
		b := newBench(t)
		m := newMachine(t, "a", seedFields())
		_, s := b.active(m)
		own := b.newVolume()
		left, released := deleted(b, m, s, own, false)
		if len(left) != 1 || len(released.Left) != 1 || !strings.Contains(released.Left[0], own) {
			t.Errorf("left %v, named %v", left, released.Left)
		}
	})
	t.Run("a volume is deleted when the Machine's status names it and admission policies guard the status (F-3)", func(t *testing.T) {
		b := newBench(t)
		m := newMachine(t, "a", seedFields())
		_, s := b.active(m)
		own, foreign := b.newVolume(), b.newVolume()
		left, released := deleted(b, m, s, own, true)
		if len(left) != 1 || left[0] != foreign || len(released.Left) != 0 {
			t.Errorf("left %v, named %v, want only %s, which no status names", left, released.Left, foreign)
		}
	})
	t.Run("a volume that was seen on the Machine's server is deleted even when no admission policy guards the Machine's status (F-3)", func(t *testing.T) {
		b := newBench(t)
		shown := &shownVolume{}
		b.options.HTTP = shown
		b.restart()
		m := newMachine(t, "a", seedFields())
		i, s := b.active(m)
		own := b.newVolume()
		shown.id.Store(own)
		b.eventually("the volume is seen", func() bool { return slices.Contains(recordOf(b.observe(i).Server).VolumeIDs, own) })
		left, released := deleted(b, m, s, own, false)
		if len(left) != 0 || len(released.Left) != 0 {
			t.Errorf("left %v, named %v", left, released.Left)
		}
	})
	t.Run("a volume ID that is not a UUID is never used in a call to the cloud (F-3)", func(t *testing.T) {
		b := newBench(t)
		m := newMachine(t, "a", seedFields())
		_, s := b.active(m)
		b.guarded()
		b.restart()
		b.sim.ForgetCalls()
		_, released := deleted(b, m, s, "../servers/"+s.ID, true)
		if len(released.Left) != 1 || b.calls("GET /volumes/{id}") != 1 {
			t.Errorf("named %v, %d GETs of volumes, want the other ID alone", released.Left, b.calls("GET /volumes/{id}"))
		}
		for _, c := range b.sim.Calls() {
			if strings.Contains(c.Path, "..") {
				t.Errorf("%s %s was sent", c.Method, c.Path)
			}
		}
	})
}

func TestVolumeOfAnotherServerIsNotDeleted(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, other := b.active(newMachine(t, "other", seedFields().with("rootDiskSizeGB", 20)))
	m := newMachine(t, "a", seedFields())
	_, s := b.active(m)
	b.recordsVolumes(m, s, recordOf(other).VolumeIDs...)
	b.remove(b.instance(m))
	if left := b.sim.Leftovers(); len(left.Volumes) != 1 || len(left.Servers) != 1 {
		t.Errorf("left %+v", left)
	}
}

func TestSharedServerGroupIsCreatedOnce(t *testing.T) {
	t.Parallel()
	for name, nova := range map[string]string{"several Machines share one server group when Nova's microversion has the field policy (2.64 and later)": "2.93", "several Machines share one server group when Nova's microversion has the field policies (before 2.64)": "2.60"} {
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
				t.Errorf("%d created, servers are in %v", made, groups)
			}
			_, s = b.active(newMachine(t, "d", seedFields()))
			if got, _ := b.sim.Server(s.ID); got.ServerGroup != sim.MetaKubeServerGroup {
				t.Errorf("a group that the spec names counts: %s", got.ServerGroup)
			}
		})
	}
}

func TestMicroversionsAreChosenOncePerEndpoint(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(c *sim.Config) { c.ComputeMicroversion = "2.50" })
	i, _ := b.active(newMachine(t, "a", seedFields()))
	b.remove(i)
	if got := b.calls("GET /v2.1"); got != 1 {
		t.Errorf("%d version documents", got)
	}
	if err := b.bringUp(newMachine(t, "tags", seedFields().with("tags", []string{"plain"}))); err == nil {
		t.Error("a tag was lost without an error")
	}
	for _, c := range b.sim.Calls() {
		if c.Status == 406 {
			t.Errorf("%s %s was asked with a version that the cloud does not have", c.Method, c.Path)
		}
	}
}
