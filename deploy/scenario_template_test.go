package deploy_test

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// provider returns a change that merges fields into the provider document of a template.
func provider(fields string) string {
	return `{spec: {template: {spec: {providerSpec: {value: ` + fields + `}}}}}`
}

const (
	realKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIK0wmN/Cr3JXqmLW7u+g9pTh+wyqDHpSQEIQczXkVx9q somebody@example"
	inSpec  = `{spec: {template: {spec: `
)

// templateRules are changes to the template of a valid MachineDeployment and of a valid MachineSet.
var templateRules = []struct{ name, over, refusal string }{
	{"a kubelet version with v is accepted", inSpec + `{versions: {kubelet: v1.33.4}}}}}`, ``},
	{"a kubelet version without v is accepted", inSpec + `{versions: {kubelet: 1.33.4}}}}}`, ``},
	{"an empty kubelet version is refused (F-34)", inSpec + `{versions: {kubelet: ""}}}}}`, "versions.kubelet is '': give the kubelet's version, such as 1.33.4"},
	{"a missing kubelet version is refused (F-34)", inSpec + `{versions: null}}}}`, "spec.template.spec.versions.kubelet is ''"},
	{"a kubelet version with a leading zero is refused (F-34)", inSpec + `{versions: {kubelet: 1.033.4}}}}}`, "versions.kubelet is '1.033.4'"},
	{"the operating system ubuntu is accepted", provider(`{operatingSystem: ubuntu}`), ``},
	{"the operating system flatcar is accepted", provider(`{operatingSystem: flatcar}`), ``},
	{"an empty operating system is accepted, because a Cluster may name the operating system", provider(`{operatingSystem: ""}`), ``},
	{"the operating system centos is refused (F-34)", provider(`{operatingSystem: centos}`), "operatingSystem is 'centos': drover writes user data for ubuntu and flatcar"},
	{"the operating system centos is refused also when the key is written OperatingSystem (F-34)", provider(`{OperatingSystem: centos}`), "operatingSystem is 'centos'"},
	{"the operating system centos is accepted when the template has its own user data", provider(`{operatingSystem: centos, overwriteCloudConfig: "#cloud-config", sshPublicKeys: [notakey]}`), ``},
	{"valid public keys are accepted", provider(`{sshPublicKeys: ["` + realKey + `", "no-pty ` + realKey + `", "ssh-rsa AAAAB3NzaC1yc2E=\n"]}`), ``},
	{"an empty list of public keys is accepted", provider(`{sshPublicKeys: []}`), ``},
	{"an invalid public key is refused (F-34)", provider(`{sshPublicKeys: ["` + realKey + `", notakey]}`), "sshPublicKeys has an entry that is not a public key"},
	{"the placeholder << YOUR_PUBLIC_KEY >> in the list of public keys is refused (F-34)", provider(`{sshPublicKeys: ["<< YOUR_PUBLIC_KEY >>"]}`), "sshPublicKeys has an entry that is not a public key"},
	{"two public keys in one entry of the list are refused (F-34)", provider(`{sshPublicKeys: ["` + realKey + `\n` + realKey + `"]}`), "sshPublicKeys has an entry that is not a public key"},
	{"node labels with a prefix are accepted", inSpec + `{metadata: {labels: {node-role.kubernetes.io/worker: "", a.b/c_d: E-1.f}}}}}}`, ``},
	{"an invalid value of a node label is refused (F-34)", inSpec + `{metadata: {labels: {a: b c}}}}}}`, "spec.template.spec.metadata.labels has the value 'b c' for 'a', which is not a label value"},
	{"an invalid key of a node label is refused (F-34)", inSpec + `{metadata: {labels: {"a b": c}}}}}}`, "spec.template.spec.metadata.labels has the key 'a b', which is not a label key"},
	{"an invalid prefix of a node label is refused (F-34)", inSpec + `{metadata: {labels: {"A_b/c": d}}}}}}`, "has the key 'A_b/c'"},
	{"an empty prefix of a node label is refused (F-34)", inSpec + `{metadata: {labels: {"/c": d}}}}}}`, "has the key '/c'"},
	{"an invalid label value that is in both selector and template is refused (F-34)", `{spec: {selector: {matchLabels: {a: b c}}, template: {metadata: {labels: {a: b c}}}}}`, "spec.template.metadata.labels has the value 'b c' for 'a'"},
	{"an invalid value in an expression of the selector is refused (F-34)", `{spec: {selector: {matchExpressions: [{key: none, operator: NotIn, values: [b c]}]}}}`, "spec.selector.matchExpressions has a value for 'none'"},

	{"an invalid template is accepted for a provider other than OpenStack", provider(`{cloudProvider: aws, operatingSystem: amzn2, sshPublicKeys: [notakey]}`), ``},
	{"a template with an empty cloudProvider is accepted", `{spec: {template: {spec: {versions: null, providerSpec: {value: {cloudProvider: null}}}}}}`, ``},
	{"a template that refers to a MachineClass is accepted", `{spec: {template: {spec: {versions: null, providerSpec: {value: null, valueFrom: {machineClass: {name: c}}}}}}}`, ``},
	{"the operating system centos in providerConfig is refused (F-34)", inSpec + `{providerSpec: null, providerConfig: {value: {cloudProvider: openstack, operatingSystem: centos}}}}}}`, "operatingSystem is 'centos'"},
	{"the operating system centos is accepted with operating-system-manager's profile annotation", `{metadata: {annotations: {k8c.io/operating-system-profile: osp-centos}}, spec: {template: {spec: {providerSpec: {value: {operatingSystem: centos}}}}}}`, ``},
	{"the operating system centos is accepted with operating-system-manager's finalizer", `{metadata: {finalizers: [kubermatic.io/cleanup-operating-system-configs]}, spec: {template: {spec: {providerSpec: {value: {operatingSystem: centos}}}}}}`, ``},
	{"the operating system centos is accepted in a template for another controller", `{spec: {template: {metadata: {labels: {machine.k8s.io/controller: other}}, spec: {providerSpec: {value: {operatingSystem: centos}}}}}}`, ``},
	{"the operating system centos is accepted in an object that an owner controls", `{metadata: {ownerReferences: [{apiVersion: v1, kind: Node, name: owner, uid: u, controller: true}]}, spec: {template: {spec: {providerSpec: {value: {operatingSystem: centos}}}}}}`, ``},
}

