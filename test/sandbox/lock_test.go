package sandbox

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/deploy"
)

func TestASecondSandboxIsRefusedWithAnErrorThatNamesTheFirst(t *testing.T) {
	path := filepath.Join(t.TempDir(), "drover", "sandbox.lock")
	release, err := lockFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_, err = lockFile(path)
	if err == nil || !strings.Contains(err.Error(), "another sandbox is running") || !strings.Contains(err.Error(), fmt.Sprint(os.Getpid())) {
		t.Errorf("got %v", err)
	}
	release()
	release, err = lockFile(path)
	if err != nil {
		t.Fatalf("after the first has ended: %v", err)
	}
	release()
}

func TestTheLockFileOfAKilledSandboxDoesNotBlockTheNextSandbox(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sandbox.lock")
	if err := os.WriteFile(path, []byte("4194305\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	release, err := lockFile(path)
	if err != nil {
		t.Fatal(err)
	}
	release()
}

func TestWhichGRPCAddressesTheSandboxAccepts(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	for name, c := range map[string]struct{ address, want string }{
		"a free port is accepted":                   {"127.0.0.1:0", ""},
		"a port in use is refused":                  {taken.Addr().String(), "--grpc-address " + taken.Addr().String() + " cannot be listened on"},
		"an address other than loopback is refused": {"0.0.0.0:0", "loopback alone"},
		"an address without a port is refused":      {"127.0.0.1", "is not host:port"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := claim("--grpc-address", c.address)
			if c.want == "" && (err != nil || strings.HasSuffix(got, ":0")) {
				t.Errorf("got %q, %v", got, err)
			}
			if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestTheSandboxReportsAPortInUseBeforeItStartsAnyProgram(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	dir := filepath.Join(t.TempDir(), "sandbox")
	_, err = Start(t.Context(), Options{Dir: dir, HealthAddress: taken.Addr().String()})
	if err == nil || !strings.Contains(err.Error(), "--health-address") {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the folder %s was made", dir)
	}
}

func TestTheSandboxReadsTheAutoscalersFlagsFromDroversFileOfRecommendedFlags(t *testing.T) {
	if got := flagsOf("# why\n--a=1\n\n  --b\n"); strings.Join(got, " ") != "--a=1 --b" {
		t.Errorf("got %q", got)
	}
	if got := flagsOf(deploy.AutoscalerFlags); !slices.Contains(got, "--startup-taint="+startupTaint) {
		t.Errorf("got %q: the startup taint is not among them", got)
	}
}

func TestTheSandboxFindsTheAutoscalersBinaryByEnvironmentVariableOrPATH(t *testing.T) {
	program := filepath.Join(t.TempDir(), "cluster-autoscaler")
	if err := os.WriteFile(program, []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", filepath.Dir(program))
	if got, err := FindAutoscaler(); got != program || err != nil {
		t.Errorf("on the PATH: got %q, %v", got, err)
	}
	t.Setenv("CLUSTER_AUTOSCALER", "/nowhere/ca")
	if _, err := FindAutoscaler(); err == nil || !strings.Contains(err.Error(), "CLUSTER_AUTOSCALER=/nowhere/ca") {
		t.Errorf("named, but not there: got %v", err)
	}
	t.Setenv("PATH", "")
	t.Setenv("CLUSTER_AUTOSCALER", "")
	if got, err := FindAutoscaler(); got != "" || err != nil {
		t.Errorf("none: got %q, %v", got, err)
	}
}

func TestTheSandboxRefusesInvalidOptionsBeforeItStartsAnyProgram(t *testing.T) {
	for name, c := range map[string]struct {
		o    Options
		says string
	}{
		"the path of drover's binary is refused when no file exists there": {Options{Drover: "/nowhere/drover"}, "--drover /nowhere/drover"},
		"the path of drover's binary is refused when it leads to a folder": {Options{Drover: t.TempDir()}, "name drover's binary"},
		"a negative boot time is refused":                                  {Options{BootTime: -time.Second}, "--boot-time -1s"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Start(t.Context(), c.o); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want %q", err, c.says)
			}
		})
	}
}
