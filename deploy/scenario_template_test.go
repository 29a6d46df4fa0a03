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
	{"a template whose kubelet version has the prefix v is accepted", inSpec + `{versions: {kubelet: v1.33.4}}}}}`, ``},
	{"a template whose kubelet version lacks the prefix v is accepted", inSpec + `{versions: {kubelet: 1.33.4}}}}}`, ``},
	{"a template with an empty kubelet version is refused (F-34)", inSpec + `{versions: {kubelet: ""}}}}}`, "versions.kubelet is '': give the kubelet's version, such as 1.33.4"},
	{"a template without a kubelet version is refused (F-34)", inSpec + `{versions: null}}}}`, "spec.template.spec.versions.kubelet is ''"},
	{"a template whose kubelet version has a leading zero is refused (F-34)", inSpec + `{versions: {kubelet: 1.033.4}}}}}`, "versions.kubelet is '1.033.4'"},
	{"a template for the operating system ubuntu is accepted", provider(`{operatingSystem: ubuntu}`), ``},
	{"a template for the operating system flatcar is accepted", provider(`{operatingSystem: flatcar}`), ``},
	{"a template with an empty operating system is accepted, because a Cluster may name the operating system", provider(`{operatingSystem: ""}`), ``},
	{"a template for the unsupported operating system centos is refused (F-34)", provider(`{operatingSystem: centos}`), "operatingSystem is 'centos': drover writes user data for ubuntu and flatcar"},
	{"the unsupported operating system centos is refused even when its key in the providerSpec is written OperatingSystem (F-34)", provider(`{OperatingSystem: centos}`), "operatingSystem is 'centos'"},
	{"an unsupported operating system is accepted when the template has its own user data", provider(`{operatingSystem: centos, overwriteCloudConfig: "#cloud-config", sshPublicKeys: [notakey]}`), ``},
	{"a template with valid SSH public keys is accepted", provider(`{sshPublicKeys: ["` + realKey + `", "no-pty ` + realKey + `", "ssh-rsa AAAAB3NzaC1yc2E=\n"]}`), ``},
	{"a template with an empty list of SSH public keys is accepted", provider(`{sshPublicKeys: []}`), ``},
	{"a template with an invalid SSH public key is refused (F-34)", provider(`{sshPublicKeys: ["` + realKey + `", notakey]}`), "sshPublicKeys has an entry that is not a public key"},
	{"the text << YOUR_PUBLIC_KEY >> in place of an SSH public key is refused (F-34)", provider(`{sshPublicKeys: ["<< YOUR_PUBLIC_KEY >>"]}`), "sshPublicKeys has an entry that is not a public key"},
	{"two SSH public keys, and a comment, in one entry of sshPublicKeys are accepted (F-135)", provider(`{sshPublicKeys: ["` + realKey + `\n` + realKey + `"]}`), ``},
	{"an empty entry, a null and a comment in sshPublicKeys are accepted (F-116)", provider(`{sshPublicKeys: ["", null, "# none"]}`), ``},
	{"a template with node labels whose keys have a prefix is accepted", inSpec + `{metadata: {labels: {node-role.kubernetes.io/worker: "", a.b/c_d: E-1.f}}}}}}`, ``},
	{"a template with an invalid value of a node label is refused (F-34)", inSpec + `{metadata: {labels: {a: b c}}}}}}`, "spec.template.spec.metadata.labels has the value 'b c' for 'a', which is not a label value"},
	{"a template with an invalid key of a node label is refused (F-34)", inSpec + `{metadata: {labels: {"a b": c}}}}}}`, "spec.template.spec.metadata.labels has the key 'a b', which is not a label key"},
	{"a template with an invalid prefix in a node label's key is refused (F-34)", inSpec + `{metadata: {labels: {"A_b/c": d}}}}}}`, "has the key 'A_b/c'"},
	{"a template with an empty prefix in a node label's key is refused (F-34)", inSpec + `{metadata: {labels: {"/c": d}}}}}}`, "has the key '/c'"},
	{"an invalid label value in both the selector and the template's labels is refused (F-34)", `{spec: {selector: {matchLabels: {a: b c}}, template: {metadata: {labels: {a: b c}}}}}`, "spec.template.metadata.labels has the value 'b c' for 'a'"},
	{"an invalid label value in an expression of the selector is refused (F-34)", `{spec: {selector: {matchExpressions: [{key: none, operator: NotIn, values: [b c]}]}}}`, "spec.selector.matchExpressions has a value for 'none'"},

	{"an invalid template is accepted for a provider other than OpenStack", provider(`{cloudProvider: aws, operatingSystem: amzn2, sshPublicKeys: [notakey]}`), ``},
	{"a template with an empty cloudProvider is accepted", `{spec: {template: {spec: {versions: null, providerSpec: {value: {cloudProvider: null}}}}}}`, ``},
	{"a template that refers to a MachineClass is accepted", `{spec: {template: {spec: {versions: null, providerSpec: {value: null, valueFrom: {machineClass: {name: c}}}}}}}`, ``},
	{"an unsupported operating system in providerConfig is refused (F-34)", inSpec + `{providerSpec: null, providerConfig: {value: {cloudProvider: openstack, operatingSystem: centos}}}}}}`, "operatingSystem is 'centos'"},
	{"an unsupported operating system is accepted in an object with operating-system-manager's profile annotation", `{metadata: {annotations: {k8c.io/operating-system-profile: osp-centos}}, spec: {template: {spec: {providerSpec: {value: {operatingSystem: centos}}}}}}`, ``},
	{"an unsupported operating system is accepted in an object with operating-system-manager's finalizer", `{metadata: {finalizers: [kubermatic.io/cleanup-operating-system-configs]}, spec: {template: {spec: {providerSpec: {value: {operatingSystem: centos}}}}}}`, ``},
	{"an unsupported operating system is accepted when the template's label machine.k8s.io/controller names another program", `{spec: {template: {metadata: {labels: {machine.k8s.io/controller: other}}, spec: {providerSpec: {value: {operatingSystem: centos}}}}}}`, ``},
	{"an unsupported operating system is accepted in an object with a controlling owner, because only the owner's template is checked", `{metadata: {ownerReferences: [{apiVersion: v1, kind: Node, name: owner, uid: u, controller: true}]}, spec: {template: {spec: {providerSpec: {value: {operatingSystem: centos}}}}}}`, ``},
}

