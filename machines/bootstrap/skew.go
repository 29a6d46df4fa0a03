package bootstrap

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/version"
)

// maxSkew is how many minor versions a kubelet may be older than the API server (Kubernetes' version skew policy).
const maxSkew = 3

// CheckSkew returns an error when the version skew policy does not allow a kubelet of one version to join an API server of
// another version: the kubelet is newer by a minor version, or more than three minor versions older.
func CheckSkew(kubelet, server string) error {
	want, err := version.ParseSemantic(kubelet)
	if err != nil {
		return fmt.Errorf("spec.versions.kubelet %q is not a version such as 1.33.4", kubelet)
	}
	have, err := version.ParseGeneric(server)
	if err != nil {
		return fmt.Errorf("reading the API server's version %q: %w", server, err)
	}
	oldest := uint(0)
	if have.Minor() > maxSkew {
		oldest = have.Minor() - maxSkew
	}
	if have.Major() == want.Major() && want.Minor() <= have.Minor() && want.Minor() >= oldest {
		return nil
	}
	return fmt.Errorf("spec.versions.kubelet %s does not fit the API server's %s: allowed are %d.%d to %d.%d",
		kubelet, have, have.Major(), oldest, have.Major(), have.Minor())
}
