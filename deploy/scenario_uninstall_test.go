//go:build cluster

package deploy_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/guard"
	"github.com/drover-project/drover/test/kube"
)

var definitionKind = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}

func definition(name string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(definitionKind)
	o.SetName(name)
	return o
}

// The policy that guards the CRDs must name every CRD in deploy/crds and drover's annotation that allows a deletion. drover's
// code must name the same CRDs.
func TestThePolicyThatProtectsCRDsNamesEveryCRD(t *testing.T) {
	var want []string
	for _, o := range objects(t, "crds") {
		if o.GroupVersionKind() == definitionKind {
			want = append(want, o.GetName())
		}
	}
	if !slices.Equal(want, guard.CRDs) {
		t.Errorf("drover looks after %v; deploy/crds holds %v (F-42)", guard.CRDs, want)
	}
	guard, err := os.ReadFile("crds/guard.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range append(want, v1alpha1.AnnotationAllowDeletion) {
		if !strings.Contains(string(guard), "'"+text+"'") {
			t.Errorf("the guard does not name %s (F-42)", text)
		}
	}
}

// Every deletion here is a dry run, because other tests need the CRDs.
func TestAnAdmissionPolicyRefusesToDeleteCRDs(t *testing.T) {
	for _, name := range guard.CRDs {
		t.Run("kubectl delete crd "+name+" is refused, and the error contains the command that allows the deletion (F-42)", func(t *testing.T) {
			out, err := cluster.Kubectl(t.Context(), "delete", "crd", name, "--dry-run=server")
			if err == nil {
				t.Fatalf("it was admitted: %s", out)
			}
			want := fmt.Sprintf("kubectl annotate crd %s %s=true", name, v1alpha1.AnnotationAllowDeletion)
			if !strings.Contains(err.Error(), want) {
				t.Errorf("the refusal does not say %q: %v", want, err)
			}
		})
	}
	t.Run("the refusal to delete a CRD says that the servers would be deleted with the CRD (F-42)", func(t *testing.T) {
		_, err := cluster.Kubectl(t.Context(), "delete", "crd", "machinesets.cluster.k8s.io", "--dry-run=server")
		if err == nil || !strings.Contains(err.Error(), "and with them the servers") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("a single request that deletes all CRDs is refused (F-42)", func(t *testing.T) {
		err := admin.DeleteAllOf(t.Context(), definition(""), client.DryRunAll)
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "drover-crds") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("the deletion of another program's CRD is allowed (F-42)", func(t *testing.T) {
		other := parse(`{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: things.example.com},
			spec: {group: example.com, scope: Namespaced, names: {plural: things, singular: thing, kind: Thing, listKind: ThingList},
			versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]}}`)
		if err := admin.Create(t.Context(), other); err != nil {
			t.Fatal(err)
		}
		if err := admin.Delete(t.Context(), other); err != nil {
			t.Error(err)
		}
	})
}

// With these annotations a tool that removes an installation keeps the CRDs and their guard.
func TestAnnotationsMakeHelmArgoCDAndFluxKeepTheCRDs(t *testing.T) {
	for _, o := range objects(t, "crds") {
		t.Run(o.GetKind()+"/"+o.GetName()+" has the annotations that make Helm, Argo CD and Flux keep it (F-42)", func(t *testing.T) {
			for key, want := range map[string]string{
				"helm.sh/resource-policy": "keep", "argocd.argoproj.io/sync-options": "Prune=false,Delete=false", "kustomize.toolkit.fluxcd.io/prune": "disabled",
			} {
				if got := fetch(t, o).GetAnnotations()[key]; got != want {
					t.Errorf("annotation %s is %q, want %q", key, got, want)
				}
			}
		})
	}
}

// site is a control plane for one test, because the test deletes CRDs and namespaces that other tests need.
type site struct {
	*testing.T
	on    *kube.Cluster
	admin client.Client
}

func newSite(t *testing.T) *site {
	t.Helper()
	on := kube.ForTest(t, kube.Options{Components: []kube.Component{kube.ControllerManager}})
	c, err := client.New(on.Config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return &site{t, on, c}
}

// run runs kubectl, and fails the test when kubectl fails.
func (s *site) run(args ...string) {
	s.Helper()
	if out, err := s.on.Kubectl(s.Context(), args...); err != nil {
		s.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// machine creates a Machine with drover's finalizer.
func (s *site) machine() *unstructured.Unstructured {
	s.Helper()
	m := merge(s.T, parse(goodMachine), `{metadata: {namespace: default, finalizers: [machine-delete-finalizer]}}`)
	if err := s.admin.Create(s.Context(), m); err != nil {
		s.Fatal(err)
	}
	return m
}

// keeps fails the test unless the CRDs and the Machine exist and are not being deleted.
func (s *site) keeps(m *unstructured.Unstructured) {
	s.Helper()
	all := []*unstructured.Unstructured{m}
	for _, name := range guard.CRDs {
		all = append(all, definition(name))
	}
	for _, o := range all {
		now := o.DeepCopy()
		if err := s.admin.Get(s.Context(), client.ObjectKeyFromObject(o), now); err != nil {
			s.Error(err)
			continue
		}
		if now.GetDeletionTimestamp() != nil {
			s.Errorf("%s %s is being deleted", now.GetKind(), now.GetName())
		}
		if o == m && now.GetUID() != m.GetUID() {
			s.Errorf("%s %s is another one", now.GetKind(), now.GetName())
		}
	}
}

func TestRemovingDroverKeepsTheMachines(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for range 2 {
		s.run("apply", "--server-side", "-k", "crds")
		s.run("apply", "--server-side", "-k", ".")
	}
	if err := awaitPolicies(t.Context(), s.admin); err != nil {
		t.Fatal(err)
	}
	m := s.machine()
	t.Run("kubectl delete -k deploy succeeds and keeps the Machines, the CRDs and the policy that protects the CRDs (F-42)", func(t *testing.T) {
		s := &site{t, s.on, s.admin}
		s.run("delete", "-k", ".", "--timeout=90s")
		s.keeps(m)
		s.run("get", "validatingadmissionpolicy", "drover-crds")
		s.run("get", "validatingadmissionpolicybinding", "drover-crds")
		for _, gone := range []string{"namespace/drover", "clusterrole/drover", "validatingadmissionpolicy/drover-machine-spec"} {
			if out, err := s.on.Kubectl(t.Context(), "get", gone); err == nil {
				t.Errorf("%s still exists: %s", gone, out)
			}
		}
	})
	t.Run("installing drover again keeps CRDs and Machines (F-42)", func(t *testing.T) {
		s := &site{t, s.on, s.admin}
		s.run("apply", "--server-side", "-k", "crds")
		s.run("apply", "--server-side", "-k", ".")
		s.keeps(m)
	})
	t.Run("kubectl delete -k crds deletes the CRDs once each has the annotation that allows its deletion (F-42)", func(t *testing.T) {
		s := &site{t, s.on, s.admin}
		s.run("patch", "machines.cluster.k8s.io", m.GetName(), "--type=merge", "--patch", `{"metadata":{"finalizers":null}}`)
		s.run(slices.Concat([]string{"annotate", "crd"}, guard.CRDs, []string{v1alpha1.AnnotationAllowDeletion + "=true"})...)
		s.run("delete", "-k", "crds", "--timeout=90s")
	})
}

// Before the CRDs had a kustomization of their own, an installation had them in the same kustomization as the rest, without
// annotations.
func TestUpgradingWithPruneKeepsTheCRDs(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.run("apply", "-k", beforeTheSplit(t))
	s.run("apply", "--server-side", "-k", "crds")
	if err := awaitPolicies(t.Context(), s.admin); err != nil {
		t.Fatal(err)
	}
	m := s.machine()
	t.Run("kubectl apply --prune keeps the CRDs that an older kustomization of drover contained (F-42)", func(t *testing.T) {
		s := &site{t, s.on, s.admin}
		_, err := s.on.Kubectl(t.Context(), "apply", "-k", ".", "--prune", "--all", "--prune-allowlist=apiextensions.k8s.io/v1/CustomResourceDefinition")
		if err == nil || !strings.Contains(err.Error(), "drover-crds") {
			t.Errorf("the guard was not asked: %v", err)
		}
		s.keeps(m)
	})
}

// beforeTheSplit creates a folder with the kustomization as it was when it still contained the CRDs, and returns the folder's
// path.
func beforeTheSplit(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	write := func(name string, text []byte) {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	resources := "resources:\n"
	for n, o := range objects(t) {
		if strings.HasPrefix(o.GetName(), "drover-crds") {
			continue
		}
		if o.GroupVersionKind() == definitionKind {
			unstructured.RemoveNestedField(o.Object, "metadata", "annotations")
			o.SetAnnotations(map[string]string{"api-approved.kubernetes.io": "unapproved, legacy API"})
		}
		name := fmt.Sprintf("%02d.yaml", n)
		write(name, []byte(text(t, o)))
		resources += "  - " + name + "\n"
	}
	write("kustomization.yaml", []byte(resources))
	return dir
}
