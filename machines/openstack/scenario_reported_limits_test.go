package openstack

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/client"
	sim "github.com/drover-project/drover/test/openstack"
)

func TestRetryAfterOfEachKindOfAnswer(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		call   string
		status int
		after  func(b *bench) string
	}{
		"an answer 429 to a create (report 17)":                                        {"POST /servers", http.StatusTooManyRequests, func(*bench) string { return "40" }},
		"an answer 413 to a create (report 17)":                                        {"POST /servers", http.StatusRequestEntityTooLarge, func(*bench) string { return "40" }},
		"an answer 503 to a create (report 17)":                                        {"POST /servers", http.StatusServiceUnavailable, func(*bench) string { return "40" }},
		"an answer 429 to a port's create, whose header has a time of day (report 17)": {"POST /ports", http.StatusTooManyRequests, func(b *bench) string { return b.clock.Now().Add(40 * time.Second).UTC().Format(http.TimeFormat) }},
		"an answer 429 to a list (report 17)":                                          {"GET /servers/detail", http.StatusTooManyRequests, func(*bench) string { return "40" }},
	} {
		t.Run("the endpoint gets no such call before the time of "+name+", however many Machines want one", func(t *testing.T) {
			b := newBench(t)
			var all []*instance
			for k := range 4 {
				all = append(all, b.synced(newMachine(t, fmt.Sprint("m", k), seedFields())))
			}
			b.sim.Inject(sim.Fault{Call: tt.call, Status: tt.status, Header: http.Header{"Retry-After": {tt.after(b)}}, Times: 1,
				Body: `{"overLimit": {"code": 413, "message": "This request was rate-limited."}}`})
			b.sim.ForgetCalls()
			b.eventually("the call is refused", func() bool { _, _ = b.make(all[0]); return b.calls(tt.call) > 0 })
			refusedAt := b.clock.Now()
			for b.clock.Since(refusedAt) < 35*time.Second {
				for _, i := range all {
					_, _ = b.make(i)
				}
				b.clock.Step(time.Second)
			}
			if n := b.calls(tt.call); n != 1 {
				t.Errorf("%d calls within the time, want the one that was refused", n)
			}
			b.eventually("each Machine has a server", func() bool {
				for _, i := range all {
					if _, err := b.make(i); err != nil {
						return false
					}
				}
				return true
			})
			if left := b.sim.Leftovers(); len(left.Servers) != 4 || len(left.Ports) != 4 {
				t.Errorf("left %+v", left)
			}
		})
	}
}

func TestAPortThatExistsBeforeItsServer(t *testing.T) {
	t.Parallel()
	t.Run("has the owner tag, the security groups and the address of its Machine from its first call on, and no call adds them later (report 42)", func(t *testing.T) {
		b := newBench(t)
		m := newMachine(t, "a", fullFields())
		b.sim.Inject(sim.Fault{Call: "POST /servers", Status: http.StatusForbidden, Times: 1, Body: `{"forbidden": {"code": 403, "message": "Quota exceeded for instances: Requested 1, but already used 10 of 10 instances"}}`})
		if _, err := b.make(b.synced(m)); err == nil {
			t.Fatal("the server was made")
		}
		ports := func() (all struct {
			Ports []struct {
				ID, Description string
				SecurityGroups  []string `json:"security_groups"`
				FixedIPs        []any    `json:"fixed_ips"`
			}
		}) {
			b.raw(client.Network, "GET", "ports", nil, &all)
			return all
		}
		before := ports()
		if len(before.Ports) != 1 || !strings.Contains(before.Ports[0].Description, "uid-a") || len(before.Ports[0].SecurityGroups) != 1 || len(before.Ports[0].FixedIPs) == 0 {
			t.Fatalf("got %+v", before)
		}
		i := b.instance(m)
		b.records(m, b.working(i))
		if after := ports(); len(after.Ports) != 1 || after.Ports[0].ID != before.Ports[0].ID || b.calls("PUT /ports/{id}") != 0 {
			t.Errorf("the ports were %+v, now they are %+v; %d updates", before, after, b.calls("PUT /ports/{id}"))
		}
		b.remove(i)
		b.nothingLeft()
	})
}

