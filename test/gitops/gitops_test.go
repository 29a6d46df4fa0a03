package gitops

import (
	"fmt"
	"strings"
	"testing"

	"github.com/fluxcd/pkg/ssa"
	"github.com/fluxcd/pkg/ssa/jsondiff"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ours lists the paths of the fields that drover writes into the spec of a group whose manifest belongs to a user.
var ours = []string{"/spec/replicas", "/spec/removals", "/spec/placeholderSeries"}

// step describes applying a manifest again after the autoscaler has changed the size from 4 to 3: the replicas in the
// manifest, and the size that follows.
type step struct {
	replicas int
	size     int64
	// refused is true when the program must get a conflict and change nothing.
	refused bool
}

func TestWhatOtherProgramsDoToTheSizeThatTheAutoscalerHasSet(t *testing.T) {
	w := newWorld(t)
	without, same := step{-1, 3, false}, step{4, 4, false}
	t.Run("Flux keeps the autoscaler's size when the manifest names no size (CA-C60)", func(t *testing.T) { w.in(t).flux("flux-without", without) })
	t.Run("Flux resets the autoscaler's size to the size that the manifest names (CA-C60)", func(t *testing.T) { w.in(t).flux("flux-same", same) })
	t.Run("Flux keeps the autoscaler's size when a rule makes Flux ignore the size in the manifest (CA-C60)", func(t *testing.T) {
		w.in(t).flux("flux-ignored", step{4, 3, false}, jsondiff.IgnoreRule{Paths: ours, Selector: &jsondiff.Selector{Kind: "MachineDeployment"}})
	})
	t.Run("Flux keeps the autoscaler's size when the manifest has the annotation ssa: IfNotPresent (CA-C60)", func(t *testing.T) { w.in(t).fluxIfNotPresent("flux-once") })
	for name, row := range map[string]struct {
		step
		flags []string
	}{
		"helm-client": {step{4, 3, false}, []string{"--server-side=false"}},
		"helm-raised": {step{6, 6, false}, []string{"--server-side=false"}},
		// The size is 0 because Helm removes spec.replicas. drover's controller would restore the last size, but it does not run in
		// this test.
		"helm-dropped": {step{-1, 0, false}, []string{"--server-side=false"}},
		"helm-server":  {step{4, 3, true}, []string{"--server-side=true"}},
		"helm-forced":  {same, []string{"--server-side=true", "--force-conflicts"}},
		"helm-without": {without, []string{"--server-side=true"}},
	} {
		t.Run(fmt.Sprintf("helm upgrade %s leads to the size %d when the manifest has replicas %d (-1 means none) (CA-C60)", strings.Join(row.flags, " "), row.size, row.replicas), func(t *testing.T) { w.in(t).helm(name, row.step, row.flags...) })
	}
	t.Run("Terraform keeps the autoscaler's size when the manifest names no size (CA-C60)", func(t *testing.T) { w.in(t).apply("tf-without", "Terraform", without) })
	t.Run("Terraform gets a conflict and changes nothing when the manifest names a size (CA-C60)", func(t *testing.T) { w.in(t).apply("tf-same", "Terraform", step{4, 3, true}) })
	t.Run("Argo CD's server-side apply resets the autoscaler's size to the size that the manifest names (CA-C60)", func(t *testing.T) {
		w.in(t).apply("argo-same", "argocd-controller", same, client.ForceOwnership)
	})
}

// flux applies a manifest with the library that Flux's kustomize-controller uses.
func (w *world) flux(name string, s step, rules ...jsondiff.IgnoreRule) {
	m := ssa.NewResourceManager(w.client, nil, ssa.Owner{Field: "kustomize-controller", Group: "kustomize.toolkit.fluxcd.io"})
	options := ssa.DefaultApplyOptions()
	options.DriftIgnoreRules = rules
	first := s.replicas
	if first < 0 {
		first = 4
	}
	if _, err := m.Apply(w.Context(), w.parse(manifest(name, first)), options); err != nil {
		w.Fatal(err)
	}
	w.scales(name, 3)
	again := w.parse(manifest(name, s.replicas))
	if s.replicas < 0 {
		// Flux's field manager must not own spec.replicas. Otherwise the next apply, which does not name the field,
		// would remove it.
		w.dropSize(name, "kustomize-controller")
	}
	change, _, _, err := m.Diff(w.Context(), again.DeepCopy(), ssa.DiffOptions{DriftIgnoreRules: rules})
	if err != nil {
		w.Fatal(err)
	}
	if drifts := change.Action == ssa.ConfiguredAction; drifts != (s.size != 3) {
		w.Errorf("Flux reports %s", change)
	}
	if _, err := m.Apply(w.Context(), again, options); err != nil {
		w.Fatal(err)
	}
	w.expect(name, s.size)
}

// dropSize makes a field manager give up the ownership of the field replicas.
func (w *world) dropSize(name, manager string) {
	w.Helper()
	o := w.parse(manifest(name, -1))
	if err := w.client.Apply(w.Context(), client.ApplyConfigurationFromUnstructured(o), client.FieldOwner(manager), client.ForceOwnership); err != nil {
		w.Fatal(err)
	}
}

// fluxIfNotPresent applies an object with the annotation ssa: IfNotPresent, which Flux must create and then leave unchanged.
func (w *world) fluxIfNotPresent(name string) {
	const key, value = "kustomize.toolkit.fluxcd.io/ssa", "IfNotPresent"
	m := ssa.NewResourceManager(w.client, nil, ssa.Owner{Field: "kustomize-controller", Group: "kustomize.toolkit.fluxcd.io"})
	options := ssa.DefaultApplyOptions()
	options.IfNotPresentSelector = map[string]string{key: value}
	marked := func(replicas int) *unstructured.Unstructured {
		o := w.parse(manifest(name, replicas))
		annotations := o.GetAnnotations()
		annotations[key] = value
		o.SetAnnotations(annotations)
		return o
	}
	if _, err := m.Apply(w.Context(), marked(4), options); err != nil {
		w.Fatal(err)
	}
	w.scales(name, 3)
	if _, err := m.Apply(w.Context(), marked(6), options); err != nil {
		w.Fatal(err)
	}
	w.expect(name, 3)
}

// helm installs a chart, and upgrades it once the autoscaler has changed the size.
func (w *world) helm(name string, s step, flags ...string) {
	c := w.chart(name)
	install := flags[0]
	if err := c.runs("install", 4, install); err != nil {
		w.Fatal(err)
	}
	w.scales(name, 3)
	err := c.runs("upgrade", s.replicas, flags...)
	if refused := err != nil && strings.Contains(err.Error(), "conflict"); refused != s.refused || err != nil && !refused {
		w.Fatalf("refused: %v, want %v: %v", refused, s.refused, err)
	}
	w.expect(name, s.size)
}

// apply sends the request of a program that uses server-side apply.
func (w *world) apply(name, manager string, s step, options ...client.ApplyOption) {
	options = append(options, client.FieldOwner(manager))
	send := func(replicas int) error {
		return w.client.Apply(w.Context(), client.ApplyConfigurationFromUnstructured(w.parse(manifest(name, replicas))), options...)
	}
	if err := send(s.replicas); err != nil {
		w.Fatal(err)
	}
	w.scales(name, 3)
	err := send(s.replicas)
	if refused := err != nil && strings.Contains(err.Error(), "conflict"); refused != s.refused || err != nil && !refused {
		w.Fatalf("refused: %v, want %v: %v", refused, s.refused, err)
	}
	w.expect(name, s.size)
}
