//go:build boot

package boot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/drover-project/drover/test/boot/guests"
	"github.com/drover-project/drover/test/kube"
	"github.com/drover-project/drover/test/openstack"
	"github.com/drover-project/drover/test/sandbox"
)

const (
	// flavor is the guests' flavor in the simulated cloud.
	flavor = "boot.small"
	// bareImage is the name of an image on which the setup has to download everything.
	bareImage = "Ubuntu Noble 24.04, bare"
	// packagedImage is the name of an image with the Kubernetes project's packages.
	packagedImage = "Ubuntu Noble 24.04, with Kubernetes' packages"
	// usedImage is the name of an image that was made of a node.
	usedImage = "Ubuntu Noble 24.04, of a node"
	// patience is the time limit of one step. An emulated guest boots for minutes on a busy machine.
	patience  = 30 * time.Minute
	pollEvery = time.Second
)

// subnet is the address range of the simulated cloud's subnet.
var subnet = netip.MustParsePrefix("192.168.1.0/24")

// pods is the address range of the pods on a guest. Only one guest at a time has pods.
var pods = netip.MustParsePrefix("10.244.1.0/24")

// harness runs a cluster, a simulated cloud and drover, and boots each server of the cloud as a QEMU guest.
type harness struct {
	*sandbox.Sandbox
	t       *testing.T
	network *guests.Network
	// began is when the test started.
	began time.Time
}

// settings holds what differs between the subtests of TestVirtualMachinesBootAndBecomeNodes.
type settings struct {
	// downloads holds the files that the guests can download, by the end of the URL's path.
	downloads map[string]guests.Download
	// configDrive is true when the guests find their user data on a drive, and have no metadata service.
	configDrive bool
	// noResolver is the prefix of the names of servers that get a DNS resolver that does not answer.
	noResolver string
	// flags are added to drover's arguments.
	flags []string
	// subnet is the guests' network. Default: the network of the simulated cloud.
	subnet netip.Prefix
}

