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
	// flavor is that of the guests, in the simulated cloud.
	flavor = "boot.small"
	// bareImage is the name of an image on which the setup has to download everything.
	bareImage = "Ubuntu Noble 24.04, bare"
	// patience is how long one step may take. Emulated on a busy machine, a boot takes minutes.
	patience  = 30 * time.Minute
	pollEvery = time.Second
)

// subnet is the simulated cloud's.
var subnet = netip.MustParsePrefix("192.168.1.0/24")

// pods is the network of every guest's pods: one guest at a time has pods.
var pods = netip.MustParsePrefix("10.244.1.0/24")

// world is a cluster, a cloud, drover, and guests for the cloud's servers.
type world struct {
	*sandbox.Sandbox
	t       *testing.T
	network *guests.Network
	// began is when the test began.
	began time.Time
}

// settings are how a cell differs from the others.
type settings struct {
	// downloads are what the guests can download, by the end of the URL's path.
	downloads map[string]guests.Download
	// configDrive: the guests find their user data on a drive, and have no metadata service.
	configDrive bool
	// noNames: servers whose name begins so have no resolver.
	noNames string
	// flags are drover's.
	flags []string
	// subnet is the guests' network. Default: the simulated cloud's.
	subnet netip.Prefix
}

// newWorld starts everything. The servers of the simulated cloud boot as guests.
func newWorld(t *testing.T, o settings) *world {
	t.Helper()
	w := &world{t: t, began: time.Now()}
	// Not the test's own folder: QEMU takes no comma in a path, and a socket no long one.
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
	w.Sandbox = sandbox.ForTest(t, sandbox.Options{
		Drover: os.Getenv(builtDrover), NoAutoscaler: true, BootTime: time.Second, Seed: seed,
		// In a namespace of its own these are free, and no outgoing connection takes them.
		GRPCAddress: "127.0.0.1:8086", MetricsAddress: "127.0.0.1:8080", HealthAddress: "127.0.0.1:8081",
		DroverFlags: flags,
		Boots: func(s openstack.Server) bool {
			<-ready
			w.boot(s, o)
			return false // the simulated kubelet stays out
		},
	})
	api, err := url.Parse(w.Cluster.Config.Host)
	if err != nil {
		t.Fatal(err)
	}
	w.network, err = guests.Open(guests.Options{
		Dir: dir, Subnet: o.subnet, APIServer: api.Host, Internet: internet, Log: w.say,
		Console: func(id, text string) { w.Cloud.SetConsole(id, text) },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.end() })
	w.Cloud.OnGone(w.network.End)
	close(ready)
	return w
}

// end ends the guests. Of a test that failed it keeps the consoles.
func (w *world) end() {
	if w.t.Failed() {
		for name, text := range w.network.Consoles() {
			w.t.Logf("console of %s:\n%s", name, text[max(0, len(text)-8000):])
		}
	}
	w.network.Close()
}

// say writes a line with the time since the test began.
func (w *world) say(format string, values ...any) {
	_, _ = fmt.Fprintf(w.t.Output(), "%6.1f s  %s\n", time.Since(w.began).Seconds(), fmt.Sprintf(format, values...))
}

// seed is the simulated cloud's: a flavor that this machine can emulate, and one image more.
func seed(c *openstack.Cloud) {
	openstack.SeedMetaKube(c)
	c.AddFlavor(openstack.Flavor{Name: flavor, VCPUs: 2, RAM: 2048, Disk: 20})
	c.AddImage(openstack.Image{Name: bareImage, MinDisk: 8, Size: 1 << 30})
}

// boot boots a server of the simulated cloud.
func (w *world) boot(s openstack.Server, o settings) {
	metadata, err := w.metadata(s.ID)
	if err != nil {
		w.t.Errorf("reading the metadata of server %s: %v", s.Name, err)
		return
	}
	g := &guests.Guest{
		ID: s.ID, Name: s.Name, Address: netip.MustParseAddr(s.FixedIPs[0]), VCPUs: s.VCPUs, Memory: s.RAM,
		UserData: s.UserData, Metadata: metadata, ConfigDrive: o.configDrive,
		NoNames: o.noNames != "" && strings.HasPrefix(s.Name, o.noNames),
	}
	bootFrom(g, s.Image)
	if err := w.network.Boot(g); err != nil {
		w.t.Error(err)
	}
}

// bootFrom chooses the disk for the name of an image.
func bootFrom(g *guests.Guest, image string) {
	g.Kernel, g.Disk = set.Kernel, set.Full
	switch image {
	case bareImage:
		g.Disk = set.Bare
	case openstack.MetaKubeFlatcar:
		g.Disk, g.Initrd, g.Append = set.Ignition, set.Initrd, "ip=dhcp ignition.platform.id=openstack"
	}
}

// metadata returns what the cloud's metadata service says of a server.
func (w *world) metadata(id string) ([]byte, error) {
	request, err := http.NewRequest(http.MethodGet, w.Cloud.MetadataURL()+"/openstack/latest/meta_data.json", nil)
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

// eventually waits until look finds nothing missing.
func (w *world) eventually(look func(ctx context.Context) (missing string, err error)) {
	w.t.Helper()
	missing := ""
	err := wait.PollUntilContextTimeout(w.t.Context(), pollEvery, patience, true, func(ctx context.Context) (bool, error) {
		now, err := look(ctx)
		if now != missing && ctx.Err() == nil {
			missing = now
			if now != "" {
				w.say("waiting for %s", now)
			}
		}
		if err == nil {
			err = errors.Join(w.Err(), w.network.Err())
		}
		return now == "", err
	})
	if err != nil {
		w.t.Fatalf("%v; still missing: %s%s", err, missing, w.complaints())
	}
}
