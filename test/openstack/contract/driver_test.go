package contract

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
	driver "github.com/drover-project/drover/machines/openstack"
	openstackclient "github.com/drover-project/drover/machines/openstack/client"
	"github.com/drover-project/drover/machines/openstack/provider"
	"github.com/drover-project/drover/machines/openstack/spec"
)

// drover runs drover's OpenStack driver, with c as the credentials of the configured cloud, until the test ends or the
// returned function is called.
func (b *bench) drover(c openstackclient.Credentials) (*driver.Cloud, func()) {
	b.Helper()
	return b.droverWith(driver.Options{Options: spec.Options{Configured: c}})
}

func (b *bench) droverWith(o driver.Options) (*driver.Cloud, func()) {
	b.Helper()
	o.ClusterID = "contract"
	d, err := driver.New(o)
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(b.Context()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := d.Start(ctx); err != nil {
			b.Error(err)
		}
	}()
	go func() {
		for {
			select {
			case <-d.Changes():
			case <-ctx.Done():
				return
			}
		}
	}()
	stop := func() { cancel(); <-done }
	b.Cleanup(stop)
	return d, stop
}

// fields returns a cloudProviderSpec with the usual resources of the target. extra overrides fields of it.
func (b *bench) fields(extra doc) doc {
	f := doc{"flavor": b.flavor, "image": b.image, "network": b.network, "subnet": b.subnet, "securityGroups": []string{b.group}}
	maps.Copy(f, extra)
	return f
}

// machine returns a Machine whose cloudProviderSpec consists of the given fields.
func (b *bench) machine(fields doc) *v1alpha1.Machine {
	b.Helper()
	raw, err := json.Marshal(doc{
		"cloudProvider": "openstack", "cloudProviderSpec": fields, "operatingSystem": "ubuntu", "operatingSystemSpec": doc{},
	})
	if err != nil {
		b.Fatal(err)
	}
	return &v1alpha1.Machine{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: b.name(), UID: uuid.NewUUID()},
		Spec:       v1alpha1.MachineSpec{ProviderSpec: v1alpha1.ProviderSpec{Value: &runtime.RawExtension{Raw: raw}}},
	}
}

// instance returns the driver's cloud.Instance for a Machine, once the driver has listed the project.
func (b *bench) instance(d *driver.Cloud, m *v1alpha1.Machine) cloud.Instance {
	b.Helper()
	i, err := d.Instance(context.WithoutCancel(b.Context()), m)
	if err != nil {
		b.Fatal(err)
	}
	b.until("the project is listed", func() bool { f, err := i.Observe(b.Context()); return err == nil && f.Synced })
	return i
}

// bring makes the driver create the server of a Machine, with all that the server needs.
func bring(ctx context.Context, i cloud.Instance) error {
	if err := i.Prepare(ctx); err != nil {
		return err
	}
	_, err := i.EnsureServer(ctx, []byte("#cloud-config\n"))
	return err
}

// reaches waits until the Machine's server is in the state want, and returns the server.
func (b *bench) reaches(i cloud.Instance, want cloud.ServerState) *cloud.Server {
	b.Helper()
	var s *cloud.Server
	b.until("the server is "+string(want), func() bool {
		f, err := i.Observe(b.Context())
		if err != nil || f.Server == nil {
			return false
		}
		s = f.Server
		return s.State == want
	})
	return s
}

// release makes the driver delete all resources of these Machines, concurrently.
func (b *bench) release(all ...cloud.Instance) {
	b.Helper()
	ctx := context.WithoutCancel(b.Context())
	left := slices.Clone(all)
	b.until("everything is released", func() bool {
		left = slices.DeleteFunc(left, func(i cloud.Instance) bool {
			f, err := i.Observe(ctx)
			if err != nil {
				return false
			}
			if f.Server != nil {
				_ = i.DeleteServer(ctx)
				return false
			}
			released, err := i.Release(ctx)
			return err == nil && released.Done
		})
		return len(left) == 0
	})
}

// marked counts the resources with drover's owner tag, by kind.
func (b *bench) marked() (servers, ports, addresses int) {
	b.Helper()
	for _, s := range b.want(b.user.get(compute, "/servers/detail"), http.StatusOK).rows("servers") {
		if (answer{body: s}).word("metadata.machine-uid") != "" {
			servers++
		}
	}
	count := func(path, field string) int {
		n := 0
		for _, r := range b.want(b.user.get(network, path), http.StatusOK).rows(field) {
			if strings.HasPrefix(r["description"].(string), "drover contract ") {
				n++
			}
		}
		return n
	}
	return servers, count("/ports", "ports"), count("/floatingips", "floatingips")
}

