package kube

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// assetsVariable is the environment variable with the folder of binaries to use instead of building
// them. controller-runtime's envtest reads the same variable.
const assetsVariable = "KUBEBUILDER_ASSETS"

// Binaries returns the folder that holds etcd, kube-apiserver, kube-controller-manager,
// kube-scheduler, kubectl and kwok. It is $KUBEBUILDER_ASSETS when that is set. Otherwise Binaries
// builds them once per version into the user's cache folder, and reuses them later. The build takes
// minutes, and writes its progress to log. Several processes may call Binaries concurrently: one
// builds, and the others wait.
func Binaries(ctx context.Context, log io.Writer) (dir string, err error) {
	return binaries(ctx, log, Options{Components: All()}.binaries())
}

// binaries returns a folder that holds the named binaries. It builds them first if they are missing, as Binaries does.
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

// checkAssets names all missing binaries in one error.
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
