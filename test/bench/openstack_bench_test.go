package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
	driver "github.com/drover-project/drover/machines/openstack"
	openstackclient "github.com/drover-project/drover/machines/openstack/client"
	sim "github.com/drover-project/drover/test/openstack"
	"github.com/drover-project/drover/test/openstack/load"
)

// The simulated cloud of these benchmarks takes 50 ms per call, and accepts 20 calls per second and endpoint.
const (
	latency   = 50 * time.Millisecond
	perSecond = 20
	boot      = 20 * time.Second
	// poll is the driver's polling period while servers are being built.
	poll = 5 * time.Second
	// workers is how many Machines drover works on at a time.
	workers = 64
)

// inVirtualTime runs f in a synctest bubble, in which time passes only while all goroutines wait. A minute of virtual
// time takes milliseconds.
func inVirtualTime(b *testing.B, f func(t *testing.T)) {
	b.Helper()
	// The flags -run and -skip select benchmarks, not the tests that run inside of a benchmark.
	choose := func(name, value string) string {
		chosen := flag.Lookup(name).Value.String()
		if err := flag.Set(name, value); err != nil {
			b.Fatal(err)
		}
		return chosen
	}
	run, skip := choose("test.run", ""), choose("test.skip", "")
	defer func() { choose("test.run", run); choose("test.skip", skip) }()
	all := func(string, string) (bool, error) { return true, nil }
	bubble := testing.InternalTest{Name: b.Name(), F: func(t *testing.T) { synctest.Test(t, f) }}
	if !testing.RunTests(all, []testing.InternalTest{bubble}) {
		b.Fatal("see above")
	}
}

const wideNetwork = "wide"

// wide seeds the cloud, and adds a network with addresses for more servers than the seed's own network has.
func wide(c *sim.Cloud) {
	sim.SeedMetaKube(c)
	network := c.AddNetwork(sim.Network{Name: wideNetwork, Project: sim.MetaKubeProject})
	if _, err := c.AddSubnet(sim.Subnet{Name: wideNetwork, Network: network, CIDR: "10.0.0.0/16"}); err != nil {
		panic(err)
	}
}

// site is drover's OpenStack driver with a simulated cloud.
type site struct {
	load.Waker
	cloud  *sim.Cloud
	driver *driver.Cloud
	stop   func()
}

func newSite(tb testing.TB, config sim.Config, o driver.Options) *site {
	tb.Helper()
	if config.Seed == nil {
		config.Seed = wide
	}
	c := sim.New(config)
	o.ClusterID = "bench"
	if o.HTTP == nil {
		o.HTTP = c.RoundTripper()
	}
	o.Configured = openstackclient.Credentials{
		IdentityEndpoint: c.AuthURL(), Region: sim.MetaKubeRegion, Username: sim.MetaKubeUser, Password: sim.MetaKubePassword,
		DomainName: sim.MetaKubeDomain, ProjectName: sim.MetaKubeProject,
	}
	d, err := driver.New(o)
	if err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithCancel(logr.NewContext(context.Background(), logr.Discard()))
	var wg sync.WaitGroup
	s := &site{cloud: c, driver: d, stop: func() { cancel(); wg.Wait(); c.Close() }}
	wg.Go(func() { _ = d.Start(ctx) })
	wg.Go(func() {
		for {
			select {
			case key := <-d.Changes():
				s.Woken(key)
			case <-ctx.Done():
				return
			}
		}
	})
	return s
}

func machine(tb testing.TB, n int) *v1alpha1.Machine {
	tb.Helper()
	return machineWith(tb, n, "")
}

// machineWith returns a Machine that requests a floating IP from the pool. An empty pool means no floating IP.
func machineWith(tb testing.TB, n int, pool string) *v1alpha1.Machine {
	tb.Helper()
	raw, err := json.Marshal(map[string]any{
		"cloudProvider": "openstack", "operatingSystem": "ubuntu", "operatingSystemSpec": map[string]any{},
		"cloudProviderSpec": map[string]any{
			"flavor": sim.MetaKubeFlavor, "image": sim.MetaKubeImage, "network": wideNetwork, "floatingIpPool": pool,
			"securityGroups": []string{sim.MetaKubeSecurityGroup}, "availabilityZone": sim.MetaKubeZone,
		},
	})
	if err != nil {
		tb.Fatal(err)
	}
	name := fmt.Sprintf("m-%d", n)
	return &v1alpha1.Machine{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name, UID: types.UID("uid-" + name)},
		Spec:       v1alpha1.MachineSpec{ProviderSpec: v1alpha1.ProviderSpec{Value: &runtime.RawExtension{Raw: raw}}},
	}
}

