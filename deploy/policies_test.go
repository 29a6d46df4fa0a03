package deploy_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/deploy"
	"github.com/drover-project/drover/machines/api/v1alpha1"
)

func TestHowLongTheNamesOfNewObjectsMayBe(t *testing.T) {
	ns := namespace(t, admin)
	x := func(n int) string { return `{metadata: {name: ` + strings.Repeat("x", n) + `}}` }
	for _, r := range []rule{
		{"a MachineDeployment whose name has 45 characters is accepted", "MachineDeployment", x(45), ``},
		{"a MachineDeployment whose name has 46 characters is refused", "MachineDeployment", x(46), "may have 45, because the names of its Machines begin with it and may have 63; choose a shorter one"},
		{"a Machine whose name has 63 characters is accepted", "Machine", x(63), ``},
		{"a Machine whose name has 64 characters is refused", "Machine", x(64), "may have 63"},
		{"a Machine with a generateName of 58 characters is accepted", "Machine", `{metadata: {name: null, generateName: ` + strings.Repeat("x", 58) + `}}`, ``},
		{"a Machine whose spec.metadata.name, the name of its server, has 64 characters is refused", "Machine", `{spec: {metadata: {name: ` + strings.Repeat("x", 64) + `}}}`, "a server's name may have 63"},
		{"a MachineSet whose name has 60 characters is accepted", "MachineSet", x(60), ``},
	} {
		t.Run(r.name, func(t *testing.T) {
			o := merge(t, parse(goodObjects[r.kind]), r.over)
			o.SetNamespace(ns)
			expect(t, r.refusal, admin.Create(t.Context(), o, client.DryRunAll))
		})
	}
}

func TestTheHashLabelInSelectorAndTemplate(t *testing.T) {
	const value = `{machine-template-hash: "5d9f7c8b6"}`
	both := `{spec: {selector: {matchLabels: ` + value + `}, template: {metadata: {labels: ` + value + `}}}}`
	ns := namespace(t, admin)
	for _, r := range []rule{
		{"a MachineDeployment whose selector and template have the label machine-template-hash is refused (F-106)", "MachineDeployment", both, "spec.selector.matchLabels names the label machine-template-hash"},
		{"a MachineDeployment whose template has the label machine-template-hash is refused (F-106)", "MachineDeployment", `{spec: {template: {metadata: {labels: ` + value + `}}}}`, "spec.template.metadata.labels names the label machine-template-hash"},
		{"a MachineDeployment whose selector has an expression about machine-template-hash is refused (F-106)", "MachineDeployment", `{spec: {selector: {matchExpressions: [{key: machine-template-hash, operator: DoesNotExist}]}}}`, "spec.selector.matchExpressions names the label machine-template-hash"},
		{"a MachineSet whose selector and template have the label machine-template-hash is accepted, because a backup contains such sets (F-106)", "MachineSet", both, ``},
		{"a Machine with the label machine-template-hash is accepted, because a backup contains such Machines (F-106)", "Machine", `{metadata: {labels: ` + value + `}}`, ``},
	} {
		t.Run(r.name, func(t *testing.T) {
			o := merge(t, parse(goodObjects[r.kind]), r.over)
			o.SetNamespace(ns)
			expect(t, r.refusal, admin.Create(t.Context(), o, client.DryRunAll))
		})
	}
	o := existing(t, parse(goodObjects["MachineDeployment"]))
	t.Run("the label machine-template-hash cannot be added to the template of a stored MachineDeployment (F-106)", func(t *testing.T) {
		expect(t, "machine-template-hash", admin.Update(t.Context(), merge(t, o, `{spec: {template: {metadata: {labels: `+value+`}}}}`), client.DryRunAll))
	})
}

