//go:build boot && openstack

package boot

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	corev1 "k8s.io/api/core/v1"

	"github.com/drover-project/drover/machines/openstack/settings"
	"github.com/drover-project/drover/test/boot/guests"
	"github.com/drover-project/drover/test/kubelet"
	"github.com/drover-project/drover/test/openstack/member"
)

// Names that test/openstack/real creates, and names of this test.
const (
	realNetwork = "demo-net"
	realSubnet  = "10.10.0.0/16"
	// groupName is the prefix of the names of the test's servers and ports.
	groupName = "boot"
	// administrator is the cloud of clouds.yaml whose user can read the user data of all servers.
	administrator = "admin"
)

// loopback holds the addresses of the services of test/openstack/real.
var loopback = []string{"127.0.0.1:5000", "127.0.0.1:8774", "127.0.0.1:9696", "127.0.0.1:9292", "127.0.0.1:8776", "127.0.0.1:8778"}

// TestANodeJoinsAndIsDeletedWithARealOpenStack takes a node through its whole life with a real OpenStack whose hypervisor is fake. The test
// lists the servers as the administrator, and boots each as a guest with Nova's user data and server ID, and with
// Neutron's address.
func TestANodeJoinsAndIsDeletedWithARealOpenStack(t *testing.T) {
	file, cloud := os.Getenv("OS_CLIENT_CONFIG_FILE"), os.Getenv("OS_CLOUD")
	if file == "" || cloud == "" {
		t.Fatal("set OS_CLIENT_CONFIG_FILE and OS_CLOUD, such as to those that test/openstack/real/up.sh prints")
	}
	if err := guests.Reach(loopback...); err != nil {
		t.Fatal(err)
	}
	nova := signIn(t, file)
	h := newHarness(t, settings{
		flags:  []string{"--clouds-yaml=" + file, "--cloud=" + cloud, "--allowed-endpoints=http://127.0.0.1:5000/v3"},
		subnet: netip.MustParsePrefix(realSubnet),
	})
	f := &hypervisor{harness: h, nova: nova, booted: map[string]bool{}}
	if left, err := f.left(); err != nil || left != "" {
		t.Fatalf("delete the servers and ports of an earlier run first, whose names begin with %s-: the test would wait for %s (%v)", groupName, left, err)
	}
	h.KillCloudController() // the sandbox's cloud-controller-manager would use the servers of the simulated cloud
	ctx, cancel := context.WithCancel(t.Context())
	var work sync.WaitGroup
	t.Cleanup(func() { cancel(); work.Wait() })
	work.Go(func() { f.follow(ctx) })
	work.Go(func() {
		err := kubelet.RunCloudControllerManager(ctx, kubelet.CloudControllerOptions{Config: h.Cluster.Config, Servers: f.servers})
		if err != nil {
			t.Error(err)
		}
	})
	h.runLife(expectation{
		group: group{name: groupName, kubelet: imageSet.Newest, system: "ubuntu", cloud: map[string]any{
			"availabilityZone": "az1", "flavor": "m1.small", "image": "tiny", "network": realNetwork, "subnet": "demo-subnet",
			"securityGroups": []string{"demo-sg"}, "region": "RegionOne",
		}},
		runtime: "containerd://2.", providerIDPrefix: "openstack:///", leftover: f.left,
	})
}

// signIn returns a session of the cloud's administrator.
func signIn(t *testing.T, file string) *member.Session {
	t.Helper()
	admin, err := settings.Read(settings.Source{CloudsYAML: file, Cloud: administrator})
	if err != nil {
		t.Fatal(err)
	}
	session, err := member.SignInAs(t.Context(), gophercloud.AuthOptions{
		IdentityEndpoint: admin.IdentityEndpoint, Username: admin.Username, Password: admin.Password, TenantName: admin.ProjectName,
		DomainName: admin.UserDomainName, AllowReauth: true,
	}, admin.Region, nil)
	if err != nil {
		t.Fatal(err)
	}
	session.Microversion = "2.79"
	return session
}

// hypervisor runs a guest for each server that Nova lists.
type hypervisor struct {
	harness *harness
	nova    *member.Session

	mu     sync.Mutex
	now    []server
	booted map[string]bool
}

// server is a server in Nova's list for an administrator.
type server struct {
	ID, Name, Status string
	UserData         string `json:"OS-EXT-SRV-ATTR:user_data"`
	Metadata         map[string]string
	Addresses        map[string][]struct{ Addr string }
}

// port is a port in Neutron's list.
type port struct {
	ID, Name string
	MAC      string `json:"mac_address"`
	Owner    string `json:"device_id"`
	FixedIPs []struct {
		Address string `json:"ip_address"`
	} `json:"fixed_ips"`
}