func TestOnlyTemplatesThatCanBecomeNodesAreAccepted(t *testing.T) {
	ns := namespace(t, admin)
	for _, kind := range []string{"MachineDeployment", "MachineSet"} {
		for _, r := range templateRules {
			t.Run(kind+": "+r.name, func(t *testing.T) {
				o := merge(t, parse(goodObjects[kind]), r.over)
				o.SetNamespace(ns)
				expect(t, r.refusal, admin.Create(t.Context(), o, client.DryRunAll))
			})
		}
	}
	for _, r := range []rule{
		{"an empty kubelet version is refused (F-34)", "Machine", `{spec: {versions: {kubelet: ""}}}`, "spec.versions.kubelet is ''"},
		{"the operating system centos is refused (F-34)", "Machine", `{spec: {providerSpec: {value: {operatingSystem: centos}}}}`, "spec.providerSpec.value.operatingSystem is 'centos'"},
		{"an invalid value of a node label is refused (F-34)", "Machine", `{spec: {metadata: {labels: {a: b c}}}}`, "spec.metadata.labels has the value 'b c' for 'a'"},
		{"the operating system centos is accepted in a Machine of another controller, which the policy does not check", "Machine", `{metadata: {labels: {machine.k8s.io/controller: other}}, spec: {providerSpec: {value: {operatingSystem: centos}}}}`, ``},
	} {
		t.Run("Machine: "+r.name, func(t *testing.T) {
			o := merge(t, parse(goodMachine), r.over)
			o.SetNamespace(ns)
			expect(t, r.refusal, admin.Create(t.Context(), o, client.DryRunAll))
		})
	}
}

// wrong is a change that makes every checked part of a template invalid.
const wrong = `{spec: {template: {spec: {versions: null, metadata: {labels: {a: b c, "k k": v}}, providerSpec: {value: {operatingSystem: centos, sshPublicKeys: [notakey]}}}}}}`

