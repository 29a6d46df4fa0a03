//go:build cluster

package deploy_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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
	t.Run("a template whose providerSpec has 20000 unknown fields is refused because of its size, and not because a check is too expensive (F-34, F-96)", func(t *testing.T) {
		expect(t, "65536 are the most", admin.Create(t.Context(), withForeignKeys(t, 20_000), client.DryRunAll))
	})
}

// docs/api.md describes what happens when a manifest has fields that another API server set.
func TestApplyingAManifestThatWasExportedFromAnotherAPIServer(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name, keeps, how string
		first            bool
	}{
		{"client-side apply of a manifest with a resourceVersion succeeds once and fails when it is repeated (F-46)", "resourceVersion", "--server-side=false", true},
		{"server-side apply of a manifest with a resourceVersion succeeds once and fails when it is repeated (F-46)", "resourceVersion", "--server-side", true},
		{"client-side apply of a manifest with a uid succeeds once and fails when it is repeated (F-46)", "uid", "--server-side=false", true},
		{"server-side apply of a manifest with a uid always fails (F-46)", "uid", "--server-side", false},
	} {
		t.Run(row.name, func(t *testing.T) {
			// These tests run in parallel, because kubectl waits some seconds between its attempts at an object that
			// another client changed.
			t.Parallel()
			exported := read(t, "testdata/exported.yaml")
			o := strip(exported)
			o.SetNamespace(namespace(t, admin))
			kept, _, _ := unstructured.NestedString(exported.Object, "metadata", row.keeps)
			if err := unstructured.SetNestedField(o.Object, kept, "metadata", row.keeps); kept == "" || err != nil {
				t.Fatalf("%s is %q: %v", row.keeps, kept, err)
			}
			file := temp(t, o)
			for i := range 3 {
				out, err := cluster.Kubectl(t.Context(), "apply", row.how, "-f", file)
				if want := row.first && i == 0; (err == nil) != want {
					t.Errorf("apply %d: succeeded is %v, want %v: %v %s", i+1, err == nil, want, err, out)
				}
			}
		})
	}
}