// Each row changes a Machine. The Machine is goodMachine with "before" merged into it.
var specChanges = []struct{ name, before, over, refusal string }{
	{"the labels and annotations in a Machine's metadata can change (MC-5)", ``, `{metadata: {labels: {n: m}, annotations: {cluster.k8s.io/delete-machine: "yes"}}}`, ``},
	{"a Machine's empty spec.metadata.name can be set to the Machine's own name (MC-5)", `{spec: {metadata: {name: null}}}`, `{spec: {metadata: {name: good}}}`, ``},
	{"spec.metadata with the Machine's own name can be added to a Machine without spec.metadata (MC-5)", `{spec: {metadata: null}}`, `{spec: {metadata: {name: good}}}`, ``},
	{"a Machine's empty spec.metadata.name cannot be set to another Machine's name (MC-5)", `{spec: {metadata: {name: null}}}`, `{spec: {metadata: {name: other}}}`, "only be filled with the Machine's own"},
	{"a Machine's spec.metadata.name cannot change (MC-5)", `{spec: {metadata: {name: older}}}`, `{spec: {metadata: {name: good}}}`, "cannot change from 'older'"},
	{"a Machine's spec.metadata.name cannot be removed (MC-5)", ``, `{spec: {metadata: {name: null}}}`, "spec.metadata.name cannot change"},
	{"a provider ID can be set in a Machine without a provider ID (MC-5)", ``, `{spec: {providerID: "openstack:///1"}}`, ``},
	{"a provider ID can be set in a Machine whose provider ID is empty (MC-5)", `{spec: {providerID: ""}}`, `{spec: {providerID: "openstack:///1"}}`, ``},
	{"a Machine's provider ID cannot change (MC-5)", `{spec: {providerID: "openstack:///1"}}`, `{spec: {providerID: "openstack:///2"}}`, "it cannot change"},
	{"the provider ID of a Machine with a Node cannot be removed (MC-5)", `{spec: {providerID: "openstack:///1"}, status: {nodeRef: {name: good}}}`, `{spec: {providerID: null}}`, "it cannot change"},
	{"a Machine's provider ID cannot be removed, even when the same update removes the Machine's status.nodeRef (MC-5)", `{spec: {providerID: "openstack:///1"}, status: {nodeRef: {name: good}}}`, `{spec: {providerID: null}, status: null}`, "it cannot change"},
	{"the provider ID of a Machine without a Node can be removed (MC-49)", `{spec: {providerID: "openstack:///1"}}`, `{spec: {providerID: null}}`, ``},
	{"the annotation bypass-no-spec-mutation-requirement allows changes of a Machine's provider ID and taints (MC-5)", `{spec: {providerID: "openstack:///1"}}`, `{metadata: {annotations: {kubermatic.io/bypass-no-spec-mutation-requirement: "true"}}, spec: {providerID: "openstack:///2", taints: null}}`, ``},
	{"a Machine's taints cannot change when bypass-no-spec-mutation-requirement has the value false (MC-5)", ``, `{metadata: {annotations: {kubermatic.io/bypass-no-spec-mutation-requirement: "false"}}, spec: {taints: null}}`, "spec.taints of a Machine cannot change"},
	{"a client can write a field with an empty value into a Machine that lacks this field (MC-5)", `{spec: {metadata: null, versions: null, providerSpec: null}}`, `{spec: {metadata: {creationTimestamp: null}, versions: {kubelet: ""}}}`, ``},
	{"the whole spec of a Machine cannot be removed (MC-5)", ``, `{spec: null}`, "cannot change"},
	{"a spec cannot be added to a Machine without a spec (MC-5)", `{spec: null}`, `{spec: {versions: {kubelet: 1.36.2}}}`, "spec.versions of a Machine cannot change"},
	{"the flavor in a Machine's providerSpec cannot change (MC-5)", ``, `{spec: {providerSpec: {value: {cloudProviderSpec: {flavor: m1.large}}}}}`, "spec.providerSpec of a Machine cannot change"},
	{"an unknown field cannot be added to a Machine's providerSpec (MC-5)", ``, `{spec: {providerSpec: {value: {cloudProviderSpec: {novel: true}}}}}`, "spec.providerSpec of a Machine cannot change"},
	{"a Machine's providerSpec cannot be replaced with providerConfig (MC-5)", ``, `{spec: {providerSpec: null, providerConfig: {value: {a: b}}}}`, "spec.providerSpec of a Machine cannot change"},
	{"a label in a Machine's spec.metadata cannot be removed (MC-5)", ``, `{spec: {metadata: {labels: {zone: null}}}}`, "spec.metadata of a Machine cannot change"},
	{"an annotation cannot be added to a Machine's spec.metadata (MC-5)", ``, `{spec: {metadata: {annotations: {e: f}}}}`, "spec.metadata of a Machine cannot change"},
	{"a namespace cannot be added to a Machine's spec.metadata (MC-5)", ``, `{spec: {metadata: {namespace: elsewhere}}}`, "spec.metadata of a Machine cannot change"},
	{"spec.configSource cannot be added to a Machine (MC-5)", ``, `{spec: {configSource: {configMap: {name: a, namespace: b, kubeletConfigKey: c}}}}`, "spec.configSource"},
	{"the providerSpec of a Machine that is being deleted cannot change (F-14)", `{metadata: {finalizers: [drover.example/hold], deletionTimestamp: now}}`, `{spec: {providerSpec: null}}`, "spec.providerSpec of a Machine cannot change"},
	{"the provider ID of a Machine that is being deleted cannot change (F-14)", `{metadata: {finalizers: [drover.example/hold], deletionTimestamp: now}, spec: {providerID: "openstack:///1"}}`, `{spec: {providerID: "openstack:///2"}}`, "it cannot change"},
	{"with the annotation bypass-no-spec-mutation-requirement, a terminating Machine's providerSpec can change (F-14)", `{metadata: {finalizers: [drover.example/hold], deletionTimestamp: now}}`, `{metadata: {annotations: {kubermatic.io/bypass-no-spec-mutation-requirement: "true"}}, spec: {providerSpec: null}}`, ``},
	{"the finalizers of a Machine that is being deleted can be removed (MC-6)", `{metadata: {finalizers: [drover.example/hold], deletionTimestamp: now}}`, `{metadata: {finalizers: null}}`, ``},
}