// newHarness starts the cluster, the cloud, drover and the guests' network.
func newHarness(t *testing.T, o settings) *harness {
	t.Helper()
	h := &harness{t: t, began: time.Now()}
	// The path of t.TempDir() contains the test's name. QEMU does not accept the comma in it, and the path of a socket
	// would be too long.
	dir, release, err := kube.OwnFolder("", "drover-boot-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir); release() })
	ready := make(chan struct{})
	internet, err := guests.NewInternet(o.downloads)
	if err != nil {
		t.Fatal(err)
	}
	flags := append([]string{"--bootstrap-api-server=https://" + guests.ServiceAddress + ":443", "--join-timeout=" + patience.String()}, o.flags...)
	if o.downloads != nil {
		ca := filepath.Join(dir, "downloads-ca.crt")
		if err := os.WriteFile(ca, internet.CA(), 0o600); err != nil {
			t.Fatal(err)
		}
		flags = append(flags, "--node-ca-bundle="+ca)
	}
	if !o.subnet.IsValid() {
		o.subnet = subnet
	}
	h.Sandbox = sandbox.ForTest(t, sandbox.Options{
		Drover: os.Getenv(builtDrover), NoAutoscaler: true, BootTime: time.Second, Seed: seed,
		// The network namespace is the test's own, so these ports are free.
		GRPCAddress: "127.0.0.1:8086", MetricsAddress: "127.0.0.1:8080", HealthAddress: "127.0.0.1:8081",
		DroverFlags: flags,
		Boots: func(s openstack.Server) bool {
			<-ready
			h.boot(s, o)
			return false // no simulated kubelet is started
		},
	})
	api, err := url.Parse(h.Cluster.Config.Host)
	if err != nil {
		t.Fatal(err)
	}
	h.network, err = guests.Open(guests.Options{
		Dir: dir, Subnet: o.subnet, APIServer: api.Host, Internet: internet, Log: h.logf,
		Console: func(id, text string) { h.Cloud.SetConsole(id, text) },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.stop() })
	h.Cloud.OnGone(h.network.PowerOff)
	close(ready)
	return h
}

// stop ends the guests and the network. It logs the consoles when the test has failed.
func (h *harness) stop() {
	if h.t.Failed() {
		for name, text := range h.network.Consoles() {
			h.t.Logf("console of %s:\n%s", name, text[max(0, len(text)-8000):])
		}
	}
	h.network.Close()
}

// logf writes a line with the time since the test started.
func (h *harness) logf(format string, values ...any) {
	_, _ = fmt.Fprintf(h.t.Output(), "%6.1f s  %s\n", time.Since(h.began).Seconds(), fmt.Sprintf(format, values...))
}

// seed adds a flavor that this machine can emulate, and the images, to the simulated cloud.
func seed(c *openstack.Cloud) {
	openstack.SeedMetaKube(c)
	c.AddFlavor(openstack.Flavor{Name: flavor, VCPUs: 2, RAM: 2048, Disk: 20})
	for _, image := range []string{bareImage, packagedImage, usedImage} {
		c.AddImage(openstack.Image{Name: image, MinDisk: 8, Size: 1 << 30})
	}
}

// boot starts the guest of a server of the simulated cloud.
func (h *harness) boot(s openstack.Server, o settings) {
	metadata, err := h.metadata(s.ID)
	if err != nil {
		h.t.Errorf("reading the metadata of server %s: %v", s.Name, err)
		return
	}
	g := &guests.Guest{
		ID: s.ID, Name: s.Name, Address: netip.MustParseAddr(s.FixedIPs[0]), VCPUs: s.VCPUs, Memory: s.RAM,
		UserData: s.UserData, Metadata: metadata, ConfigDrive: o.configDrive,
		NoResolver: o.noResolver != "" && strings.HasPrefix(s.Name, o.noResolver),
	}
	bootFrom(g, s.Image)
	if err := h.network.Boot(g); err != nil {
		h.t.Error(err)
	}
}

// bootFrom sets the kernel, the disk and the initrd for an image of the cloud.
func bootFrom(g *guests.Guest, image string) {
	g.Kernel, g.Disk = imageSet.Kernel, imageSet.Full
	switch image {
	case bareImage:
		g.Disk = imageSet.Bare
	case packagedImage:
		g.Disk = imageSet.Packaged
	case usedImage:
		g.Disk = imageSet.Used
	case openstack.MetaKubeFlatcar:
		g.Disk, g.Initrd, g.Append = imageSet.Ignition, imageSet.Initrd, "ip=dhcp ignition.platform.id=openstack"
	}
}

// metadata returns meta_data.json of a server from the simulated metadata service.
func (h *harness) metadata(id string) ([]byte, error) {
	request, err := http.NewRequest(http.MethodGet, h.Cloud.MetadataURL()+"/openstack/latest/meta_data.json", nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("X-Instance-ID", id)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	return io.ReadAll(response.Body)
}

// eventually calls look until it returns an empty text, and logs each new text, which describes what is missing. It fails the
// test when look returns an error, when the time limit patience has passed, and when a guest or a program of the sandbox has
// ended.
func (h *harness) eventually(look func(ctx context.Context) (missing string, err error)) {
	h.t.Helper()
	missing := ""
	err := wait.PollUntilContextTimeout(h.t.Context(), pollEvery, patience, true, func(ctx context.Context) (bool, error) {
		now, err := look(ctx)
		if now != missing && ctx.Err() == nil {
			missing = now
			if now != "" {
				h.logf("waiting for %s", now)
			}
		}
		if err == nil {
			err = errors.Join(h.Err(), h.network.Err())
		}
		return now == "", err
	})
	if err != nil {
		h.t.Fatalf("%v; still missing: %s%s", err, missing, h.conditions())
	}
}