func (b *bench) has(servers, ports, addresses int) {
	b.Helper()
	s, p, a := b.marked()
	if s != servers || p != ports || a != addresses {
		b.Errorf("%d servers, %d ports and %d floating IPs have drover's owner tag; want %d, %d, %d", s, p, a, servers, ports, addresses)
	}
}

var driverRows = []row{
	{"the driver creates machines with at most a fifth more calls than necessary, and later deletes all that it created", operator, severalMachines},
	{"the driver creates a machine whose spec has all fields", nothing, func(b *bench) {
		d, _ := b.drover(b.credentials)
		i := b.instance(d, b.machine(b.fields(doc{
			"floatingIpPool": b.pool, "availabilityZone": b.zone, "keyName": b.keyPair, "configDrive": true, "tags": []string{"k=v", "plain"},
			"serverGroup": b.serverGroup("soft-anti-affinity"),
		})))
		if err := bring(b.Context(), i); err != nil {
			b.Fatal(err)
		}
		s := b.reaches(i, cloud.ServerActive)
		kinds := map[corev1.NodeAddressType]int{}
		for _, a := range s.Addresses {
			kinds[a.Type]++
		}
		b.same("addresses", kinds, "map[ExternalIP:1 Hostname:1 InternalIP:1]")
		b.same("zone", s.Record.(*provider.Record).Zone, b.zone)
		a := b.want(b.user.get(compute, "/servers/"+s.ID, at("2.67")), http.StatusOK)
		b.same("metadata", a.word("server.metadata.k"), "v")
		b.same("tags", a.at("server.tags"), "[plain]")
		b.same("key", a.word("server.key_name"), b.keyPair)
		b.same("config drive", a.word("server.config_drive"), "True")
		b.has(1, 1, 1)
		b.release(i)
		b.has(0, 0, 0)
	}},
	{"the driver creates and deletes a machine with a boot volume", volumes, func(b *bench) {
		count := func() int { return len(b.want(b.user.get(volume, "/volumes/detail"), http.StatusOK).rows("volumes")) }
		before := count()
		d, _ := b.drover(b.credentials)
		i := b.instance(d, b.machine(b.fields(doc{"rootDiskSizeGB": 1, "rootDiskVolumeType": b.volumeType})))
		if err := bring(b.Context(), i); err != nil {
			b.Fatal(err)
		}
		b.reaches(i, cloud.ServerActive)
		b.same("volumes", count(), before+1)
		b.release(i)
		b.until("the volume is gone", func() bool { return count() == before })
	}},
	{"the driver creates no resource twice when it is restarted after creating the port, and again after creating the server", aMinute, func(b *bench) {
		m := b.machine(b.fields(doc{"floatingIpPool": b.pool}))
		d, stop := b.drover(b.credentials)
		i := b.instance(d, m)
		if err := i.Prepare(b.Context()); err != nil {
			b.Fatal(err)
		}
		stop()
		d, stop = b.drover(b.credentials)
		i = b.instance(d, m)
		// Before the driver uses the port, it must make sure that no server on this port was requested just before the restart.
		b.until("the server is asked for", func() bool { return bring(b.Context(), i) == nil })
		stop()
		d, _ = b.drover(b.credentials)
		i = b.instance(d, m)
		b.reaches(i, cloud.ServerActive)
		if err := bring(b.Context(), i); err != nil {
			b.Fatal(err)
		}
		b.has(1, 1, 1)
		b.release(i)
		b.has(0, 0, 0)
	}},
	{"the driver creates no resource twice when responses are lost", operator, func(b *bench) {
		d, _ := b.drover(b.faulty)
		i := b.instance(d, b.machine(b.fields(nil)))
		b.misfortune(b.T).answer(b.T, failure{service: network, method: http.MethodPost, path: "/ports", times: 1})
		if err := i.Prepare(b.Context()); !fault.Is(err, fault.Transient) {
			b.Fatalf("a lost answer to POST /ports is %v", err)
		}
		b.until("the port is found", func() bool { return i.Prepare(b.Context()) == nil })
		b.misfortune(b.T).answer(b.T, failure{service: compute, method: http.MethodPost, path: "/servers", times: 1})
		if err := bring(b.Context(), i); !fault.Is(err, fault.Transient) {
			b.Fatalf("a lost answer to POST /servers is %v", err)
		}
		b.until("the server is found", func() bool { return bring(b.Context(), i) == nil })
		b.reaches(i, cloud.ServerActive)
		b.has(1, 1, 0)
		b.release(i)
		b.has(0, 0, 0)
	}},
	{"the driver creates its default security group and server group only once, for all machines and across restarts", nothing, sharedGroups},
	{"the driver finds a server of machine-controller by the metadata machine-uid, and adds drover's owner tag to it", nothing, takenOver},
	{"a restored Machine adopts the server that the operator's annotation names, with the server's port and floating IP (F-1)", nothing, restored},
	{"the driver notices that another client has deleted a server, and then deletes the server's port and floating IP", aMinute, func(b *bench) {
		d, _ := b.drover(b.credentials)
		i := b.instance(d, b.machine(b.fields(doc{"floatingIpPool": b.pool})))
		if err := bring(b.Context(), i); err != nil {
			b.Fatal(err)
		}
		b.remove(b.reaches(i, cloud.ServerActive).ID)
		// An idle driver lists the servers once a minute, so this may take a minute.
		b.until("it is known to be gone", func() bool { f, err := i.Observe(b.Context()); return err == nil && f.Gone })
		b.release(i)
		b.has(0, 0, 0)
	}},
}

