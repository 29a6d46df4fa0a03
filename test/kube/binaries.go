package kube

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// assetsVariable names a folder with binaries to be used instead of building
// them, as controller-runtime's envtest reads it.
const assetsVariable = "KUBEBUILDER_ASSETS"

// Binaries returns the folder that holds etcd, kube-apiserver,
// kube-controller-manager, kube-scheduler, kubectl and kwok. It is
// $KUBEBUILDER_ASSETS when that is set; else they are built there once per
// version, into the user's cache folder, which takes minutes, with progress
// written to log, and then reused. Several processes may call it at once: one
// builds, the others wait.
func Binaries(ctx context.Context, log io.Writer) (dir string, err error) {
	return binaries(ctx, log, Options{Components: All()}.binaries())
}

// binaries is Binaries for a caller that needs just those named.
func binaries(ctx context.Context, log io.Writer, names []string) (string, error) {
	if assets := os.Getenv(assetsVariable); assets != "" {
		return assets, checkAssets(assets, names)
	}
	source, err := sourceDir()
	if err != nil {
		return "", err
	}
	return cached(ctx, log, source)
}

// checkAssets names everything that is missing at once, so that one look is enough.
func checkAssets(dir string, names []string) error {
	var missing []string
	for _, name := range names {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.IsDir() || info.Mode().Perm()&0o111 == 0 {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("%s=%s lacks %s: it must be a folder that holds the executables %s; or unset it to have them built",
		assetsVariable, dir, strings.Join(missing, ", "), strings.Join(names, ", "))
}
