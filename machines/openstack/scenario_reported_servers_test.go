package openstack

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/client"
	sim "github.com/drover-project/drover/test/openstack"
)

func TestDeletionOfAServerInERRORMakesOneCallForEachResource(t *testing.T) {
	t.Parallel()
	t.Run("the interface of the server is not detached first, because Nova refuses that for a server in ERROR (report 29)", func(t *testing.T) {
		b := newBench(t)
		i, s := b.active(newMachine(t, "a", fullFields()))
		b.sim.FailServer(s.ID, "the host caught fire")
		b.eventually("the server is in ERROR", func() bool { return b.observe(i).Server.State == cloud.ServerError })
		b.sim.ForgetCalls()
		b.remove(i)
		b.nothingLeft()
		changes := b.sim.CallsByName()
		maps.DeleteFunc(changes, func(name string, _ int) bool { return strings.HasPrefix(name, "GET ") })
		if want := map[string]int{"DELETE /servers/{id}": 1, "DELETE /ports/{id}": 1, "DELETE /floatingips/{id}": 1}; !maps.Equal(changes, want) {
			t.Errorf("the calls that change something are %v, want %v", changes, want)
		}
	})
}

func TestServersThatAreMadeAtOnceAndFailInPart(t *testing.T) {
	t.Parallel()
	t.Run("those in ERROR are deleted and made again, and the others stay (report 32)", func(t *testing.T) {
		const n, every = 12, 3
		b := newBench(t)
		var machines []*v1alpha1.Machine
		first := map[int]string{}
		for k := range n {
			m := newMachine(t, fmt.Sprint("m", k), seedFields())
			machines = append(machines, m)
			s, err := b.make(b.synced(m))
			if err != nil {
				t.Fatal(err)
			}
			if first[k] = s.ID; k%every == 0 {
				b.sim.FailServer(s.ID, "No valid host was found.")
			}
		}
		for k, m := range machines {
			want := cloud.ServerActive
			if k%every == 0 {
				want = cloud.ServerError
			}
			b.eventually(m.Name+" is "+string(want), func() bool { s := b.observe(b.instance(m)).Server; return s != nil && s.State == want })
			if err := b.instance(m).DeleteFailed(b.ctx); err != nil {
				t.Fatal(err)
			}
		}
		for k, m := range machines {
			s := b.working(b.instance(m))
			if kept := s.ID == first[k]; kept != (k%every != 0) {
				t.Errorf("%s has server %s, and had %s", m.Name, s.ID, first[k])
			}
		}
		if left := b.sim.Leftovers(); len(left.Servers) != n || len(left.Ports) != n {
			t.Errorf("left are %d servers and %d ports, want %d", len(left.Servers), len(left.Ports), n)
		}
	})
}

func TestABootVolumeInAProjectWithOtherVolumes(t *testing.T) {
	t.Parallel()
	t.Run("is made by Nova with its server, although the project has a volume of the server's name, which stays (report 52, report 53)", func(t *testing.T) {
		b := newBench(t)
		var other struct {
			Volume struct{ ID string } `json:"volume"`
		}
		b.raw(client.Volume, "POST", "volumes", map[string]any{"volume": map[string]any{"size": 1, "name": "a"}}, &other)
		m := newMachine(t, "a", seedFields().with("rootDiskSizeGB", 20))
		i, s := b.active(m)
		b.records(m, s)
		if got, _ := b.sim.Server(s.ID); len(got.Volumes) != 1 || got.Volumes[0] == other.Volume.ID {
			t.Errorf("the server has the volumes %v, and another client made %s", got.Volumes, other.Volume.ID)
		}
		b.remove(i)
		b.pass(10 * time.Minute)
		if left := b.sim.Leftovers(); len(left.Volumes) != 1 || left.Volumes[0] != other.Volume.ID || len(left.Servers) != 0 {
			t.Errorf("left %+v, want only the volume %s", left, other.Volume.ID)
		}
	})
}

func TestTheOwnerOfAnUnusedFloatingIP(t *testing.T) {
	t.Parallel()
	t.Run("is in its description: the cluster and the UID of the Machine (report 45)", func(t *testing.T) {
		b := newBench(t)
		i := b.synced(newMachine(t, "a", fullFields()))
		b.sim.Inject(sim.Fault{Call: "POST /servers", Status: http.StatusForbidden})
		if _, err := b.make(i); err == nil {
			t.Fatal("the server was made")
		}
		var all struct {
			FloatingIPs []struct{ Description string } `json:"floatingips"`
		}
		b.raw(client.Network, "GET", "floatingips", nil, &all)
		if len(all.FloatingIPs) != 1 || !strings.Contains(all.FloatingIPs[0].Description, testCluster) || !strings.Contains(all.FloatingIPs[0].Description, "uid-a") {
			t.Errorf("got %+v", all.FloatingIPs)
		}
	})
}

func TestAServerInRescue(t *testing.T) {
	t.Parallel()
	t.Run("is neither failed nor deleted for hours, and is found working when its rescue ends (report 33)", func(t *testing.T) {
		b := newBench(t)
		i, s := b.active(newMachine(t, "a", seedFields()))
		b.sim.ChangeServer(s.ID, "rescued", "")
		b.eventually("the rescue is seen", func() bool { return b.observe(i).Server.Busy == "RESCUE" })
		for range 3 {
			b.pass(time.Hour)
			if err := i.DeleteFailed(b.ctx); err != nil {
				t.Fatal(err)
			}
			if got := b.observe(i).Server; got == nil || got.ID != s.ID || got.State == cloud.ServerError {
				t.Fatalf("the server is %+v", got)
			}
		}
		if n := b.calls("DELETE /servers/{id}"); n != 0 {
			t.Errorf("%d deletions", n)
		}
		b.sim.ChangeServer(s.ID, "active", "")
		b.eventually("the server works again", func() bool { return b.observe(i).Server.State == cloud.ServerActive })
	})
}

