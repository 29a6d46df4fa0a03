//go:build boot

package boot

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/drover-project/drover/machines/bootstrap"
	"github.com/drover-project/drover/test/boot/guests"
	"github.com/drover-project/drover/test/boot/images"
	"github.com/drover-project/drover/test/openstack"
)

// TestVirtualMachinesBootAndBecomeNodes takes a node through its whole life for each way in which a server can become a node: the node joins while
// drover is not running, runs a pod, reboots, is drained under a disruption budget, and is deleted. In the last subtest
// the servers cannot become nodes, and conditions of their Machines name the causes.
func TestVirtualMachinesBootAndBecomeNodes(t *testing.T) {
	t.Run("a server with cloud-init, the metadata service, the newest kubelet and containerd 2 joins and leaves the cluster", func(t *testing.T) {
		runLifeInSimulation(t, settings{}, expectation{
			group:   group{name: "metadata", kubelet: imageSet.Newest, system: "ubuntu", cloud: inSimulatedCloud(openstack.MetaKubeImage)},
			runtime: "containerd://2.",
		})
	})
	t.Run("a server with Ignition in the initramfs joins and leaves the cluster", func(t *testing.T) {
		runLifeInSimulation(t, settings{}, expectation{
			group:   group{name: "ignition", kubelet: imageSet.Newest, system: "flatcar", cloud: inSimulatedCloud(openstack.MetaKubeFlatcar)},
			runtime: "containerd://2.",
		})
	})
	t.Run("a server with cloud-init, a config drive, downloads, the oldest kubelet and containerd 1.7 joins and leaves the cluster", func(t *testing.T) {
		spec := inSimulatedCloud(bareImage)
		spec["configDrive"] = true
		runLifeInSimulation(t, settings{configDrive: true, downloads: downloads(), flags: []string{"--node-versions=containerd=" + images.Containerd1}}, expectation{
			group:   group{name: "drive", kubelet: imageSet.Oldest, system: "ubuntu", cloud: spec},
			runtime: "containerd://1.7",
		})
	})
	t.Run("a server whose image has the Kubernetes project's packages runs the kubelet of its Machine (F-151)", func(t *testing.T) {
		runLifeInSimulation(t, settings{downloads: map[string]guests.Download{kubeletURL(imageSet.Oldest): {Path: imageSet.OldestKubelet}}}, expectation{
			group:   group{name: "packaged", kubelet: imageSet.Oldest, system: "ubuntu", cloud: inSimulatedCloud(packagedImage)},
			runtime: "containerd://2.",
		})
	})
	t.Run("a server whose image was made of a node joins with its own ID and certificate (F-158)", func(t *testing.T) {
		runLifeInSimulation(t, settings{}, expectation{
			group:   group{name: "used", kubelet: imageSet.Newest, system: "ubuntu", cloud: inSimulatedCloud(usedImage)},
			runtime: "containerd://2.",
		})
	})
	t.Run("a Machine's conditions name the cause when the setup of its server fails", setupsThatFail)
}

// runLifeInSimulation takes one node of the simulated cloud through its whole life.
func runLifeInSimulation(t *testing.T, o settings, e expectation) {
	h := newHarness(t, o)
	e.providerIDPrefix = "openstack:///"
	e.leftover = func() (string, error) {
		if left := h.Cloud.Leftovers(); !left.Empty() {
			return fmt.Sprintf("an empty cloud, which has %+v", left), nil
		}
		return "", nil
	}
	h.runLife(e)
}

// downloads returns the files that the setup of the bare image downloads.
func downloads() map[string]guests.Download {
	file := func(name string) guests.Download {
		return guests.Download{Path: filepath.Join(imageSet.Downloads, name)}
	}
	return map[string]guests.Download{
		"/containerd-" + images.Containerd1 + "-linux-amd64.tar.gz": file("containerd.tar.gz"),
		"/runc.amd64": file("runc"),
		"/cni-plugins-linux-amd64-v" + bootstrap.DefaultCNIPlugins + ".tgz": file("cni-plugins.tgz"),
		kubeletURL(imageSet.Oldest):                                         {Path: imageSet.OldestKubelet},
	}
}

// kubeletURL returns the path in the URL of a kubelet's download.
func kubeletURL(version string) string { return "/release/v" + version + "/bin/linux/amd64/kubelet" }
