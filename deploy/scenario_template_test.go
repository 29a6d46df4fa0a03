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

// templateRules are merged into a good object of each kind with a template.
var templateRules = []struct{ name, over, refusal string }{
	{"a kubelet version with v", inSpec + `{versions: {kubelet: v1.33.4}}}}}`, ``},
	{"a kubelet version without v", inSpec + `{versions: {kubelet: 1.33.4}}}}}`, ``},
	{"an empty kubelet version (F-34)", inSpec + `{versions: {kubelet: ""}}}}}`, "versions.kubelet is '': give the kubelet's version, such as 1.33.4"},
	{"no kubelet version (F-34)", inSpec + `{versions: null}}}}`, "spec.template.spec.versions.kubelet is ''"},
	{"a kubelet version with a zero in front (F-34)", inSpec + `{versions: {kubelet: 1.033.4}}}}}`, "versions.kubelet is '1.033.4'"},
	{"ubuntu", provider(`{operatingSystem: ubuntu}`), ``},
	{"flatcar", provider(`{operatingSystem: flatcar}`), ``},
	{"no operating system: a Cluster may name it", provider(`{operatingSystem: ""}`), ``},
	{"centos (F-34)", provider(`{operatingSystem: centos}`), "operatingSystem is 'centos': drover writes user data for ubuntu and flatcar"},
	{"keys in another case (F-34)", provider(`{OperatingSystem: centos}`), "operatingSystem is 'centos'"},
	{"centos with user data of its own", provider(`{operatingSystem: centos, overwriteCloudConfig: "#cloud-config", sshPublicKeys: [notakey]}`), ``},
	{"public keys", provider(`{sshPublicKeys: ["` + realKey + `", "no-pty ` + realKey + `", "ssh-rsa AAAAB3NzaC1yc2E=\n"]}`), ``},
	{"no public keys", provider(`{sshPublicKeys: []}`), ``},
	{"an invalid public key (F-34)", provider(`{sshPublicKeys: ["` + realKey + `", notakey]}`), "sshPublicKeys has an entry that is not a public key"},
	{"a public key's example (F-34)", provider(`{sshPublicKeys: ["<< YOUR_PUBLIC_KEY >>"]}`), "sshPublicKeys has an entry that is not a public key"},
	{"two public keys in one (F-34)", provider(`{sshPublicKeys: ["` + realKey + `\n` + realKey + `"]}`), "sshPublicKeys has an entry that is not a public key"},
	{"labels with a prefix", inSpec + `{metadata: {labels: {node-role.kubernetes.io/worker: "", a.b/c_d: E-1.f}}}}}}`, ``},
	{"a node label's value (F-34)", inSpec + `{metadata: {labels: {a: b c}}}}}}`, "spec.template.spec.metadata.labels has the value 'b c' for 'a', which is not a label value"},
	{"a node label's key (F-34)", inSpec + `{metadata: {labels: {"a b": c}}}}}}`, "spec.template.spec.metadata.labels has the key 'a b', which is not a label key"},
	{"a node label's prefix (F-34)", inSpec + `{metadata: {labels: {"A_b/c": d}}}}}}`, "has the key 'A_b/c'"},
	{"a node label's empty prefix (F-34)", inSpec + `{metadata: {labels: {"/c": d}}}}}}`, "has the key '/c'"},
	{"a label's value in selector and template (F-34)", `{spec: {selector: {matchLabels: {a: b c}}, template: {metadata: {labels: {a: b c}}}}}`, "spec.template.metadata.labels has the value 'b c' for 'a'"},
	{"a value of an expression (F-34)", `{spec: {selector: {matchExpressions: [{key: none, operator: NotIn, values: [b c]}]}}}`, "spec.selector.matchExpressions has a value for 'none'"},

	{"another provider", provider(`{cloudProvider: aws, operatingSystem: amzn2, sshPublicKeys: [notakey]}`), ``},
	{"no provider", `{spec: {template: {spec: {versions: null, providerSpec: {value: {cloudProvider: null}}}}}}`, ``},
	{"a class", `{spec: {template: {spec: {versions: null, providerSpec: {value: null, valueFrom: {machineClass: {name: c}}}}}}}`, ``},
	{"the old spelling (F-34)", inSpec + `{providerSpec: null, providerConfig: {value: {cloudProvider: openstack, operatingSystem: centos}}}}}}`, "operatingSystem is 'centos'"},
	{"operating-system-manager's by its profile", `{metadata: {annotations: {k8c.io/operating-system-profile: osp-centos}}, spec: {template: {spec: {providerSpec: {value: {operatingSystem: centos}}}}}}`, ``},
	{"operating-system-manager's by its finalizer", `{metadata: {finalizers: [kubermatic.io/cleanup-operating-system-configs]}, spec: {template: {spec: {providerSpec: {value: {operatingSystem: centos}}}}}}`, ``},
	{"another controller's", `{spec: {template: {metadata: {labels: {machine.k8s.io/controller: other}}, spec: {providerSpec: {value: {operatingSystem: centos}}}}}}`, ``},
	{"one that a controller made", `{metadata: {ownerReferences: [{apiVersion: v1, kind: Node, name: owner, uid: u, controller: true}]}, spec: {template: {spec: {providerSpec: {value: {operatingSystem: centos}}}}}}`, ``},
}

