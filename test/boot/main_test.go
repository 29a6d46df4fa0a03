//go:build boot

package boot

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/drover-project/drover/test/boot/guests"
	"github.com/drover-project/drover/test/boot/images"
	"github.com/drover-project/drover/test/kube"
	"github.com/drover-project/drover/test/sandbox"
)

// needed maps the programs and files that the tests use to the Debian packages that contain them.
var needed = map[string]string{
	"qemu-system-x86_64": "qemu-system-x86", "qemu-img": "qemu-utils", "mmdebstrap": "mmdebstrap", "mke2fs": "e2fsprogs", "genisoimage": "genisoimage",
	"dnsmasq": "dnsmasq-base", "ip": "iproute2", "gcc": "gcc", "/usr/include/blkid/blkid.h": "libblkid-dev",
}

// builtDrover is the environment variable with the path of drover's binary, which is built outside of the network namespace.
const builtDrover = "DROVER_BOOT_BINARY"

// imageSet holds the images that guests boot from.
var imageSet images.Set

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := 1
	var err error
	if guests.Isolated() {
		imageSet, err = images.Prepare(ctx, os.Stderr)
		if err = errors.Join(err, guests.LoopbackUp()); err == nil {
			code = m.Run()
		}
	} else {
		code, err = outside(ctx)
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

// outside builds what needs the Internet, and runs the tests in their own network namespace.
func outside(ctx context.Context) (int, error) {
	if err := missing(); err != nil {
		return 1, err
	}
	if _, err := kube.Binaries(ctx, os.Stderr); err != nil {
		return 1, err
	}
	if _, err := images.Prepare(ctx, os.Stderr); err != nil {
		return 1, err
	}
	dir, release, err := kube.OwnFolder("", "drover-boot-")
	if err != nil {
		return 1, err
	}
	defer release()
	defer func() { _ = os.RemoveAll(dir) }()
	drover, err := sandbox.Build(ctx, dir, os.Stderr)
	if err != nil {
		return 1, err
	}
	if err := os.Setenv(builtDrover, drover); err != nil {
		return 1, err
	}
	return guests.Isolate(ctx, dir)
}

// missing returns one error that names everything that must be installed first, or nil when nothing is missing.
func missing() error {
	if os.Geteuid() != 0 {
		return errors.New("make test-boot creates network devices and disk images: run it as root")
	}
	packages := map[string]bool{}
	for name, from := range needed {
		_, err := os.Stat(name)
		if !strings.HasPrefix(name, "/") {
			_, err = exec.LookPath(name)
		}
		if err != nil {
			packages[from] = true
		}
	}
	var faults []string
	if len(packages) > 0 {
		faults = append(faults, "these packages are not installed; on Debian 12: apt-get install --no-install-recommends "+strings.Join(slices.Sorted(maps.Keys(packages)), " "))
	}
	if _, err := os.Stat("/dev/net/tun"); err != nil {
		faults = append(faults, "/dev/net/tun does not exist: run modprobe tun")
	}
	if len(faults) == 0 {
		return nil
	}
	return errors.New("make test-boot cannot run: " + strings.Join(faults, "; "))
}