// step does for a Machine without a server what the Machine controller does in one reconcile. It returns the wait until
// the next reconcile, and whether the server exists.
func (s *site) step(ctx context.Context, m *v1alpha1.Machine) (time.Duration, bool, error) {
	i, err := s.driver.Instance(ctx, m)
	if err != nil {
		return 0, false, err
	}
	f, err := i.Observe(ctx)
	switch {
	case err != nil:
		return 0, false, err
	case !f.Synced:
		return time.Second, false, nil
	case f.Server != nil:
		return 0, true, nil
	}
	err = i.Prepare(ctx)
	if err == nil {
		_, err = i.EnsureServer(ctx, []byte("#cloud-config\n"))
	}
	if e := fault.Of(err); e != nil && e.Class == fault.RateLimited {
		return max(e.RetryAfter, time.Millisecond), false, nil
	}
	return 0, err == nil, err
}

// bringUp creates a server for every Machine, with the given number of workers.
func (s *site) bringUp(t *testing.T, machines []*v1alpha1.Machine, workers int) {
	t.Helper()
	s.reconcile(t, machines, workers, s.step)
}

// reconcile calls step for every Machine until step reports that the Machine is done, with the given number of workers.
func (s *site) reconcile(t *testing.T, machines []*v1alpha1.Machine, workers int, step func(context.Context, *v1alpha1.Machine) (time.Duration, bool, error)) {
	t.Helper()
	byKey := map[types.NamespacedName]*v1alpha1.Machine{}
	var keys []types.NamespacedName
	for _, m := range machines {
		key := types.NamespacedName{Namespace: m.Namespace, Name: m.Name}
		byKey[key], keys = m, append(keys, key)
	}
	load.Workers{Count: workers, Follow: s.Follow, Reconcile: func(key types.NamespacedName) time.Duration {
		after, done, err := step(load.For(t.Context(), key.Name), byKey[key])
		if err != nil {
			t.Error(err)
		}
		if done || err != nil {
			return -1
		}
		return after
	}}.Run(keys)
}