// ports returns the ports of this test's servers, including those of deleted servers.
func (h *hypervisor) ports(ctx context.Context) ([]port, error) {
	raw, err := h.nova.Ask(ctx, "GET", "network /ports", "")
	if err != nil {
		return nil, err
	}
	var answer struct{ Ports []port }
	err = json.Unmarshal(raw, &answer)
	return slices.DeleteFunc(answer.Ports, func(p port) bool { return !strings.HasPrefix(p.Name, groupName+"-") }), err
}

// list returns the servers of this test.
func (h *hypervisor) list(ctx context.Context) ([]server, error) {
	raw, err := h.nova.Ask(ctx, "GET", "compute /servers/detail?all_tenants=1&name="+groupName+"-", "")
	if err != nil {
		return nil, err
	}
	var answer struct{ Servers []server }
	return answer.Servers, json.Unmarshal(raw, &answer)
}

// follow boots each server that becomes ACTIVE, and powers off the guest of each server that is deleted, until ctx ends.
func (h *hypervisor) follow(ctx context.Context) {
	ticker := time.NewTicker(2 * time.Second)
	defer ticker.Stop()
	for ctx.Err() == nil {
		if now, err := h.list(ctx); err == nil {
			h.compare(ctx, now)
		} else if ctx.Err() == nil {
			h.harness.logf("listing Nova's servers: %v", err)
		}
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
}

func (h *hypervisor) compare(ctx context.Context, now []server) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now = now
	there := map[string]bool{}
	for _, s := range now {
		there[s.ID] = true
		if s.Status == "ACTIVE" && !h.booted[s.ID] && len(s.Addresses[realNetwork]) > 0 {
			h.booted[s.ID] = true
			if err := h.boot(ctx, s); err != nil {
				h.harness.t.Error(err)
			}
		}
	}
	for id := range h.booted {
		if !there[id] {
			h.harness.network.PowerOff(id)
			delete(h.booted, id)
		}
	}
}

// boot starts the guest of a server, with the user data that Nova has and the address that Neutron has for its port.
func (h *hypervisor) boot(ctx context.Context, s server) error {
	ports, err := h.ports(ctx)
	if err != nil {
		return err
	}
	bound := slices.IndexFunc(ports, func(p port) bool { return p.Owner == s.ID && len(p.FixedIPs) == 1 })
	if bound < 0 {
		return fmt.Errorf("no port with one address is bound to server %s; the ports are %+v", s.Name, ports)
	}
	userData, err := base64.StdEncoding.DecodeString(s.UserData)
	if err == nil && len(userData) == 0 {
		err = errors.New("it is empty")
	}
	if err != nil {
		return fmt.Errorf("decoding the user data of server %s: %w", s.Name, err)
	}
	metadata, err := json.Marshal(map[string]any{"uuid": s.ID, "name": s.Name, "hostname": s.Name + ".novalocal", "meta": s.Metadata})
	if err != nil {
		return err
	}
	return h.harness.network.Boot(&guests.Guest{
		ID: s.ID, Name: s.Name, Address: netip.MustParseAddr(ports[bound].FixedIPs[0].Address), MAC: ports[bound].MAC, VCPUs: 2, Memory: 2048,
		UserData: userData, Metadata: metadata, Kernel: imageSet.Kernel, Disk: imageSet.Full,
	})
}

// servers returns the listed servers for the test's own cloud-controller-manager.
func (h *hypervisor) servers() []kubelet.Server {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []kubelet.Server
	for _, s := range h.now {
		entry := kubelet.Server{ID: s.ID, Name: s.Name, Flavor: "m1.small", Zone: "az1", Region: "RegionOne"}
		for _, a := range s.Addresses[realNetwork] {
			entry.Addresses = append(entry.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: a.Addr})
		}
		// A real cloud-controller-manager keeps the kubelet's Hostname address, for which the kubelet requests a certificate.
		entry.Addresses = append(entry.Addresses, corev1.NodeAddress{Type: corev1.NodeHostName, Address: s.Name})
		out = append(out, entry)
	}
	return out
}

// left describes which servers and ports of this test the cloud still has. It is empty when there are none.
func (h *hypervisor) left() (string, error) {
	servers, err := h.list(h.harness.t.Context())
	if err != nil || len(servers) > 0 {
		return fmt.Sprintf("the deletion of %d servers", len(servers)), err
	}
	ports, err := h.ports(h.harness.t.Context())
	if err != nil || len(ports) > 0 {
		return fmt.Sprintf("the deletion of %d ports", len(ports)), err
	}
	return "", nil
}