func sharedGroups(b *bench) {
	count := func(service, path, field, part string) (n int) {
		for _, r := range b.want(b.user.get(service, path), http.StatusOK).rows(field) {
			if strings.Contains(r["name"].(string), part) {
				n++
				b.discard(service, path+"/"+r["id"].(string))
			}
		}
		return n
	}
	security := func() int { return count(network, "/security-groups", "security_groups", "kubernetes-v1") }
	server := func() int { return count(compute, "/os-server-groups", "server_groups", "contract") }
	b.same("security groups before", security(), 0)
	var all []cloud.Instance
	for range 2 {
		d, stop := b.droverWith(driver.Options{Options: spec.Options{Configured: b.credentials, SharedServerGroup: true}})
		for range 2 {
			m := b.machine(b.fields(doc{"securityGroups": nil}))
			if err := bring(b.Context(), b.instance(d, m)); err != nil {
				b.Fatal(err)
			}
			again, _ := b.drover(b.credentials)
			all = append(all, b.instance(again, m))
		}
		stop()
	}
	b.same("security groups", security(), 1)
	b.same("server groups", server(), 1)
	b.has(4, 4, 0)
	b.release(all...)
	b.has(0, 0, 0)
}

func takenOver(b *bench) {
	m := b.machine(b.fields(nil))
	id := b.boot(wish{fields: doc{
		"name": m.Name, "metadata": doc{"machine-uid": string(m.UID)}, "networks": []doc{{"uuid": b.networkID(b.network)}},
	}})
	d, _ := b.drover(b.credentials)
	i := b.instance(d, m)
	s, err := i.EnsureServer(b.Context(), nil)
	if err != nil {
		b.Fatal(err)
	}
	b.same("server", s.ID, id)
	b.until("the server has the cluster's owner tag", func() bool {
		_, _ = i.EnsureServer(b.Context(), nil)
		return b.user.get(compute, "/servers/"+id).word("server.metadata.drover-cluster-id") == "contract"
	})
	b.has(1, 0, 0)
	b.release(i)
	b.gone("/servers/" + id)
}