func TestAStoredInvalidTemplateIsCheckedOnlyWhereItChanges(t *testing.T) {
	for _, kind := range []string{"MachineDeployment", "MachineSet"} {
		// The object is stored with the label of another controller, because the policy does not check such objects.
		o := existing(t, merge(t, merge(t, parse(goodObjects[kind]), wrong), `{spec: {template: {metadata: {labels: {machine.k8s.io/controller: other}}}}}`))
		o = merge(t, o, `{spec: {template: {metadata: {labels: {machine.k8s.io/controller: null}}}}}`)
		if err := admin.Update(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		for _, r := range []struct{ name, over, refusal string }{
			{"a change of the size is accepted (F-34)", `{spec: {replicas: 7}}`, ``},
			{"new labels, annotations and finalizers in metadata are accepted (F-34)", `{metadata: {labels: {n: m}, annotations: {o: p}, finalizers: [drover.example/hold]}}`, ``},
			{"a change of the flavor is accepted (F-34)", provider(`{cloudProviderSpec: {flavor: m1.large}}`), ``},
			{"a correction of one invalid part is accepted while other parts are invalid (F-34)", inSpec + `{versions: {kubelet: 1.33.4}}}}}`, ``},
			{"a change to another unsupported operating system is refused (F-34)", provider(`{operatingSystem: rhel}`), "operatingSystem is 'rhel'"},
			{"a new node label is refused while another label is invalid (F-34)", inSpec + `{metadata: {labels: {new: label}}}}}}`, "which is not a label key"},
		} {
			t.Run(kind+" with a stored invalid template: "+r.name, func(t *testing.T) {
				expect(t, r.refusal, admin.Update(t.Context(), merge(t, o, r.over), client.DryRunAll))
			})
		}
	}
}

// largest returns a deployment whose labels and keys are as many and as long as the schema allows, within the API server's
// limit for the size of an object.
func largest(t *testing.T) *unstructured.Unstructured {
	t.Helper()
	labels := func(n int) map[string]any {
		all := map[string]any{"group": "g", "other": "o"}
		for i := range n - 2 {
			key := fmt.Sprintf("%s.%s/%s-%03d", strings.Repeat("p", 63), strings.Repeat("q.r-", 46)+"s", strings.Repeat("k", 50), i)
			all[key] = strings.Repeat("v", 63)
		}
		return all
	}
	var keys []any
	for i := range 128 {
		keys = append(keys, fmt.Sprintf("ssh-rsa AAAAB3NzaC1yc2EAAA%s= somebody-%03d", strings.Repeat("A", 4052), i))
	}
	o := parse(goodDeployment)
	for _, f := range []struct {
		value any
		path  []string
	}{
		{labels(256), []string{"spec", "template", "metadata", "labels"}},
		{labels(256), []string{"spec", "template", "spec", "metadata", "labels"}},
		{labels(64), []string{"spec", "selector", "matchLabels"}},
		{keys, []string{"spec", "template", "spec", "providerSpec", "value", "sshPublicKeys"}},
	} {
		if err := unstructured.SetNestedField(o.Object, f.value, f.path...); err != nil {
			t.Fatal(err)
		}
	}
	o.SetNamespace(namespace(t, admin))
	return o
}

func TestTheAdmissionPolicyCanCheckTheLargestTemplate(t *testing.T) {
	o := largest(t)
	t.Run("the largest template is accepted, so the policy stays within the API server's cost limits (F-34)", func(t *testing.T) {
		expect(t, "", admin.Create(t.Context(), o, client.DryRunAll))
	})
	t.Run("an unsupported operating system in the largest template is refused (F-34)", func(t *testing.T) {
		expect(t, "operatingSystem is 'centos'", admin.Create(t.Context(), merge(t, o, provider(`{operatingSystem: centos}`)), client.DryRunAll))
	})
	t.Run("a template with 1024 public keys is accepted, although they are too many for user data (F-34)", func(t *testing.T) {
		var keys []string
		for i := range 1024 {
			keys = append(keys, fmt.Sprintf("ssh-rsa AAAAB3NzaC1yc2EAAA%s= somebody-%d", strings.Repeat("A", 540), i))
		}
		expect(t, "", admin.Create(t.Context(), merge(t, o, provider(`{sshPublicKeys: ["`+strings.Join(keys, `", "`)+`"]}`)), client.DryRunAll))
	})
	t.Run("a template whose provider document has 2000 unknown keys is accepted (F-34)", func(t *testing.T) {
		expect(t, "", admin.Create(t.Context(), withForeignKeys(t, 2000), client.DryRunAll))
	})
}

// withForeignKeys returns a deployment whose provider document has n keys that drover does not know.
func withForeignKeys(t *testing.T, n int) *unstructured.Unstructured {
	t.Helper()
	many := map[string]any{"cloudProvider": "openstack", "operatingSystem": "ubuntu"}
	for i := range n {
		many[fmt.Sprintf("foreign-%d", i)] = "x"
	}
	o := parse(goodDeployment)
	o.SetNamespace(namespace(t, admin))
	if err := unstructured.SetNestedField(o.Object, many, "spec", "template", "spec", "providerSpec", "value"); err != nil {
		t.Fatal(err)
	}
	return o
}