func TestServersOfAnotherClusterInTheProject(t *testing.T) {
	t.Parallel()
	t.Run("are neither counted, nor taken, nor deleted, although their Machines have the same names and UIDs (report 50)", func(t *testing.T) {
		b := newBench(t)
		var foreign []string
		for k := range 3 {
			name := fmt.Sprint("m", k)
			_, s := b.active(newMachine(t, name, fullFields()))
			foreign = append(foreign, s.ID)
		}
		b.options.ClusterID = "cluster-2"
		b.restart()
		for k := range 3 {
			m := newMachine(t, fmt.Sprint("m", k), fullFields())
			if f := b.observe(b.synced(m)); f.Server != nil || f.Had != "" {
				t.Fatalf("%s has %+v before a server was made for it", m.Name, f)
			}
			i, s := b.active(m)
			b.records(m, s)
			b.remove(i)
		}
		b.pass(10 * time.Minute)
		for _, id := range foreign {
			if _, there := b.sim.Server(id); !there {
				t.Errorf("the other cluster's server %s is gone", id)
			}
		}
		if left := b.sim.Leftovers(); len(left.Servers) != 3 || len(left.Ports) != 3 || len(left.FloatingIPs) != 3 {
			t.Errorf("left %+v", left)
		}
	})
}

func TestBuildsThatTheCloudGivesUp(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		text  string
		class fault.Class
		code  fault.Code
	}{
		"for a zone that Cinder does not have shows Cinder's text (report 61)":                        {"Build of instance 1 aborted: Availability zone 'nova-1' is invalid. (HTTP 400) (Request-ID: req-1)", fault.Invalid, fault.CodeZoneNotFound},
		"without a host that is left to try shows Nova's text, and makes the group wait (report 156)": {"Exceeded maximum number of retries. Exhausted all hosts available for retrying build failures for instance 1.", "", ""},
		"because a hard anti-affinity leaves no host makes the group wait (report 157)":               {"No valid host was found. There are not enough hosts available.", fault.NoCapacity, fault.CodeNoValidHost},
		"because the scheduler's filter finds the policy violated makes it wait (report 157)":         {"Build of instance 1 aborted: Anti-affinity instance group policy was violated.", "", ""},
	} {
		t.Run("a server "+name, func(t *testing.T) {
			b := newBench(t)
			m := newMachine(t, "a", seedFields())
			i := b.synced(m)
			s, err := b.make(i)
			if err != nil {
				t.Fatal(err)
			}
			b.sim.FailServer(s.ID, tt.text)
			b.eventually("the server is in ERROR with its text", func() bool {
				s := b.observe(i).Server
				return s != nil && s.State == cloud.ServerError && s.Fault != nil && s.Fault.Message != ""
			})
			e := b.observe(i).Server.Fault
			if tt.class != "" && e.Class != tt.class || tt.code != "" && e.Code != tt.code || !strings.Contains(e.Message, tt.text[:40]) {
				t.Errorf("got %+v", e)
			}
			if tt.class == "" && e.Class == fault.Invalid {
				t.Errorf("the next attempt may work, and the error is %+v", e)
			}
			if err := i.DeleteFailed(b.ctx); err != nil {
				t.Fatal(err)
			}
			b.working(b.instance(m))
			if left := b.sim.Leftovers(); len(left.Servers) != 1 || len(left.Ports) != 1 {
				t.Errorf("left %+v", left)
			}
		})
	}
}

func TestAnAddressThatIsStillInUse(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]sim.Fault{
		"Neutron answers that the address is allocated (report 158)": {Call: "POST /ports", Status: http.StatusConflict, Times: 3,
			Body: `{"NeutronError": {"type": "IpAddressAlreadyAllocated", "message": "IP address 192.168.1.7 already allocated in subnet 1", "detail": ""}}`},
		"Nova answers that the fixed address is in use (report 158)": {Call: "POST /servers", Status: http.StatusBadRequest, Times: 3,
			Body: `{"badRequest": {"code": 400, "message": "Fixed IP address 192.168.1.7 is already in use on instance 1."}}`},
		"Nova answers that the port is in use (report 158)": {Call: "POST /servers", Status: http.StatusConflict, Times: 3,
			Body: `{"conflictingRequest": {"code": 409, "message": "Port 1 is still in use."}}`},
	} {
		t.Run("a server is made when the address is free again, after "+name, func(t *testing.T) {
			b := newBench(t)
			m := newMachine(t, "a", seedFields())
			i := b.synced(m)
			b.sim.Inject(f)
			_, err := b.make(i)
			if e := fault.Of(err); e == nil || e.Class == fault.Invalid || e.Class == fault.Quota {
				t.Fatalf("got %+v, want an error that is tried again", e)
			}
			b.working(b.instance(m))
			if left := b.sim.Leftovers(); len(left.Servers) != 1 || len(left.Ports) != 1 {
				t.Errorf("left %+v", left)
			}
		})
	}
}