func TestWhichChangesOfAMachinesSpecAreAccepted(t *testing.T) {
	for _, r := range specChanges {
		t.Run(r.name, func(t *testing.T) {
			o := existing(t, merge(t, parse(goodMachine), r.before))
			changed := merge(t, o, r.over)
			if strings.Contains(r.over, "creationTimestamp: null") {
				// Only in this row, null is a value and does not remove the field.
				_ = unstructured.SetNestedField(changed.Object, nil, "spec", "metadata", "creationTimestamp")
			}
			expect(t, r.refusal, admin.Update(t.Context(), changed, client.DryRunAll))
		})
	}
}

// existing creates an object in a namespace of its own. If its deletionTimestamp is "now", existing also deletes it, so that
// only its finalizers keep it.
func existing(t *testing.T, o *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	_, deleting, _ := unstructured.NestedString(o.Object, "metadata", "deletionTimestamp")
	unstructured.RemoveNestedField(o.Object, "metadata", "deletionTimestamp")
	o.SetNamespace(namespace(t, admin))
	create(t.Context(), t, admin, o)
	if !deleting {
		return o
	}
	if err := admin.Delete(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if err := admin.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
		t.Fatal(err)
	}
	return o
}

// The test covers every field that the CRD declares, so that a new field of the spec cannot stay unguarded.
func TestThePolicyProtectsEveryFieldOfAMachinesSpec(t *testing.T) {
	samples := map[string]string{
		"metadata": `{labels: {new: label}}`, "taints": `[]`, "versions": `{kubelet: 9.9.9}`, "providerSpec": `{value: {a: b}}`,
		"providerConfig": `{value: {a: b}}`, "configSource": `{configMap: {name: a, namespace: b, kubeletConfigKey: c}}`, "providerID": `other`,
	}
	machine := existing(t, merge(t, parse(goodMachine), `{spec: {providerID: one, providerSpec: null}}`))
	for field, schema := range specFields(t, "machines.cluster.k8s.io", "spec") {
		if description, _ := schema.(map[string]any)["description"].(string); strings.Contains(description, "has no effect") && samples[field] == "" {
			continue
		}
		t.Run("an update that changes spec."+field+" of a Machine is refused", func(t *testing.T) {
			sample, ok := samples[field]
			if !ok {
				t.Fatalf("spec.%s is new: guard it in policies/machine-spec.yaml and give a sample here", field)
			}
			changed := machine.DeepCopy()
			changed.Object["spec"].(map[string]any)[field] = parse(`{it: ` + sample + `}`).Object["it"]
			expect(t, "cannot change", admin.Update(t.Context(), changed, client.DryRunAll))
		})
	}
}

// specFields returns the properties that a CRD declares under path.
func specFields(t *testing.T, crd string, path ...string) map[string]any {
	t.Helper()
	for _, o := range objects(t, "crds") {
		if o.GetName() != crd {
			continue
		}
		versions, _, _ := unstructured.NestedSlice(o.Object, "spec", "versions")
		at := versions[0].(map[string]any)["schema"].(map[string]any)["openAPIV3Schema"].(map[string]any)
		for _, p := range path {
			at = at["properties"].(map[string]any)[p].(map[string]any)
		}
		return at["properties"].(map[string]any)
	}
	t.Fatalf("no CRD %s", crd)
	return nil
}

