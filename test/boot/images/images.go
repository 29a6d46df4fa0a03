package images

import (
	"context"
	"embed"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Set holds the paths of what guests boot from.
type Set struct {
	// Kernel is the kernel for all disks. Initrd contains Ignition, for the disk Ignition; the others boot without an initrd.
	Kernel, Initrd string
	// Full is a disk with the newest kubelet, containerd 2 and cloud-init. Bare is a disk with only cloud-init. Ignition is like
	// Full, with Ignition instead of cloud-init. Packaged is like Full, with the units of the Kubernetes project's packages. Used is
	// like Full, made of a node of another cluster.
	Full, Bare, Ignition, Packaged, Used string
	// Newest and Oldest are the versions of the kubelets, such as 1.37.1: that of the test control plane, and the oldest one that
	// may join it.
	Newest, Oldest string
	// OldestKubelet is the kubelet of version Oldest. Downloads is the folder of the other programs that the bare image
	// downloads.
	OldestKubelet, Downloads string
}

// Containerd1 is the version of the older containerd, which Ubuntu 24.04 had at its release.
const Containerd1 = "1.7.12"

// oldestKubelet is a release of the oldest minor version that may join the test control plane (1.37), by Kubernetes' version skew
// policy.
const oldestKubelet = "1.34.4"

const ignitionVersion = "v2.24.0"

//go:embed scripts
var scripts embed.FS

// Prepare returns the images, and creates those that the cache lacks. On two cores that takes about two minutes when
// all modules are in Go's caches, and up to 20 otherwise. It writes a line per step to log. It returns an error if a
// program or a download fails.
func Prepare(ctx context.Context, log io.Writer) (Set, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return Set{}, fmt.Errorf("looking for the user's cache folder: %w", err)
	}
	b := &builder{ctx: ctx, cache: filepath.Join(cache, "drover", "boot"), log: log}
	if err := os.MkdirAll(b.cache, 0o755); err != nil {
		return Set{}, fmt.Errorf("making the cache folder: %w", err)
	}
	return b.prepare()
}

func (b *builder) prepare() (Set, error) {
	set := Set{Oldest: oldestKubelet}
	newest, err := controlPlane()
	if err != nil {
		return set, err
	}
	set.Newest = newest.version
	kubelet, err := b.kubelet(newest)
	if err != nil {
		return set, err
	}
	oldest, err := b.release(oldestKubelet)
	if err != nil {
		return set, err
	}
	if set.OldestKubelet, err = b.kubelet(oldest); err != nil {
		return set, err
	}
	ignition, err := b.ignition()
	if err != nil {
		return set, err
	}
	containers, err := b.containers()
	if err != nil {
		return set, err
	}
	folder, root, err := b.root()
	if err != nil {
		return set, err
	}
	sources := []string{kubelet, ignition, containers}
	dir, err := b.cached("disks", append(contents("scripts"), append(sources, root)...), func(dir string) error {
		return b.run("", nil, filepath.Join(folder, "disks.sh"), append([]string{root, dir}, sources...)...)
	})
	set.Kernel, set.Initrd, set.Downloads = filepath.Join(dir, "kernel"), filepath.Join(dir, "initrd"), filepath.Join(dir, "downloads")
	set.Full, set.Bare, set.Ignition = filepath.Join(dir, "full.img"), filepath.Join(dir, "bare.img"), filepath.Join(dir, "ignition.img")
	set.Packaged, set.Used = filepath.Join(dir, "packaged.img"), filepath.Join(dir, "used.img")
	return set, err
}

// root returns the folder of the scripts, and that of Ubuntu's root file system.
func (b *builder) root() (folder, root string, err error) {
	folder, err = b.cached("scripts", contents("scripts"), func(dir string) error {
		for _, name := range names("scripts") {
			data, err := scripts.ReadFile("scripts/" + name)
			if err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(dir, name), data, 0o755); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return "", "", err
	}
	root, err = b.cached("root", []string{content("scripts/root.sh")}, func(dir string) error {
		return b.run("", nil, filepath.Join(folder, "root.sh"), dir)
	})
	return folder, root, err
}

func names(folder string) []string {
	entries, err := scripts.ReadDir(folder)
	if err != nil {
		panic(err) // an error is not possible, because the scripts are embedded
	}
	var out []string
	for _, entry := range entries {
		out = append(out, entry.Name())
	}
	return out
}

func contents(folder string) []string {
	var out []string
	for _, name := range names(folder) {
		out = append(out, name, content(folder+"/"+name))
	}
	return out
}

func content(name string) string {
	data, err := scripts.ReadFile(name)
	if err != nil {
		panic(err) // an error is not possible, because the scripts are embedded
	}
	return string(data)
}