func TestAServerOfASpecThatCannotBeResolvedAnyMore(t *testing.T) {
	t.Parallel()
	for _, field := range []string{"network", "flavor", "image", "securityGroups", "availabilityZone", "floatingIpPool"} {
		t.Run("is deleted with its port and its floating IP although the cloud has no such "+field+" (report 40)", func(t *testing.T) {
			b := newBench(t)
			m := newMachine(t, "a", fullFields())
			_, s := b.active(m)
			wrong := fullFields().with(field, "gone")
			if field == "securityGroups" {
				wrong.with(field, []string{"gone"})
			}
			again := newMachine(t, "a", wrong)
			b.records(again, s)
			b.restart()
			b.remove(b.synced(again))
			b.nothingLeft()
		})
	}
}

func TestWhatAMachineLeavesWhenItsServerWasNeverMadeOrIsDeletedByHand(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(b *bench, m *v1alpha1.Machine){
		"whose server Nova has refused": func(b *bench, m *v1alpha1.Machine) {
			b.sim.Inject(sim.Fault{Call: "POST /servers", Status: http.StatusInternalServerError, Times: 1})
			if _, err := b.make(b.synced(m)); err == nil {
				b.t.Fatal("the server was made")
			}
		},
		"whose request for a server got no answer": func(b *bench, m *v1alpha1.Machine) {
			b.sim.Inject(sim.Fault{Call: "POST /servers", Drop: true, Times: 1})
			if _, err := b.make(b.synced(m)); err == nil {
				b.t.Fatal("the answer was not lost")
			}
		},
		"whose server was deleted by hand": func(b *bench, m *v1alpha1.Machine) {
			_, s := b.active(m)
			b.records(m, s)
			b.sim.DeleteServer(s.ID)
		},
	} {
		for restart, again := range map[string]bool{"": false, ", also by a new leader": true} {
			t.Run("port and floating IP of a Machine "+name+" are released"+restart+" (report 43)", func(t *testing.T) {
				b := newBench(t)
				m := newMachine(t, "a", fullFields())
				prepare(b, m)
				if again {
					b.restart()
				}
				b.remove(b.synced(m))
				b.pass(10 * time.Minute)
				b.nothingLeft()
			})
		}
	}
}

func TestAnAnswer429WithoutRetryAfter(t *testing.T) {
	t.Parallel()
	t.Run("makes a create wait, and the server is made once the cloud accepts it (report 18, report 19)", func(t *testing.T) {
		b := newBench(t)
		i := b.synced(newMachine(t, "a", seedFields()))
		b.sim.Inject(sim.Fault{Call: "POST /servers", Status: http.StatusTooManyRequests, Times: 3})
		_, err := b.make(i)
		if e := fault.Of(err); e == nil || e.Class != fault.RateLimited || e.RetryAfter <= 0 {
			t.Fatalf("got %+v, want a wait", e)
		}
		b.working(i)
		if n := b.calls("POST /servers"); n != 4 {
			t.Errorf("%d requests, want three that are refused and one that is accepted", n)
		}
		if left := b.sim.Leftovers(); len(left.Servers) != 1 || len(left.Ports) != 1 {
			t.Errorf("left %+v", left)
		}
	})
}

// withoutCinder is a RoundTripper that hides the volume service in the catalogs of tokens.
type withoutCinder struct{}

func (withoutCinder) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil || !strings.HasSuffix(req.URL.Path, "/auth/tokens") {
		return resp, err
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	body = bytes.ReplaceAll(body, []byte(`"volumev3"`), []byte(`"other"`))
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return resp, nil
}

func TestACloudWithoutAVolumeService(t *testing.T) {
	t.Parallel()
	t.Run("gets and loses a server that boots from its flavor's disk (report 16)", func(t *testing.T) {
		b := newBench(t)
		b.options.HTTP = withoutCinder{}
		b.restart()
		m := newMachine(t, "a", fullFields())
		if _, err := b.cloud.Shape(b.ctx, "kube-system", templateOf(m)); err != nil {
			t.Error(err)
		}
		i, s := b.active(m)
		b.records(m, s)
		b.pass(10 * time.Minute)
		b.remove(i)
		b.nothingLeft()
		if n := b.calls("volume"); n != 0 {
			t.Errorf("%d calls of the volume service", n)
		}
	})
	t.Run("releases a Machine whose server boots from a volume, and names the volume that nobody can look up (report 16)", func(t *testing.T) {
		b := newBench(t)
		b.options.HTTP = withoutCinder{}
		b.restart()
		m := newMachine(t, "a", seedFields().with("rootDiskSizeGB", 20))
		_, s := b.active(m)
		b.records(m, s)
		released := b.gone(b.instance(m))
		if len(recordOf(s).VolumeIDs) != 1 || len(released.Left) != 1 || !strings.Contains(released.Left[0], recordOf(s).VolumeIDs[0]) {
			t.Errorf("the record has the volumes %v, and left are %v", recordOf(s).VolumeIDs, released.Left)
		}
		b.nothingLeft()
	})
}
