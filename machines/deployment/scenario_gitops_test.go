package deployment_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/jsonmergepatch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// tool describes a program that applies manifests. The argument former of apply is the manifest that the program applied
// before, or nil.
type tool struct {
	name string
	// unchanged is the size that results when the program applies a manifest with replicas 4 after the autoscaler has lowered
	// the size to 3.
	unchanged int32
	// refused is true when the program refuses to change a size that another field manager owns.
	refused bool
	apply   func(h *harness, former, manifest *v1alpha1.MachineDeployment) error
}

// sizesAfter returns values of spec.replicas in a second manifest, each with the size that results. The first manifest had replicas 4, and
// the autoscaler has removed one Machine since then.
func (t tool) sizesAfter() map[string]struct {
	manifest *int32
	size     int32
	refused  bool
} {
	return map[string]struct {
		manifest *int32
		size     int32
		refused  bool
	}{
		"dropped": {nil, 3, false},
		"kept":    {size(4), t.unchanged, t.refused},
		"raised":  {size(6), map[bool]int32{true: 3, false: 6}[t.refused], t.refused},
		"lowered": {size(2), map[bool]int32{true: 3, false: 2}[t.refused], t.refused},
	}
}

var kubectlTools = []tool{
	{"kubectl apply", 4, false, func(h *harness, _, m *v1alpha1.MachineDeployment) error { return h.kubectlApply(m) }},
	{"kubectl apply --server-side", 3, true, func(h *harness, _, m *v1alpha1.MachineDeployment) error {
		return h.kubectlApply(m, "--server-side")
	}},
	{"kubectl apply --server-side --force-conflicts", 4, false, func(h *harness, _, m *v1alpha1.MachineDeployment) error {
		return h.kubectlApply(m, "--server-side", "--force-conflicts")
	}},
}

// mergingTools send a merge patch, which needs no kubectl and no real API server.
var mergingTools = []tool{
	// Helm compares a custom resource only with the manifest that it applied before, so it does not see what the autoscaler wrote.
	{"Helm", 3, false, func(h *harness, former, m *v1alpha1.MachineDeployment) error { return h.merge(former, m, former) }},
	// Argo CD computes its patch from the former manifest, the new manifest and the live object.
	{"Argo CD", 4, false, func(h *harness, former, m *v1alpha1.MachineDeployment) error {
		if former == nil {
			return h.merge(nil, m, nil)
		}
		return h.merge(former, m, h.get(m.Name))
	}},
}

// manifests applies manifests with kubectl while a removal is under way.
func (h *harness) manifests(t *testing.T) {
	for _, tool := range kubectlTools {
		for what := range tool.sizesAfter() {
			t.Run(tool.test(what), func(t *testing.T) {
				t.Parallel()
				h.on(t).manifest(tool, what)
			})
		}
	}
}

func TestApplyingAManifestAsAMergePatchKeepsSpecRemovals(t *testing.T) {
	for _, tool := range mergingTools {
		for what := range tool.sizesAfter() {
			t.Run(tool.test(what), func(t *testing.T) {
				inFlip(t, 0, func(h *harness) { h.manifest(tool, what) })
			})
		}
	}
}

// test returns the name of a subtest. The parameter what states how spec.replicas of the second manifest differs from the first: dropped,
// kept, raised or lowered.
func (t tool) test(what string) string {
	content := map[string]string{
		"dropped": "without spec.replicas", "kept": "with the previous spec.replicas", "raised": "with a higher spec.replicas", "lowered": "with a lower spec.replicas",
	}[what]
	return "the Machine in spec.removals is deleted even when " + t.name + " gets a manifest " + content + " (CA-C60, CA-C88)"
}

