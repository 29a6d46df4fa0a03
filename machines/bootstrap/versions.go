package bootstrap

import (
	"cmp"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
)

// The versions of the programs that the setup installs when the image lacks them. Their publishers' advisories are compared with them for
// each release (hack/release/advisories.tsv).
const (
	// DefaultContainerd is of the line with long-term support.
	DefaultContainerd = "2.3.7"
	DefaultRunc       = "1.5.3"
	// DefaultCNIPlugins is what Kubernetes 1.37 is tested with.
	DefaultCNIPlugins = "1.9.1"
)

// versionOf returns a version without a leading v: the given one, or else the default one.
func versionOf(given, fallback string) string {
	return strings.TrimPrefix(cmp.Or(given, fallback), "v")
}

// checkVersion returns an error for a version that is given and invalid.
func checkVersion(of, given, example string) error {
	if _, err := version.ParseSemantic(given); given != "" && err != nil {
		return fmt.Errorf("the nodes' %s version %q is not a version such as %s", of, given, example)
	}
	return nil
}
