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

// needed are programs and files that must be here, with the Debian package that has each.
var needed = map[string]string{
	"qemu-system-x86_64": "qemu-system-x86", "qemu-img": "qemu-utils", "mmdebstrap": "mmdebstrap", "mke2fs": "e2fsprogs", "genisoimage": "genisoimage",
	"dnsmasq": "dnsmasq-base", "ip": "iproute2", "gcc": "gcc", "/usr/include/blkid/blkid.h": "libblkid-dev",
}

// builtDrover is a variable of the environment with drover's binary, which was built outside of the namespace.
const builtDrover = "DROVER_BOOT_BINARY"

// set are the images.
var set images.Set

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := 1
	var err error
	if guests.Isolated() {
		set, err = images.Prepare(ctx, os.Stderr)
		if err = errors.Join(err, guests.Begin()); err == nil {
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

// outside builds what needs the network, and runs the tests in a network namespace.
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

// missing names in one error all that must be installed.
func missing() error {
	if os.Geteuid() != 0 {
		return errors.New("make test-boot makes network devices and file systems of other owners: run it as root")
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
		faults = append(faults, "there is no /dev/net/tun: modprobe tun")
	}
	if len(faults) == 0 {
		return nil
	}
	return errors.New("make test-boot needs what is not here: " + strings.Join(faults, "; "))
}