// active counts the Machines whose server is known to be ACTIVE.
func (s *site) active(t *testing.T, machines []*v1alpha1.Machine) int {
	t.Helper()
	n := 0
	for _, m := range machines {
		i, err := s.driver.Instance(t.Context(), m)
		if err != nil {
			t.Fatal(err)
		}
		f, err := i.Observe(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if f.Server != nil && f.Server.State == cloud.ServerActive {
			n++
		}
	}
	return n
}

func machines(tb testing.TB, n int) []*v1alpha1.Machine {
	all := make([]*v1alpha1.Machine, 0, n)
	for k := range n {
		all = append(all, machine(tb, k))
	}
	return all
}

// BenchmarkOpenStackFromNothing creates 1000 servers with one port each in a cloud that takes 20 requests per second
// and endpoint. calls/floor is the number of all calls, including refused calls and requests for tokens, divided by the
// minimum: two calls per Machine, one list per poll and one lookup of each name (aim: at most 1.2). time/floor is the
// time until all servers are known to be ACTIVE, divided by the minimum: the time that the slower endpoint needs, half
// a poll, a list and a boot (aim: at most 1/0.9).
func BenchmarkOpenStackFromNothing(b *testing.B) {
	const n = 1000
	for b.Loop() {
		var calls, lookups, polls, tokens, refused int
		var took time.Duration
		inVirtualTime(b, func(t *testing.T) {
			limit := sim.RateLimit{PerSecond: perSecond, Burst: perSecond}
			s := newSite(t, sim.Config{BootTime: boot, Latency: latency, RateLimits: map[string]sim.RateLimit{"compute": limit, "network": limit}}, driver.Options{})
			defer s.stop()
			all := machines(t, n)
			began := time.Now()
			s.bringUp(t, all, workers)
			for s.active(t, all) < n {
				time.Sleep(100 * time.Millisecond)
			}
			took = time.Since(began)
			calls, tokens = s.cloud.CallCount(), s.cloud.CallCount("POST /auth/tokens")
			lookups = s.cloud.CallCount("GET /flavors/detail", "GET /images", "GET /networks", "GET /security-groups", "GET /os-availability-zone", "GET /v2.1")
			for _, c := range s.cloud.Calls() {
				if c.Status == http.StatusTooManyRequests {
					refused++
				}
			}
			if left := s.cloud.Leftovers(); len(left.Servers) != n || len(left.Ports) != n {
				t.Errorf("%d servers, %d ports", len(left.Servers), len(left.Ports))
			}
		})
		polls = int(took/poll) + 1
		floorCalls := 2*n + polls + lookups + tokens
		floor := time.Duration(n-perSecond)*time.Second/perSecond + poll/2 + latency + boot
		b.ReportMetric(float64(calls)/float64(floorCalls), "calls/floor")
		b.ReportMetric(took.Seconds()/floor.Seconds(), "time/floor")
		b.ReportMetric(took.Seconds(), "virtual-s")
		b.ReportMetric(float64(tokens), "tokens")
		b.ReportMetric(float64(refused), "refused")
	}
}

// BenchmarkOpenStackAtRest measures an hour in which nothing happens to 10 000 servers. changes/min is the number of
// lists with changes-since per minute (aim: at most 1). Full lists are reported separately: those of the inventory, of
// ten pages every ten minutes, and those of the orphan collector, of ports and floating IPs every 15 minutes.
func BenchmarkOpenStackAtRest(b *testing.B) {
	const n, pages, hour = 10_000, 11, time.Hour
	for b.Loop() {
		var lists, others int
		inVirtualTime(b, func(t *testing.T) {
			s := newSite(t, sim.Config{BootTime: time.Second}, driver.Options{})
			defer s.stop()
			all := machines(t, n)
			s.bringUp(t, all, 64)
			for s.active(t, all) < n {
				time.Sleep(time.Second)
			}
			time.Sleep(2 * time.Minute)
			s.cloud.ForgetCalls()
			time.Sleep(hour)
			lists = s.cloud.CallCount("GET /servers/detail")
			others = s.cloud.CallCount() - lists
		})
		fulls := float64(hour/(10*time.Minute)) * pages
		b.ReportMetric((float64(lists)-fulls)/hour.Minutes(), "changes/min")
		b.ReportMetric(fulls/hour.Minutes(), "full-pages/min")
		b.ReportMetric(float64(others)/hour.Minutes(), "others/min")
	}
}

// canned answers a full list of servers with prepared pages, and a list of changes with an empty page.
type canned struct {
	next  http.RoundTripper
	pages map[string][]byte
	last  string
	// lists counts the requests for the last page.
	lists atomic.Int64
}

func (c *canned) RoundTrip(r *http.Request) (*http.Response, error) {
	query := r.URL.Query()
	if !strings.HasSuffix(r.URL.Path, "/servers/detail") {
		return c.next.RoundTrip(r)
	}
	page := []byte(`{"servers":[]}`)
	if !query.Has("changes-since") {
		page = c.pages[query.Get("marker")]
		if query.Get("marker") == c.last {
			c.lists.Add(1)
		}
	}
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(page)), Request: r}, nil
}

// listedRow returns the row of one server in a list of the simulated cloud.
func listedRow(b *testing.B) map[string]any {
	b.Helper()
	var list struct {
		Servers []map[string]any `json:"servers"`
	}
	inVirtualTime(b, func(t *testing.T) {
		seen := &recorder{}
		s := newSite(t, sim.Config{BootTime: time.Second}, driver.Options{})
		s.bringUp(t, machines(t, 1), 1)
		time.Sleep(time.Minute)
		s.stop()
		seen.next = s.cloud.RoundTripper()
		again := newSite(t, sim.Config{}, driver.Options{HTTP: seen})
		_, _, _ = again.step(t.Context(), machine(t, 0))
		time.Sleep(10 * time.Second)
		again.stop()
		if err := json.Unmarshal(seen.page, &list); err != nil || len(list.Servers) != 1 {
			t.Errorf("%d servers were listed: %v", len(list.Servers), err)
		}
	})
	return list.Servers[0]
}

// recorder is a transport that keeps the first answer to a list of servers.
type recorder struct {
	next http.RoundTripper
	page []byte
}

func (r *recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := r.next.RoundTrip(req)
	if err != nil || !strings.HasSuffix(req.URL.Path, "/servers/detail") || r.page != nil {
		return resp, err
	}
	r.page, err = io.ReadAll(resp.Body)
	resp.Body = io.NopCloser(bytes.NewReader(r.page))
	return resp, err
}

