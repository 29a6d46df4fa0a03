//go:build cluster

package e2e

import (
	"context"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/test/sandbox"
)

const (
	// olderDefinitions is a file with the CRDs of Machines, sets and deployments of an older version.
	olderDefinitions = "testdata/crds-before.yaml"
	droverAccount    = "system:serviceaccount:drover:drover"
)

// older replaces today's CRDs with those of an older version, and removes the admission policies that guard the CRDs. It
// must run before objects are created.
func (h herd) older() {
	h.Helper()
	h.s.StopDrover(0)
	h.unguarded()
	h.kubectl("delete", "crd", "machines.cluster.k8s.io", "machinesets.cluster.k8s.io", "machinedeployments.cluster.k8s.io")
	h.kubectl("apply", "--server-side", "-f", olderDefinitions)
	h.kubectl("delete", "-f", manifests+"/policies/guard-machines.yaml", "-f", manifests+"/policies/guard-groups.yaml")
	h.restarts()
}

// complete waits until each Machine has the status fields that an older version does not know.
func (h herd) complete() {
	h.Helper()
	eventually(h.T, func(ctx context.Context) (string, error) {
		all, err := h.machines(ctx)
		if err != nil {
			return "", err
		}
		for _, m := range all {
			if m.Status.NodeMarks == nil {
				return "status.nodeMarks of Machine " + m.Name, nil
			}
		}
		return "", nil
	})
}

// writesOf returns the number of drover's writes to its own kinds so far.
func (h herd) writesOf() (n int) {
	h.Helper()
	requests, err := h.s.Cluster.Requests()
	if err != nil {
		h.Fatal(err)
	}
	for _, r := range requests {
		if r.User == droverAccount && r.Wrote() && strings.HasPrefix(r.Resource, "machine") {
			n++
		}
	}
	return n
}

// TestUpgrading runs today's drover with the CRDs of an older version, then upgrades the CRDs while drover works, and
// then lets a program write objects as an older drover does.
func TestUpgrading(t *testing.T) {
	t.Parallel()
	h := newEmptyHerd(t)
	h.older()
	began, err := h.metric(t.Context(), "process_start_time_seconds")
	if err != nil {
		t.Fatal(err)
	}
	t.Run("with the CRDs of an older version, drover scales a group and stops writing objects afterwards", func(t *testing.T) {
		h := h.in(t)
		h.begin()
		h.scale(3)
		h.scale(2)
		h.rests()
	})
	t.Run("applying the new manifests during a scale-up replaces no Machine and creates no server twice", func(t *testing.T) {
		h := h.in(t)
		was := h.look()
		made, _ := h.calls()
		h.kubectl("-n", metav1.NamespaceSystem, "scale", "machinedeployment", h.group, "--replicas=5")
		h.shell.Run(t, "docs/operations.md#upgrade")
		h.shell.Run(t, "docs/operations.md#project-not-allowed")
		h.usable(5)
		h.untouched(was, made+3)
		if now, err := h.metric(t.Context(), "process_start_time_seconds"); now != began {
			t.Errorf("drover was started again: it runs since %s, and ran since %s (%v)", now, began, err)
		}
	})
	t.Run("after the upgrade of the CRDs, drover writes the status fields that the old CRDs did not have", func(t *testing.T) {
		h := h.in(t)
		was := h.look()
		made, _ := h.calls()
		h.s.StopDrover(0)
		h.restarts()
		h.complete()
		h.untouched(was, made)
	})
	t.Run("drover restores the status fields that a client of an older version removes from Machines", func(t *testing.T) {
		h := h.in(t)
		was := h.look()
		made, _ := h.calls()
		stop := h.olderWriter()
		h.scale(7)
		if writes := stop(); writes < 10 {
			t.Errorf("it wrote %d times only", writes)
		}
		h.complete()
		h.untouched(was, made+2)
	})
}

// rests waits until drover makes at most 10 writes in 2 s, and fails the test when drover keeps writing.
func (h herd) rests() {
	h.Helper()
	const most = 10
	before := 0
	eventually(h.T, func(context.Context) (string, error) {
		now := h.writesOf()
		more := now - before
		before = now
		time.Sleep(2 * time.Second)
		if more > most {
			return "drover to come to rest: it wrote " + strconv.Itoa(more) + " times in 2 s", nil
		}
		return "", nil
	})
}

// untouched fails the test when a Machine, its server or its node has changed, or when the number of servers created so
// far is not the expected one.
func (h herd) untouched(was kept, made int) {
	h.Helper()
	if wrong := h.differs(was); wrong != "" {
		h.Error(wrong)
	}
	if m, _ := h.calls(); m != made {
		h.Errorf("%d servers have been ordered, want %d", m, made)
	}
}

// olderWriter starts a program with drover's rights that writes all objects as the older CRDs define them, again and
// again. stop ends the program and returns how often it wrote.
func (h herd) olderWriter() (stop func() (writes int)) {
	h.Helper()
	config, err := h.s.Cluster.ConfigForUser("a-client-of-an-older-version", "system:masters", "system:authenticated")
	if err != nil {
		h.Fatal(err)
	}
	c, err := client.New(config, client.Options{Scheme: sandbox.Scheme()})
	if err != nil {
		h.Fatal(err)
	}
	ctx, cancel := context.WithCancel(h.Context())
	var ended sync.WaitGroup
	writes := 0
	schemas := h.olderSchemas()
	ended.Go(func() {
		for ctx.Err() == nil {
			for kind, schema := range schemas {
				writes += writePruned(ctx, c, kind, schema)
			}
			time.Sleep(pollEvery)
		}
	})
	return func() int {
		cancel()
		ended.Wait()
		return writes
	}
}

// writePruned writes each object of a kind without the fields that the given schema lacks. It returns how many writes
// were accepted.
func writePruned(ctx context.Context, c client.Client, kind string, schema *structuralschema.Structural) (writes int) {
	var list unstructured.UnstructuredList
	list.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kind + "List"))
	if c.List(ctx, &list, client.InNamespace(metav1.NamespaceSystem)) != nil {
		return 0
	}
	for _, o := range list.Items {
		pruning.Prune(o.Object, schema, true)
		annotations := o.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations["example.com/written"] = time.Now().String()
		o.SetAnnotations(annotations)
		if c.Update(ctx, &o) == nil {
			writes++
		}
	}
	return writes
}

// olderSchemas returns the schemas of the older CRDs by kind.
func (h herd) olderSchemas() map[string]*structuralschema.Structural {
	h.Helper()
	text, err := os.ReadFile(olderDefinitions)
	if err != nil {
		h.Fatal(err)
	}
	out := map[string]*structuralschema.Structural{}
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.Unmarshal([]byte(document), &crd); err != nil {
			h.Fatal(err)
		}
		var internal apiextensions.JSONSchemaProps
		if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(crd.Spec.Versions[0].Schema.OpenAPIV3Schema, &internal, nil); err != nil {
			h.Fatal(err)
		}
		if out[crd.Spec.Names.Kind], err = structuralschema.NewStructural(&internal); err != nil {
			h.Fatal(err)
		}
	}
	return out
}
