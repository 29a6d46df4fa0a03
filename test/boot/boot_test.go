//go:build boot

package boot

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/drover-project/drover/test/boot/guests"
	"github.com/drover-project/drover/test/boot/images"
	"github.com/drover-project/drover/test/openstack"
)

// TestBoot takes a node through its life in each of the ways in which a server can become one: it joins while drover is killed, runs
// a pod, reboots, is drained under a disruption budget, and goes. The last servers cannot become nodes, and their Machines say why.
func TestBoot(t *testing.T) {
	t.Run("cloud-init with the metadata service, the newest kubelet and containerd 2", func(t *testing.T) {
		life(t, settings{}, expectation{
			group:   group{name: "metadata", kubelet: set.Newest, system: "ubuntu", cloud: inSimulatedCloud(openstack.MetaKubeImage)},
			runtime: "containerd://2.",
		})
	})
	t.Run("Ignition in the initramfs", func(t *testing.T) {
		life(t, settings{}, expectation{
			group:   group{name: "ignition", kubelet: set.Newest, system: "flatcar", cloud: inSimulatedCloud(openstack.MetaKubeFlatcar)},
			runtime: "containerd://2.",
		})
	})
	t.Run("cloud-init with a config drive, downloads, the oldest kubelet and containerd 1.7", func(t *testing.T) {
		spec := inSimulatedCloud(bareImage)
		spec["configDrive"] = true
		life(t, settings{configDrive: true, downloads: downloads(), flags: []string{"--node-containerd-version=" + images.Containerd1}}, expectation{
			group:   group{name: "drive", kubelet: set.Oldest, system: "ubuntu", cloud: spec},
			runtime: "containerd://1.7",
		})
	})
	t.Run("a setup that fails", setupsThatFail)
}

// life takes one node of the simulated cloud through its life.
func life(t *testing.T, o settings, e expectation) {
	w := newWorld(t, o)
	e.prefix = "openstack:///"
	e.gone = func() (string, error) {
		if left := w.Cloud.Leftovers(); !left.Empty() {
			return fmt.Sprintf("an empty cloud; it has %+v", left), nil
		}
		return "", nil
	}
	w.life(e)
}

// downloads are what the bare image's setup asks for.
func downloads() map[string]guests.Download {
	file := func(name string) guests.Download { return guests.Download{Path: filepath.Join(set.Downloads, name)} }
	return map[string]guests.Download{
		"/containerd-" + images.Containerd1 + "-linux-amd64.tar.gz": file("containerd.tar.gz"),
		"/runc.amd64":                         file("runc"),
		"/cni-plugins-linux-amd64-v1.7.1.tgz": file("cni-plugins.tgz"),
		kubeletURL(set.Oldest):                {Path: set.OldestKubelet},
	}
}

// kubeletURL is the end of the URL of a kubelet.
func kubeletURL(version string) string { return "/release/v" + version + "/bin/linux/amd64/kubelet" }