func objects(t *testing.T, dirs ...string) []*unstructured.Unstructured {
	t.Helper()
	found, err := deploy.Objects(dirs...)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestOnlyTheMetadataOfAMachineClassCanChange(t *testing.T) {
	class := existing(t, parse(goodClass))
	for _, r := range []rule{
		{"the labels of a MachineClass can change", "", `{metadata: {labels: {a: b}}}`, ``},
		{"the provider of a MachineClass cannot change", "", `{provider: other}`, "a MachineClass cannot change (provider)"},
		{"the providerSpec of a MachineClass cannot change", "", `{providerSpec: {cloudProviderSpec: {flavor: m1.large}}}`, "(providerSpec)"},
		{"an undeclared field in the providerSpec of a MachineClass cannot change", "", `{providerSpec: {cloudProviderSpec: {novel: 2}}}`, "(providerSpec)"},
		{"secretRef of a MachineClass cannot be removed", "", `{secretRef: null}`, "(secretRef)"},
		{"credentialsSecretRef cannot be added to a MachineClass", "", `{credentialsSecretRef: {name: a}}`, "(credentialsSecretRef)"},
		{"the node template of a MachineClass cannot change", "", `{nodeTemplate: {capacity: {cpu: "4"}}}`, "(nodeTemplate)"},
	} {
		t.Run(r.name, func(t *testing.T) {
			expect(t, r.refusal, admin.Update(t.Context(), merge(t, class, r.over), client.DryRunAll))
		})
	}
	t.Run("while a MachineClass is being deleted, its finalizers can be removed but its provider cannot change (F-14, MC-6)", func(t *testing.T) {
		o := existing(t, merge(t, parse(goodClass), `{metadata: {finalizers: [drover.example/hold], deletionTimestamp: now}}`))
		expect(t, "a MachineClass cannot change (provider)", mergePatch(t.Context(), admin, o.DeepCopy(), `{"provider":"other","metadata":{"finalizers":null}}`))
		expect(t, "", mergePatch(t.Context(), admin, o, `{"metadata":{"finalizers":null}}`))
	})
}

func TestAdmissionUsesNoWebhook(t *testing.T) {
	t.Run("the manifests contain schemas and policies, and no webhook (MC-7)", func(t *testing.T) {
		found, err := deploy.Objects("crds", "policies", "rbac")
		if err != nil {
			t.Fatal(err)
		}
		policies := 0
		for _, o := range found {
			if strings.Contains(o.GetKind(), "Webhook") {
				t.Errorf("there is a %s %s", o.GetKind(), o.GetName())
			}
			if _, hook, _ := unstructured.NestedMap(o.Object, "spec", "conversion", "webhook"); hook {
				t.Errorf("%s is converted by a webhook", o.GetName())
			}
			if o.GetKind() == "ValidatingAdmissionPolicy" {
				policies++
			}
		}
		if policies == 0 {
			t.Error("there is no policy")
		}
	})
}

// The API server checks the types in the policies. A warning means that an expression is wrong.
func TestThePoliciesAndTheirBindingsAreValid(t *testing.T) {
	for _, o := range objects(t, "crds", "policies") {
		if o.GetKind() == "CustomResourceDefinition" {
			continue
		}
		t.Run(o.GetKind()+"/"+o.GetName()+" "+map[bool]string{true: "binds the policy with the same name", false: "passes the type check without warnings and fails closed"}[o.GetKind() == "ValidatingAdmissionPolicyBinding"], func(t *testing.T) {
			switch o.GetKind() {
			case "ValidatingAdmissionPolicy":
				if fail, _, _ := unstructured.NestedString(o.Object, "spec", "failurePolicy"); fail != "Fail" {
					t.Errorf("failurePolicy is %q", fail)
				}
				checked := typeChecked(t, o)
				if warnings, _, _ := unstructured.NestedSlice(checked.Object, "status", "typeChecking", "expressionWarnings"); len(warnings) > 0 {
					t.Errorf("type checking: %v", warnings)
				}
			case "ValidatingAdmissionPolicyBinding":
				if policy, _, _ := unstructured.NestedString(o.Object, "spec", "policyName"); policy != o.GetName() {
					t.Errorf("binds %q", policy)
				}
			default:
				t.Errorf("a %s among the policies", o.GetKind())
			}
		})
	}
	if got := v1alpha1.AnnotationBypassImmutable; got != "kubermatic.io/bypass-no-spec-mutation-requirement" {
		t.Errorf("the policy names another bypass annotation than the keys: %q", got)
	}
}

// typeChecked waits until the API server has checked the types in the policy, and returns the policy.
func typeChecked(t *testing.T, policy *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	return eventually(t, policy, func(o *unstructured.Unstructured) bool {
		checked, _, _ := unstructured.NestedInt64(o.Object, "status", "observedGeneration")
		return checked == o.GetGeneration()
	})
}
