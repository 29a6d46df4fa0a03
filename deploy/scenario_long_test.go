//go:build cluster

package deploy_test

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/test/kube"
)

// Users can switch between client-side and server-side apply without --force-conflicts.
func TestClientSideAndServerSideApplyCanFollowEachOther(t *testing.T) {
	for name, ways := range map[string][]string{
		"kubectl apply succeeds four times when client-side and server-side alternate, beginning with client-side (F-43)": {"false", "true", "false", "true"},
		"kubectl apply succeeds four times when client-side and server-side alternate, beginning with server-side (F-43)": {"true", "false", "true", "false"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			on := kube.ForTest(t, kube.Options{})
			for _, way := range ways {
				for _, dir := range []string{"crds", "."} {
					if out, err := on.Kubectl(t.Context(), "apply", "--server-side="+way, "-k", dir); err != nil {
						t.Fatalf("applying %s with --server-side=%s: %v\n%s", dir, way, err, out)
					}
				}
			}
		})
	}
}

func TestTheAdmissionPolicyCanCheckAHugeTemplate(t *testing.T) {
	t.Run("a template whose providerSpec has 20000 unknown fields is accepted (F-34)", func(t *testing.T) {
		expect(t, "", admin.Create(t.Context(), withForeignKeys(t, 20_000), client.DryRunAll))
	})
}