func severalMachines(b *bench) {
	n := b.machines
	m := b.misfortune(b.T)
	m.calls(b.T)
	d, _ := b.drover(b.faulty)
	started := time.Now()
	var all []cloud.Instance
	for range n {
		i := b.instance(d, b.machine(b.fields(doc{"availabilityZone": b.zone})))
		all = append(all, i)
		if err := bring(b.Context(), i); err != nil {
			b.Fatal(err)
		}
	}
	for _, i := range all {
		b.reaches(i, cloud.ServerActive)
	}
	calls := map[string]int{}
	total := 0
	for _, c := range m.calls(b.T) {
		calls[c]++
		total++
	}
	// The driver makes ten other calls: it looks up the token, the versions, the flavors, the image, the network, the
	// subnet, the security group and the zones, and lists the ports and the floating IPs.
	const lookups = 10
	lists := calls["GET /servers/detail"]
	if most := int(time.Since(started)/(2*time.Second)) + 1; lists > most {
		b.Errorf("%d lists, at most one every two seconds are %d", lists, most)
	}
	least := 2*n + lists + lookups
	b.Logf("%d calls for %d machines in %s: %.2f of the least, %v", total, n, time.Since(started).Round(time.Second), float64(total)/float64(least), calls)
	if float64(total) > 1.2*float64(least) {
		b.Errorf("%d calls, the least is %d: %v", total, least, calls)
	}
	for call, most := range map[string]int{"POST /ports": n, "POST /servers": n, "GET /servers/{id}": 0, "GET /flavors/detail": 1, "GET /images": 1, "GET /networks": 1} {
		if calls[call] > most {
			b.Errorf("%d × %s", calls[call], call)
		}
	}
	b.has(n, n, 0)
	b.release(all...)
	b.has(0, 0, 0)
	away := map[string]int{}
	for _, c := range m.calls(b.T) {
		away[c]++
	}
	b.Logf("and away again: %v", away)
	for call, want := range map[string]int{"DELETE /servers/{id}": n, "DELETE /ports/{id}": n, "GET /servers/{id}": 0} {
		if away[call] != want {
			b.Errorf("%d × %s, want %d", away[call], call, want)
		}
	}
}

// judged fails the test unless the driver's error has the given class and code.
func (b *bench) judged(err error, class fault.Class, code fault.Code) {
	b.Helper()
	e := fault.Of(err)
	if e == nil || e.Class != class || e.Code != code {
		b.Errorf("got %s, want %s %s", shown(e), class, code)
		return
	}
	b.Logf("%s %s: %s", e.Class, e.Code, e.Message)
}

func shown(e *fault.Error) string {
	if e == nil {
		return "no error"
	}
	return fmt.Sprintf("%s %s (%s)", e.Class, e.Code, e.Message)
}

// refused creates a Machine whose create request the cloud must refuse, and checks the driver's error. It then deletes
// what was created.
func (b *bench) refused(fields doc, class fault.Class, code fault.Code) {
	b.Helper()
	d, _ := b.drover(b.credentials)
	i := b.instance(d, b.machine(fields))
	b.judged(bring(b.Context(), i), class, code)
	b.release(i)
	b.has(0, 0, 0)
}