func TestUserDataThatIsTooLarge(t *testing.T) {
	t.Parallel()
	t.Run("is refused before a request is sent, with both sizes, and leaves nothing (report 138)", func(t *testing.T) {
		b := newBench(t)
		i := b.synced(newMachine(t, "a", fullFields()))
		if err := i.Prepare(b.ctx); err != nil {
			t.Fatal(err)
		}
		_, err := i.EnsureServer(b.ctx, []byte("#cloud-config\n"+strings.Repeat(randomish(), 3000)))
		if e := fault.Of(err); e == nil || e.Class != fault.Invalid || !strings.Contains(err.Error(), "65535") || b.calls("POST /servers") != 0 {
			t.Errorf("got %v with %d requests", err, b.calls("POST /servers"))
		}
		b.remove(i)
		b.nothingLeft()
	})
	for name, body := range map[string]string{
		"of Nova's framework": `{"message": "Request is too large.<br /><br />\n\n\n", "code": "413 Request Entity Too Large", "title": "Request Entity Too Large"}`,
		"of a gateway":        `{"error_msg": "Request entity too large.", "error_code": "APIGW.0201", "request_id": "0123456789abcdef0123456789abcdef"}`,
	} {
		t.Run("that is refused with the 413 "+name+" is InvalidSpec, and not a limit of requests (report 138)", func(t *testing.T) {
			b := newBench(t)
			i := b.synced(newMachine(t, "a", seedFields()))
			b.sim.Inject(sim.Fault{Call: "POST /servers", Status: http.StatusRequestEntityTooLarge, Body: body})
			_, err := b.make(i)
			if e := fault.Of(err); e == nil || e.Class != fault.Invalid || e.RetryAfter != 0 {
				t.Errorf("got %+v", e)
			}
		})
	}
}

// randomish returns a line of user data.
func randomish() string { return "# 0123456789abcdefghijklmnopqrstuvwxyz\n" }

func TestAZoneForAVolumeOfAGroupWithoutNodes(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(fields){
		"of a group (report 132)":                          func(fields) {},
		"of a group whose servers have GPUs (report 133)":  func(f fields) { f["flavor"] = "gpu" },
		"of a group that boots from a volume (report 132)": func(f fields) { f["rootDiskSizeGB"] = 20 },
	} {
		t.Run("is in the template "+name, func(t *testing.T) {
			b := newBench(t)
			b.sim.AddFlavor(sim.Flavor{Name: "gpu", VCPUs: 4, RAM: 4096, Disk: 40, ExtraSpecs: map[string]string{"resources:VGPU": "1"}})
			spec := seedFields()
			change(spec)
			shape, err := b.cloud.Shape(b.ctx, "kube-system", templateOf(newMachine(t, "a", spec)))
			if err != nil || shape.Zone != sim.MetaKubeZone {
				t.Errorf("the zone is %q, error %v, want %q", shape.Zone, err, sim.MetaKubeZone)
			}
		})
	}
}

// recording is a RoundTripper that keeps the bodies of requests for servers.
type recording struct {
	next   http.RoundTripper
	bodies *[]string
}

func (r recording) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method == http.MethodPost && strings.HasSuffix(req.URL.Path, "/servers") {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return nil, err
		}
		*r.bodies = append(*r.bodies, string(body))
		req.Body = io.NopCloser(bytes.NewReader(body))
	}
	return r.next.RoundTrip(req)
}

func TestARequestForAServer(t *testing.T) {
	t.Parallel()
	for name, groups := range map[string][]string{"with one security group": {sim.MetaKubeSecurityGroup}, "with drover's own group": nil} {
		t.Run(name+" names a port and no group, so that Nova looks up none (report 73)", func(t *testing.T) {
			b := newBench(t)
			var bodies []string
			b.options.HTTP = recording{http.DefaultTransport, &bodies}
			b.restart()
			b.active(newMachine(t, "a", seedFields().with("securityGroups", groups)))
			if len(bodies) != 1 || strings.Contains(bodies[0], "security_groups") || !strings.Contains(bodies[0], `"port":`) {
				t.Errorf("the requests are %q", bodies)
			}
		})
	}
}