// manifest applies a first manifest, names a Machine for removal, and applies a second manifest. The parameter what is the key of the
// second manifest in sizesAfter.
func (h *harness) manifest(tool tool, what string) {
	h.t.Helper()
	want := tool.sizesAfter()[what]
	name := "git-" + strings.ToLower(strings.NewReplacer(" ", "", "-", "").Replace(tool.name+what))
	name = name[:min(len(name), 45)]
	first, second := group(name, size(4)), group(name, want.manifest)
	h.deleteLater(first)
	if err := tool.apply(h, nil, first); err != nil {
		h.t.Fatal(err)
	}
	h.settled(name, 4)
	before := h.machines(name)
	h.remove(name, before[1])
	err := tool.apply(h, first, second)
	if refused := err != nil && strings.Contains(err.Error(), "conflict"); refused != want.refused {
		h.t.Fatalf("apply refused %v, want %v: %v", refused, want.refused, err)
	}
	h.survivors(name, before, before[1], want.size)
}

// survivors checks that a removal deleted the named Machine, and that only surplus Machines were deleted besides it.
func (h *harness) survivors(name string, before []v1alpha1.Machine, victim v1alpha1.Machine, n int32) {
	h.t.Helper()
	h.settled(name, n)
	left, kept := names(h.machines(name)), int32(0)
	for _, m := range before {
		if left[m.Name] {
			kept++
		}
	}
	if left[victim.Name] || kept != min(n, int32(len(before)-1)) {
		h.t.Errorf("of %d Machines without %s %d are left at a size of %d (CA-C88)", len(before), victim.Name, kept, n)
	}
	if got := h.get(name).Spec.Replicas; got == nil || *got != n {
		h.t.Errorf("the size is %v, want %d", got, n)
	}
}

// edited runs kubectl edit, with an editor that changes or removes the size while a removal is under way.
func (h *harness) edited(t *testing.T) {
	for what, want := range map[string]struct {
		script string
		size   int32
	}{
		"dropped": {`/^  replicas: /d`, 3},
		"raised":  {`s/^  replicas: .*/  replicas: 6/`, 6},
		"lowered": {`s/^  replicas: .*/  replicas: 2/`, 2},
	} {
		t.Run("the Machine in spec.removals is deleted although spec.replicas is "+what+" with kubectl edit (CA-C60)", func(t *testing.T) {
			h := h.on(t)
			editor := filepath.Join(t.TempDir(), "editor")
			if err := os.WriteFile(editor, []byte("#!/bin/sh\nsed -i '"+want.script+"' \"$1\"\n"), 0o700); err != nil {
				t.Fatal(err)
			}
			t.Setenv("KUBE_EDITOR", editor)
			name := "edited-" + what
			h.create(group(name, size(4)))
			h.settled(name, 4)
			before := h.machines(name)
			h.remove(name, before[2])
			if out, err := h.kube.Kubectl(t.Context(), "edit", "machinedeployment", name); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			h.survivors(name, before, before[2], want.size)
		})
	}
}

func (h *harness) kubectlApply(d *v1alpha1.MachineDeployment, flags ...string) error {
	d = d.DeepCopy()
	d.TypeMeta = metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "MachineDeployment"}
	body, err := json.Marshal(d)
	if err != nil {
		return err
	}
	file := filepath.Join(h.t.TempDir(), "manifest.json")
	if err := os.WriteFile(file, body, 0o600); err != nil {
		return err
	}
	out, err := h.kube.Kubectl(h.t.Context(), append([]string{"apply", "-f", file}, flags...)...)
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// merge applies the JSON merge patch that leads from one manifest to the next, or creates the object when there is no former manifest.
func (h *harness) merge(former, manifest, live *v1alpha1.MachineDeployment) error {
	if former == nil {
		return h.client.Create(h.t.Context(), manifest.DeepCopy())
	}
	patch, err := jsonmergepatch.CreateThreeWayJSONMergePatch(plain(former), plain(manifest), plain(live))
	if err != nil {
		return err
	}
	return h.client.Patch(h.t.Context(), group(manifest.Name, nil), client.RawPatch(types.MergePatchType, patch), client.FieldOwner("gitops"))
}

// plain returns a deployment as JSON without the fields that a manifest does not have, such as the status.
func plain(d *v1alpha1.MachineDeployment) []byte {
	body := must(json.Marshal(d))
	u := &unstructured.Unstructured{}
	_ = json.Unmarshal(body, &u.Object)
	unstructured.RemoveNestedField(u.Object, "status")
	unstructured.RemoveNestedField(u.Object, "metadata", "creationTimestamp")
	return must(json.Marshal(u.Object))
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