// listOf returns the pages of a list of n servers that look like row.
func listOf(b *testing.B, row map[string]any, n, pageSize int) *canned {
	b.Helper()
	c := &canned{pages: map[string][]byte{}}
	marker := ""
	for from := 0; from < n; from += pageSize {
		var rows []map[string]any
		for k := from; k < from+pageSize; k++ {
			one := maps.Clone(row)
			one["id"] = fmt.Sprintf("00000000-0000-4000-8000-%012d", k)
			one["name"] = fmt.Sprintf("m-%d", k)
			one["metadata"] = map[string]string{"machine-uid": fmt.Sprintf("uid-m-%d", k), "drover-cluster-id": "bench"}
			rows = append(rows, one)
		}
		body := map[string]any{"servers": rows}
		next := fmt.Sprint(rows[pageSize-1]["id"])
		if from+pageSize < n {
			body["servers_links"] = []any{map[string]string{"rel": "next", "href": "http://cloud.test/servers/detail?limit=1000&marker=" + next}}
		}
		page, err := json.Marshal(body)
		if err != nil {
			b.Fatal(err)
		}
		c.pages[marker], c.last, marker = page, marker, next
	}
	return c
}

// listedServer holds the fields that the driver reads from a row.
type listedServer struct {
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	Status    string    `json:"status"`
	TaskState string    `json:"OS-EXT-STS:task_state"`
	Created   time.Time `json:"created"`
	Updated   time.Time `json:"updated"`
	HostID    string    `json:"hostId"`
	Zone      string    `json:"OS-EXT-AZ:availability_zone"`
	Metadata  map[string]string
	Addresses map[string][]struct {
		Address string `json:"addr"`
		Type    string `json:"OS-EXT-IPS:type"`
	}
	Volumes []struct {
		ID string `json:"id"`
	} `json:"os-extended-volumes:volumes_attached"`
}

// age returns the age of the inventory. It is negative while there is no inventory.
func age(b *testing.B, registry *prometheus.Registry) float64 {
	b.Helper()
	families, err := registry.Gather()
	if err != nil {
		b.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "drover_openstack_inventory_age_seconds" {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	return -1
}

// processor returns the processor time of this process. Unlike elapsed time, it does not depend on other load on the
// machine.
func processor(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkOpenStackInventoryPass processes a full list of 10 000 servers. pass/decode is its processor time divided by
// the processor time of decoding the same bytes (aim: at most 1.5).
func BenchmarkOpenStackInventoryPass(b *testing.B) {
	const n = 10_000
	c := listOf(b, listedRow(b), n, 1000)
	fake := clocktesting.NewFakeClock(time.Now())
	registry := prometheus.NewRegistry()
	s := newSite(b, sim.Config{Clock: clock.RealClock{}}, driver.Options{HTTP: c, Clock: fake, Registry: registry})
	defer s.stop()
	c.next = s.cloud.RoundTripper()
	for age(b, registry) < 0 {
		if _, _, err := s.step(b.Context(), machine(b, 0)); err != nil && !fault.Is(err, fault.RateLimited) {
			b.Fatal(err)
		}
		fake.Step(time.Second)
		time.Sleep(time.Millisecond)
	}
	var pass, decode time.Duration
	for b.Loop() {
		idle(fake)
		lists := c.lists.Load()
		began := processor(b)
		fake.Step(10 * time.Minute)
		for c.lists.Load() == lists {
			time.Sleep(time.Millisecond)
		}
		idle(fake)
		pass += processor(b) - began
		began = processor(b)
		rows := 0
		for _, page := range c.pages {
			var body struct{ Servers []listedServer }
			if err := json.NewDecoder(bytes.NewReader(page)).Decode(&body); err != nil {
				b.Fatal(err)
			}
			rows += len(body.Servers)
		}
		decode += processor(b) - began
		if rows != n {
			b.Fatalf("%d rows", rows)
		}
	}
	b.ReportMetric(pass.Seconds()/decode.Seconds(), "pass/decode")
}

// idle waits until the driver has nothing to do but wait for a timer of the fake clock.
func idle(fake *clocktesting.FakeClock) {
	for !fake.HasWaiters() {
		time.Sleep(time.Millisecond)
	}
}