var driverErrorRows = []row{
	{"the driver reports an exceeded quota of Nova as a Quota error", operator, func(b *bench) {
		for what, field := range map[string]string{"instances": "totalInstancesUsed", "cores": "totalCoresUsed", "ram": "totalRAMUsed"} {
			m := b.misfortune(b.T)
			m.limit(b.T, what, b.used(field))
			b.refused(b.fields(nil), fault.Quota, fault.CodeQuotaExceeded)
			m.limit(b.T, what, -1)
		}
	}},
	{"the driver reports a full server group as a NoCapacity error", operator, func(b *bench) {
		b.misfortune(b.T).limit(b.T, "server_group_members", 0)
		b.refused(b.fields(doc{"serverGroup": b.serverGroup("soft-anti-affinity")}), fault.NoCapacity, fault.CodeServerGroupFull)
	}},
	{"the driver reports an exceeded quota of Neutron as a Quota error", operator, func(b *bench) {
		m := b.misfortune(b.T)
		m.limit(b.T, "floatingip", 0)
		b.refused(b.fields(doc{"floatingIpPool": b.pool}), fault.Quota, fault.CodeFloatingIPQuotaExceeded)
		m.limit(b.T, "port", 0)
		b.refused(b.fields(nil), fault.Quota, fault.CodePortQuotaExceeded)
	}},
	{"the driver reports a Quota error once a server is in ERROR because a quota of Cinder is exceeded", operatorAndVolumes, func(b *bench) {
		b.misfortune(b.T).limit(b.T, "volumes", 0)
		b.fails(b.fields(doc{"rootDiskSizeGB": 1}), fault.Quota, fault.CodeVolumeQuotaExceeded)
	}},
	{"the driver reports a NoCapacity error once a server is in ERROR because its flavor fits on no host", nothing, func(b *bench) {
		b.fails(b.fields(doc{"flavor": b.impossible}), fault.NoCapacity, fault.CodeNoValidHost)
	}},
	{"the driver reports a NoCapacity error when all hosts of the zone are disabled", operator, func(b *bench) {
		b.misfortune(b.T).disable(b.T, b.zone)
		b.refused(b.fields(doc{"availabilityZone": b.zone}), fault.NoCapacity, fault.CodeZoneUnavailable)
	}},
	{"the driver reports a NoCapacity error when the network or the floating IP pool has no free address", aPlayground, func(b *bench) {
		b.want(b.port(doc{"network_id": b.networkID(b.unrouted)}), http.StatusCreated)
		b.refused(b.fields(doc{"network": b.unrouted, "subnet": nil}), fault.NoCapacity, fault.CodeAddressesExhausted)
		b.want(b.floatingIP(doc{"floating_network_id": b.networkID(b.nearlyEmpty)}), http.StatusCreated)
		b.refused(b.fields(doc{"floatingIpPool": b.nearlyEmpty}), fault.NoCapacity, fault.CodeIPPoolExhausted)
	}},
	{"the driver reports an Invalid error for an unknown name in a spec, with a different code for each field", nothing, func(b *bench) {
		for field, code := range map[string]fault.Code{
			"flavor": fault.CodeFlavorNotFound, "image": fault.CodeImageNotFound, "network": fault.CodeNetworkNotFound, "subnet": fault.CodeSubnetNotFound,
			"availabilityZone": fault.CodeZoneNotFound, "floatingIpPool": fault.CodeIPPoolNotFound, "serverGroup": fault.CodeServerGroupNotFound,
		} {
			b.refused(b.fields(doc{field: "no-such-thing"}), fault.Invalid, code)
		}
		b.refused(b.fields(doc{"securityGroups": []string{"no-such-thing"}}), fault.Invalid, fault.CodeSecurityGroupNotFound)
		b.refused(b.fields(doc{"keyName": "no-such-thing"}), fault.Invalid, fault.CodeKeyPairNotFound)
	}},
	{"the driver reports an Invalid error when no router connects the network to the floating IP pool", aPlayground, func(b *bench) {
		b.refused(b.fields(doc{"network": b.unrouted, "subnet": nil, "floatingIpPool": b.pool}), fault.Invalid, fault.CodeInvalidSpec)
	}},
	{"the driver reports a wrong password and an unknown application credential as Auth errors", nothing, func(b *bench) {
		wrong := b.credentials
		wrong.Password = "wrong"
		gone := openstackclient.Credentials{
			IdentityEndpoint: b.credentials.IdentityEndpoint, Region: b.credentials.Region,
			ApplicationCredentialID: strings.Repeat("0", 32), ApplicationCredentialSecret: "secret",
		}
		for _, c := range []openstackclient.Credentials{wrong, gone} {
			d, _ := b.drover(c)
			i, err := d.Instance(b.Context(), b.machine(b.fields(nil)))
			if err != nil {
				b.Fatal(err)
			}
			b.until("it is refused", func() bool { _, err = i.Observe(b.Context()); return err != nil })
			b.judged(err, fault.Auth, fault.CodeUnauthorized)
		}
	}},
	{"the driver reports an Auth error when a user who may only read creates a server", aReader, func(b *bench) {
		// On some clouds a user with the role reader may create a port, and only the request for the server is refused.
		m := b.machine(b.fields(nil))
		reading, stop := b.drover(b.reader)
		b.judged(bring(b.Context(), b.instance(reading, m)), fault.Auth, fault.CodeForbidden)
		stop()
		d, _ := b.drover(b.credentials)
		b.release(b.instance(d, m))
		b.has(0, 0, 0)
	}},
	{"the driver reports a RateLimited error with the time to wait when the cloud answers 429", operator, func(b *bench) {
		d, _ := b.drover(b.faulty)
		i := b.instance(d, b.machine(b.fields(nil)))
		b.misfortune(b.T).answer(b.T, failure{service: network, method: http.MethodPost, path: "/ports", times: 1, status: 429, retryAfter: 1})
		err := bring(b.Context(), i)
		b.judged(err, fault.RateLimited, fault.CodeRateLimited)
		b.same("RetryAfter", fault.Of(err).RetryAfter, time.Second)
		b.until("the rest is over", func() bool { return bring(b.Context(), i) == nil })
		b.reaches(i, cloud.ServerActive)
		b.release(i)
		b.has(0, 0, 0)
	}},
}

// fails creates a Machine whose server is accepted and goes to ERROR, and checks the driver's error.
func (b *bench) fails(fields doc, class fault.Class, code fault.Code) {
	b.Helper()
	d, _ := b.drover(b.credentials)
	i := b.instance(d, b.machine(fields))
	if err := bring(b.Context(), i); err != nil {
		b.Fatal(err)
	}
	b.judged(b.reaches(i, cloud.ServerError).Fault, class, code)
	b.release(i)
	b.has(0, 0, 0)
}
