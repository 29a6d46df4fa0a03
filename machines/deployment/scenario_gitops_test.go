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

// tool brings a manifest to the API server the way a program does. former is the manifest that it brought before, nil at
// first.
type tool struct {
	name string
	// kept is the size that stands when the manifest still says 4, and the autoscaler has gone to 3.
	kept int32
	// refused: an own size is not given up without force.
	refused bool
	bring   func(w *world, former, manifest *v1alpha1.MachineDeployment) error
}

// sizesAfter are the sizes that a second manifest leads to; the first said 4, and the autoscaler removed one since.
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
		"dropped":        {nil, 3, false},
		"kept":           {size(4), t.kept, t.refused},
		"raised against": {size(6), map[bool]int32{true: 3, false: 6}[t.refused], t.refused},
		"lowered below":  {size(2), map[bool]int32{true: 3, false: 2}[t.refused], t.refused},
	}
}

var tools = []tool{
	{"kubectl apply", 4, false, func(w *world, _, m *v1alpha1.MachineDeployment) error { return w.kubectlApply(m) }},
	{"kubectl apply --server-side", 3, true, func(w *world, _, m *v1alpha1.MachineDeployment) error {
		return w.kubectlApply(m, "--server-side")
	}},
	{"kubectl apply --server-side --force-conflicts", 4, false, func(w *world, _, m *v1alpha1.MachineDeployment) error {
		return w.kubectlApply(m, "--server-side", "--force-conflicts")
	}},
	// Helm compares custom resources with the former manifest alone, so it does not see what the autoscaler wrote.
	{"Helm", 3, false, func(w *world, former, m *v1alpha1.MachineDeployment) error { return w.merge(former, m, former) }},
	// Argo CD merges the former manifest, the new one and what lives.
	{"Argo CD", 4, false, func(w *world, former, m *v1alpha1.MachineDeployment) error {
		if former == nil {
			return w.merge(nil, m, nil)
		}
		return w.merge(former, m, w.get(m.Name))
	}},
}

// TestManifests brings manifests while a removal is in flight.
func (w *world) manifests(t *testing.T) {
	for _, tool := range tools {
		for what, want := range tool.sizesAfter() {
			t.Run("CA-C60 CA-C88 "+tool.name+", replicas "+what, func(t *testing.T) {
				t.Parallel()
				w := w.on(t)
				name := "git-" + strings.ToLower(strings.NewReplacer(" ", "", "-", "").Replace(tool.name+what))
				name = name[:min(len(name), 45)]
				first, second := group(name, size(4)), group(name, want.manifest)
				w.deleteLater(first)
				if err := tool.bring(w, nil, first); err != nil {
					t.Fatal(err)
				}
				w.settled(name, 4)
				before := w.machines(name)
				w.remove(name, before[1])
				err := tool.bring(w, first, second)
				if refused := err != nil && strings.Contains(err.Error(), "conflict"); refused != want.refused {
					t.Fatalf("refused: %v, want %v: %v", refused, want.refused, err)
				}
				w.survivors(name, before, before[1], want.size)
			})
		}
	}
}

// survivors holds that a removal took the named Machine, and that of the others only those went that are too many.
func (w *world) survivors(name string, before []v1alpha1.Machine, victim v1alpha1.Machine, n int32) {
	w.t.Helper()
	w.settled(name, n)
	left, kept := names(w.machines(name)), int32(0)
	for _, m := range before {
		if left[m.Name] {
			kept++
		}
	}
	if left[victim.Name] || kept != min(n, int32(len(before)-1)) {
		w.t.Errorf("CA-C88 of %d Machines without %s %d are left in a size of %d", len(before), victim.Name, kept, n)
	}
	if got := w.get(name).Spec.Replicas; got == nil || *got != n {
		w.t.Errorf("the size is %v, want %d", got, n)
	}
}

// edited is kubectl edit, with an editor that changes the size or takes it out while a removal is in flight.
func (w *world) edited(t *testing.T) {
	for what, want := range map[string]struct {
		script string
		size   int32
	}{
		"dropped": {`/^  replicas: /d`, 3},
		"raised":  {`s/^  replicas: .*/  replicas: 6/`, 6},
		"lowered": {`s/^  replicas: .*/  replicas: 2/`, 2},
	} {
		t.Run("CA-C60 kubectl edit, replicas "+what, func(t *testing.T) {
			w := w.on(t)
			editor := filepath.Join(t.TempDir(), "editor")
			if err := os.WriteFile(editor, []byte("#!/bin/sh\nsed -i '"+want.script+"' \"$1\"\n"), 0o700); err != nil {
				t.Fatal(err)
			}
			t.Setenv("KUBE_EDITOR", editor)
			name := "edited-" + what
			w.create(group(name, size(4)))
			w.settled(name, 4)
			before := w.machines(name)
			w.remove(name, before[2])
			if out, err := w.kube.Kubectl(t.Context(), "edit", "machinedeployment", name); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			w.survivors(name, before, before[2], want.size)
		})
	}
}

func (w *world) kubectlApply(d *v1alpha1.MachineDeployment, flags ...string) error {
	d = d.DeepCopy()
	d.TypeMeta = metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "MachineDeployment"}
	body, err := json.Marshal(d)
	if err != nil {
		return err
	}
	file := filepath.Join(w.t.TempDir(), "manifest.json")
	if err := os.WriteFile(file, body, 0o600); err != nil {
		return err
	}
	out, err := w.kube.Kubectl(w.t.Context(), append([]string{"apply", "-f", file}, flags...)...)
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// merge sends the JSON merge patch between three manifests, or creates the object when there is no former one.
func (w *world) merge(former, manifest, live *v1alpha1.MachineDeployment) error {
	if former == nil {
		return w.client.Create(w.t.Context(), manifest.DeepCopy())
	}
	patch, err := jsonmergepatch.CreateThreeWayJSONMergePatch(plain(former), plain(manifest), plain(live))
	if err != nil {
		return err
	}
	return w.client.Patch(w.t.Context(), group(manifest.Name, nil), client.RawPatch(types.MergePatchType, patch), client.FieldOwner("gitops"))
}

// plain is an object as a manifest holds it.
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