func TestWhichTemplatesAndMachinesTheAdmissionPolicyAccepts(t *testing.T) {
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
		{"a Machine with an empty kubelet version is refused (F-34)", "Machine", `{spec: {versions: {kubelet: ""}}}`, "spec.versions.kubelet is ''"},
		{"a Machine with an unsupported operating system is refused (F-34)", "Machine", `{spec: {providerSpec: {value: {operatingSystem: centos}}}}`, "spec.providerSpec.value.operatingSystem is 'centos'"},
		{"a Machine with an invalid value of a node label is refused (F-34)", "Machine", `{spec: {metadata: {labels: {a: b c}}}}`, "spec.metadata.labels has the value 'b c' for 'a'"},
		{"a Machine with an unsupported operating system is accepted when its label machine.k8s.io/controller names another program", "Machine", `{metadata: {labels: {machine.k8s.io/controller: other}}, spec: {providerSpec: {value: {operatingSystem: centos}}}}`, ``},
	} {
		t.Run(r.name, func(t *testing.T) {
			o := merge(t, parse(goodMachine), r.over)
			o.SetNamespace(ns)
			expect(t, r.refusal, admin.Create(t.Context(), o, client.DryRunAll))
		})
	}
}

// wrong is a change that makes every checked part of a template invalid.
const wrong = `{spec: {template: {spec: {versions: null, metadata: {labels: {a: b c, "k k": v}}, providerSpec: {value: {operatingSystem: centos, sshPublicKeys: [notakey]}}}}}}`

func TestOnlyTheChangedPartsOfAStoredInvalidTemplateAreChecked(t *testing.T) {
	for _, kind := range []string{"MachineDeployment", "MachineSet"} {
		// The policy does not check objects with the label of another controller, so the object can be stored with its
		// invalid template.
		o := existing(t, merge(t, merge(t, parse(goodObjects[kind]), wrong), `{spec: {template: {metadata: {labels: {machine.k8s.io/controller: other}}}}}`))
		o = merge(t, o, `{spec: {template: {metadata: {labels: {machine.k8s.io/controller: null}}}}}`)
		if err := admin.Update(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		for _, r := range []struct{ name, over, refusal string }{
			{"a change of the size is accepted (F-34)", `{spec: {replicas: 7}}`, ``},
			{"new labels, annotations and finalizers of the object itself are accepted (F-34)", `{metadata: {labels: {n: m}, annotations: {o: p}, finalizers: [drover.example/hold]}}`, ``},
			{"a change of the flavor is accepted (F-34)", provider(`{cloudProviderSpec: {flavor: m1.large}}`), ``},
			{"a correction of one invalid part is accepted although other parts stay invalid (F-34)", inSpec + `{versions: {kubelet: 1.33.4}}}}}`, ``},
			{"a change to another unsupported operating system is refused (F-34)", provider(`{operatingSystem: rhel}`), "operatingSystem is 'rhel'"},
			{"a new node label is refused, because all node labels are checked together and a stored one is invalid (F-34)", inSpec + `{metadata: {labels: {new: label}}}}}}`, "which is not a label key"},
		} {
			t.Run(kind+": "+r.name, func(t *testing.T) {
				expect(t, r.refusal, admin.Update(t.Context(), merge(t, o, r.over), client.DryRunAll))
			})
		}
	}
}

// largest returns a deployment whose labels and keys are as long as the schema allows, and as many as the policy drover-bytes
// allows of them.
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
	for i := range 15 {
		keys = append(keys, fmt.Sprintf("ssh-rsa AAAAB3NzaC1yc2EAAA%s= somebody-%03d", strings.Repeat("A", 4052), i))
	}
	o := parse(goodDeployment)
	for _, f := range []struct {
		value any
		path  []string
	}{
		{labels(160), []string{"spec", "template", "metadata", "labels"}},
		{labels(160), []string{"spec", "template", "spec", "metadata", "labels"}},
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
	t.Run("a template with 1024 SSH public keys is refused because of its size (F-34, F-96)", func(t *testing.T) {
		var keys []string
		for i := range 1024 {
			keys = append(keys, fmt.Sprintf("ssh-rsa AAAAB3NzaC1yc2EAAA%s= somebody-%d", strings.Repeat("A", 540), i))
		}
		expect(t, "65536 are the most", admin.Create(t.Context(), merge(t, o, provider(`{sshPublicKeys: ["`+strings.Join(keys, `", "`)+`"]}`)), client.DryRunAll))
	})
	t.Run("a template whose providerSpec has 2000 unknown fields is accepted (F-34)", func(t *testing.T) {
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
