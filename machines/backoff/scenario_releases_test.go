package backoff_test

import (
	"context"
	"slices"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/deploy"
	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/test/kube"
)

// group is a MachineDeployment on a real API server. Several releases of drover write its status.
type group struct {
	*testing.T
	client client.Client
	key    client.ObjectKey
}

// newGroup starts a control plane with the CRDs of this release, and creates the deployment.
func newGroup(t *testing.T) *group {
	cluster := kube.ForTest(t, kube.Options{})
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	c, err := client.New(cluster.Config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	if err := deploy.Apply(t.Context(), c, "crds"); err != nil {
		t.Fatal(err)
	}
	d := &v1alpha1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "nodes"}}
	d.Spec.Selector.MatchLabels = map[string]string{"pool": "nodes"}
	d.Spec.Template.Metadata.Labels = d.Spec.Selector.MatchLabels
	if err := c.Create(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	// The deployment controller writes this field under its own field manager.
	d.Status.ObservedGeneration = d.Generation
	if err := c.Status().Update(t.Context(), d, client.FieldOwner("drover-deployment")); err != nil {
		t.Fatal(err)
	}
	return &group{t, c, client.ObjectKeyFromObject(d)}
}

// write applies status fields as the Machine controller of every release does: by server-side apply under one field manager.
func (g *group) write(fields map[string]any, more ...client.SubResourceApplyOption) error {
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(), "kind": v1alpha1.MachineDeploymentKind.Kind,
		"metadata": map[string]any{"namespace": g.key.Namespace, "name": g.key.Name},
		"status":   fields,
	}}
	more = append(more, client.FieldOwner("drover-machine"), client.ForceOwnership)
	return g.client.Status().Apply(g.Context(), client.ApplyConfigurationFromUnstructured(u), more...)
}

func (g *group) mustWrite(fields map[string]any) {
	g.Helper()
	if err := g.write(fields); err != nil {
		g.Fatal(err)
	}
}

// expectStatus fails the test unless status.recentJoins and status.joinOutcomes have the given values.
func (g *group) expectStatus(letters string, outcomes ...v1alpha1.JoinOutcome) {
	g.Helper()
	var d v1alpha1.MachineDeployment
	if err := g.client.Get(g.Context(), g.key, &d); err != nil {
		g.Fatal(err)
	}
	if d.Status.RecentJoins != letters || !slices.Equal(d.Status.JoinOutcomes, outcomes) {
		g.Errorf("the status holds %q and %v, want %q and %v", d.Status.RecentJoins, d.Status.JoinOutcomes, letters, outcomes)
	}
}

// define applies the CRD of MachineDeployments with status.joinOutcomes, or without that field as in the old release. It
// returns once the API server serves the CRD.
func (g *group) define(withOutcomes bool) {
	g.Helper()
	objects, err := deploy.Objects("crds")
	if err != nil {
		g.Fatal(err)
	}
	i := slices.IndexFunc(objects, func(o *unstructured.Unstructured) bool { return o.GetName() == "machinedeployments.cluster.k8s.io" })
	crd := objects[i]
	if !withOutcomes {
		versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
		unstructured.RemoveNestedField(versions[0].(map[string]any), "schema", "openAPIV3Schema", "properties", "status", "properties", "joinOutcomes")
		if err := unstructured.SetNestedSlice(crd.Object, versions, "spec", "versions"); err != nil {
			g.Fatal(err)
		}
	}
	if err := g.client.Apply(g.Context(), client.ApplyConfigurationFromUnstructured(crd), client.FieldOwner(deploy.FieldManager), client.ForceOwnership); err != nil {
		g.Fatal(err)
	}
	err = wait.PollUntilContextTimeout(g.Context(), 50*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		err := g.write(map[string]any{"joinOutcomes": []any{"Perhaps"}}, client.DryRunAll)
		if withOutcomes {
			return apierrors.IsInvalid(err), nil
		}
		return apierrors.IsInternalError(err), nil
	})
	if err != nil {
		g.Fatal(err)
	}
}

func TestWritesOfThePreviousAndThisReleaseToTheSameGroupStatus(t *testing.T) {
	g := newGroup(t)
	old := func(letters string) map[string]any { return map[string]any{"recentJoins": letters} }
	now := map[string]any{"joinOutcomes": []any{"Joined", "Failed"}, "recentJoins": "jf"}
	inOrder(t, "a write of the previous release updates the old field status.recentJoins and removes the new field status.joinOutcomes", func(t *testing.T) {
		g.T = t
		g.mustWrite(now)
		g.expectStatus("jf", v1alpha1.JoinSucceeded, v1alpha1.JoinFailed)
		g.mustWrite(old("jff"))
		g.expectStatus("jff")
		g.mustWrite(now)
		g.mustWrite(map[string]any{})
		g.expectStatus("")
	})
	inOrder(t, "with the previous release's CRD, which lacks joinOutcomes, the API server refuses joinOutcomes and accepts recentJoins", func(t *testing.T) {
		g.T = t
		g.define(false)
		if err := g.write(now); !apierrors.IsInternalError(err) {
			t.Errorf("got %v, want an internal error", err)
		}
		g.mustWrite(old("jf"))
		g.expectStatus("jf")
	})
	inOrder(t, "the previous release can update a status that was stored with the CRD of this release", func(t *testing.T) {
		g.T = t
		g.define(true)
		g.mustWrite(now)
		g.expectStatus("jf", v1alpha1.JoinSucceeded, v1alpha1.JoinFailed)
		g.define(false)
		g.expectStatus("jf")
		g.mustWrite(old("jfj"))
		g.define(true)
		g.expectStatus("jfj")
	})
	inOrder(t, "with this release's CRD, the API server refuses an eleventh entry and an unknown value in status.joinOutcomes", func(t *testing.T) {
		g.T = t
		for _, outcomes := range [][]any{slices.Repeat([]any{"Joined"}, 11), {"Perhaps"}} {
			if err := g.write(map[string]any{"joinOutcomes": outcomes}); !apierrors.IsInvalid(err) {
				t.Errorf("%v: got %v, want Invalid", outcomes, err)
			}
		}
	})
}

// inOrder runs a subtest that continues the subtests before it. When -run selects only a later subtest, the earlier ones run as parts
// of the test itself, so that each subtest can be run alone.
func inOrder(t *testing.T, name string, test func(t *testing.T)) {
	t.Helper()
	ran := false
	t.Run(name, func(t *testing.T) {
		ran = true
		test(t)
	})
	if !ran {
		test(t)
	}
}