func TestATemplateThatCannotBecomeANodeIsRefused(t *testing.T) {
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
		{"an empty kubelet version (F-34)", "Machine", `{spec: {versions: {kubelet: ""}}}`, "spec.versions.kubelet is ''"},
		{"centos (F-34)", "Machine", `{spec: {providerSpec: {value: {operatingSystem: centos}}}}`, "spec.providerSpec.value.operatingSystem is 'centos'"},
		{"a node label (F-34)", "Machine", `{spec: {metadata: {labels: {a: b c}}}}`, "spec.metadata.labels has the value 'b c' for 'a'"},
		{"another controller's", "Machine", `{metadata: {labels: {machine.k8s.io/controller: other}}, spec: {providerSpec: {value: {operatingSystem: centos}}}}`, ``},
	} {
		t.Run("Machine: "+r.name, func(t *testing.T) {
			o := merge(t, parse(goodMachine), r.over)
			o.SetNamespace(ns)
			expect(t, r.refusal, admin.Create(t.Context(), o, client.DryRunAll))
		})
	}
}

// wrong is a template whose parts are all wrong.
const wrong = `{spec: {template: {spec: {versions: null, metadata: {labels: {a: b c, "k k": v}}, providerSpec: {value: {operatingSystem: centos, sshPublicKeys: [notakey]}}}}}}`

func TestStoredWrongTemplates(t *testing.T) {
	for _, kind := range []string{"MachineDeployment", "MachineSet"} {
		// The object is stored as another controller's, which the policy does not check.
		o := existing(t, merge(t, merge(t, parse(goodObjects[kind]), wrong), `{spec: {template: {metadata: {labels: {machine.k8s.io/controller: other}}}}}`))
		o = merge(t, o, `{spec: {template: {metadata: {labels: {machine.k8s.io/controller: null}}}}}`)
		if err := admin.Update(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		for _, r := range []struct{ name, over, refusal string }{
			{"another size (F-34)", `{spec: {replicas: 7}}`, ``},
			{"labels and annotations (F-34)", `{metadata: {labels: {n: m}, annotations: {o: p}, finalizers: [drover.example/hold]}}`, ``},
			{"another flavor (F-34)", provider(`{cloudProviderSpec: {flavor: m1.large}}`), ``},
			{"one part is corrected (F-34)", inSpec + `{versions: {kubelet: 1.33.4}}}}}`, ``},
			{"a part that changes is looked at (F-34)", provider(`{operatingSystem: rhel}`), "operatingSystem is 'rhel'"},
			{"labels that change are looked at (F-34)", inSpec + `{metadata: {labels: {new: label}}}}}}`, "which is not a label key"},
		} {
			t.Run(kind+" that was stored wrong: "+r.name, func(t *testing.T) {
				expect(t, r.refusal, admin.Update(t.Context(), merge(t, o, r.over), client.DryRunAll))
			})
		}
	}
}

// largest returns a deployment with as many and as long parts as the schema allows, within the API server's limit for the
// size of an object.
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

func TestTheLargestTemplateIsChecked(t *testing.T) {
	o := largest(t)
	t.Run("the policy's cost stays within the API server's limits (F-34)", func(t *testing.T) {
		expect(t, "", admin.Create(t.Context(), o, client.DryRunAll))
	})
	t.Run("what is wrong in it is found (F-34)", func(t *testing.T) {
		expect(t, "operatingSystem is 'centos'", admin.Create(t.Context(), merge(t, o, provider(`{operatingSystem: centos}`)), client.DryRunAll))
	})
	t.Run("more public keys than user data has room for (F-34)", func(t *testing.T) {
		var keys []string
		for i := range 1024 {
			keys = append(keys, fmt.Sprintf("ssh-rsa AAAAB3NzaC1yc2EAAA%s= somebody-%d", strings.Repeat("A", 540), i))
		}
		expect(t, "", admin.Create(t.Context(), merge(t, o, provider(`{sshPublicKeys: ["`+strings.Join(keys, `", "`)+`"]}`)), client.DryRunAll))
	})
	t.Run("a provider's document of many keys (F-34)", func(t *testing.T) {
		many := map[string]any{"cloudProvider": "openstack", "operatingSystem": "ubuntu"}
		for i := range 20_000 {
			many[fmt.Sprintf("foreign-%d", i)] = "x"
		}
		o := parse(goodDeployment)
		o.SetNamespace(namespace(t, admin))
		if err := unstructured.SetNestedField(o.Object, many, "spec", "template", "spec", "providerSpec", "value"); err != nil {
			t.Fatal(err)
		}
		expect(t, "", admin.Create(t.Context(), o, client.DryRunAll))
	})
}
