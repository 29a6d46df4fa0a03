package kube_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drover-project/drover/test/kube"
)

func TestWhenAComponentEndsStartReturnsItsErrorAndDeletesTheTestClustersFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cluster")
	_, err := kube.Start(t.Context(), kube.Options{Dir: dir, APIServerFlags: []string{"--no-such-flag"}})
	if err == nil || !strings.Contains(err.Error(), "kube-apiserver ended") || !strings.Contains(err.Error(), "unknown flag: --no-such-flag") {
		t.Errorf("the error is %v, want the component and its last words", err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder is still there (%v)", err)
	}
}

func TestTheErrorOfStartNamesEveryMissingBinary(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"etcd", "kubectl"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("KUBEBUILDER_ASSETS", dir)
	_, err := kube.Start(t.Context(), kube.Options{Components: []kube.Component{kube.Scheduler}})
	want := "KUBEBUILDER_ASSETS=" + dir + " lacks kube-apiserver, kube-scheduler: it must be a folder that holds the executables " +
		"etcd, kube-apiserver, kubectl, kube-scheduler; or unset it to have them built"
	if err == nil || err.Error() != want {
		t.Errorf("the error is\n%v, want\n%s", err, want)
	}
}

func TestInvalidOptionsOfATestClusterAreRefused(t *testing.T) {
	for name, test := range map[string]struct {
		options kube.Options
		want    string
	}{
		"an unknown component is refused": {
			kube.Options{Components: []kube.Component{"kube-proxy"}},
			`unknown component "kube-proxy" in Options.Components: use some of [kube-controller-manager kube-scheduler kwok]`,
		},
		"a flag that sets the API server's port is refused": {
			kube.Options{APIServerFlags: []string{"--v=2", "--secure-port=6443"}},
			"--secure-port in Options.APIServerFlags: Start chooses that itself, leave it out",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := kube.Start(t.Context(), test.options)
			if err == nil {
				c.Stop()
			}
			if err == nil || err.Error() != test.want {
				t.Errorf("the error is %v, want %s", err, test.want)
			}
		})
	}
}
