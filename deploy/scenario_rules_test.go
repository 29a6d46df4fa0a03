package deploy_test

import (
	"context"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Objects that violate no rule. The tables merge changes into them.
const (
	goodMachine = `
apiVersion: cluster.k8s.io/v1alpha1
kind: Machine
metadata: {name: good, labels: {a: b}, annotations: {c: d}}
spec:
  metadata: {name: good, labels: {zone: z}, annotations: {c: d}}
  taints: [{key: dedicated, value: x, effect: NoSchedule}]
  versions: {kubelet: v1.36.2}
  providerSpec: {value: {cloudProvider: openstack, cloudProviderSpec: {flavor: m1.small}, operatingSystem: ubuntu}}
`
	goodSet = `
apiVersion: cluster.k8s.io/v1alpha1
kind: MachineSet
metadata: {name: good}
spec:
  replicas: 1
  selector: {matchLabels: {group: g}}
  template:
    metadata: {labels: {group: g, other: o}}
    spec: {versions: {kubelet: 1.36.2}, providerSpec: {value: {cloudProvider: openstack}}}
`
	goodDeployment = `
apiVersion: cluster.k8s.io/v1alpha1
kind: MachineDeployment
metadata: {name: good}
spec:
  replicas: 1
  selector: {matchLabels: {group: g}}
  template:
    metadata: {labels: {group: g, other: o}}
    spec: {versions: {kubelet: 1.36.2}, providerSpec: {value: {cloudProvider: openstack}}}
`
	goodClass = `
apiVersion: cluster.k8s.io/v1alpha1
kind: MachineClass
metadata: {name: good}
provider: openstack
providerSpec: {cloudProvider: openstack, cloudProviderSpec: {flavor: m1.small, novel: 1}}
secretRef: {name: a, namespace: b}
nodeTemplate: {capacity: {cpu: "2"}, architecture: amd64}
`
	goodCluster = `
apiVersion: cluster.k8s.io/v1alpha1
kind: Cluster
metadata: {name: good}
spec:
  clusterNetwork: {services: {cidrBlocks: [10.96.0.0/16, "fd00::/108"]}, pods: {cidrBlocks: [10.244.0.0/16]}, serviceDomain: cluster.local}
  providerSpec: {value: {cloudProviderSpec: {region: dbl}}}
`
)

var goodObjects = map[string]string{
	"Machine": goodMachine, "MachineSet": goodSet, "MachineDeployment": goodDeployment, "MachineClass": goodClass, "Cluster": goodCluster,
}

// rule is one row: an object with changes merged into it, and the words of the refusal. No words mean that
// the object is accepted.
type rule struct {
	name, kind, over, refusal string
}

func TestTheSchemasRules(t *testing.T) {
	ns := namespace(t, admin)
	for _, r := range schemaRules {
		t.Run(r.name, func(t *testing.T) {
			o := merge(t, parse(goodObjects[r.kind]), r.over)
			o.SetNamespace(ns)
			expect(t, r.refusal, admin.Create(t.Context(), o, client.DryRunAll))
		})
	}
}

// Rows that apply to sets and deployments alike are in both tables.
var schemaRules = append(append([]rule{
	{"every kind as it should be: Machine", "Machine", ``, ``},
	{"every kind as it should be: MachineClass", "MachineClass", ``, ``},
	{"every kind as it should be: Cluster", "Cluster", ``, ``},
	{"an almost empty Machine", "Machine", `{spec: null}`, ``},

	{"the old spelling alone (MC-3)", "Machine", `{spec: {providerSpec: null, providerConfig: {value: {cloudProvider: openstack}}}}`, ``},
	{"the old spelling beside an empty new one (MC-3)", "Machine", `{spec: {providerSpec: {value: null}, providerConfig: {value: {a: b}}}}`, ``},
	{"both spellings (MC-3)", "Machine", `{spec: {providerConfig: {value: {a: b}}}}`, "both set"},
	{"both spellings in a template (MC-3)", "MachineDeployment", `{spec: {template: {spec: {providerConfig: {value: {a: b}}}}}}`, "both set"},

	{"a kubelet without v", "Machine", `{spec: {versions: {kubelet: 1.30.3}}}`, ``},
	{"a kubelet with build", "Machine", `{spec: {versions: {kubelet: v1.30.3-rc.1+build.2}}}`, ``},
	{"no kubelet yet, of another provider", "Machine", `{spec: {versions: {kubelet: ""}, providerSpec: {value: {cloudProvider: aws}}}}`, ``},
	{"an invalid kubelet version", "Machine", `{spec: {versions: {kubelet: latest}}}`, "version like"},
	{"a kubelet without patch", "Machine", `{spec: {versions: {kubelet: "1.30"}}}`, "version like"},

	{"a taint without value", "Machine", `{spec: {taints: [{key: a, effect: NoExecute}, {key: a, effect: PreferNoSchedule}]}}`, ``},
	{"a taint without effect", "Machine", `{spec: {taints: [{key: a}]}}`, "effect: Required"},
	{"a taint with an unknown effect", "Machine", `{spec: {taints: [{key: a, effect: Never}]}}`, "each taint needs"},
	{"a taint without key", "Machine", `{spec: {taints: [{key: "", effect: NoExecute}]}}`, "each taint needs"},
	{"a label that is too long", "Machine", `{spec: {metadata: {labels: {a: "` + strings.Repeat("x", 64) + `"}}}}`, "Too long"},
	{"a label that is just right", "Machine", `{spec: {metadata: {labels: {a: "` + strings.Repeat("x", 63) + `"}}}}`, ``},

	{"a provider value that is text", "Machine", `{spec: {providerSpec: {value: text}}}`, "must be of type object"},
	{"tags that are a list", "Machine", `{spec: {providerSpec: {value: {cloudProviderSpec: {tags: [a]}}}}}`, ``},
	{"tags that are a map", "Machine", `{spec: {providerSpec: {value: {cloudProviderSpec: {tags: {a: b}}}}}}`, ``},
	{"an operating system that is a number", "Machine", `{spec: {providerSpec: {value: {operatingSystem: 7}}}}`, "must be of type string"},
	{"security groups that are text", "Machine", `{spec: {providerSpec: {value: {cloudProviderSpec: {securityGroups: a}}}}}`, "must be of type array"},
	{"serverGroupID", "Machine", `{spec: {providerSpec: {value: {cloudProviderSpec: {serverGroupID: a}}}}}`, ``},

	{"a class for arm64", "MachineClass", `{nodeTemplate: {architecture: arm64}}`, ``},
	{"a class for a VAX", "MachineClass", `{nodeTemplate: {architecture: vax}}`, "Unsupported value"},
	{"a class with an invalid capacity", "MachineClass", `{nodeTemplate: {capacity: {cpu: many}}}`, "capacity.cpu"},
	{"a Cluster with ranges that are none", "Cluster", `{spec: {clusterNetwork: {pods: {cidrBlocks: [10.0.0.1]}}}}`, "address ranges"},

	{"delete policies", "MachineSet", `{spec: {deletePolicy: Oldest}}`, ``},
	{"the fork's delete policy", "MachineSet", `{spec: {deletePolicy: Default}}`, ``},
	{"the empty delete policy", "MachineSet", `{spec: {deletePolicy: ""}}`, ``},
	{"an unknown delete policy (MC-38)", "MachineSet", `{spec: {deletePolicy: Prettiest}}`, "Unsupported value"},

	{"OnDelete", "MachineDeployment", `{spec: {strategy: {type: OnDelete}}}`, ``},
	{"Recreate", "MachineDeployment", `{spec: {strategy: {type: Recreate}}}`, ``},
	{"the empty strategy", "MachineDeployment", `{spec: {strategy: {type: ""}}}`, ``},
	{"an unknown strategy (MC-2, MCM-2)", "MachineDeployment", `{spec: {strategy: {type: BlueGreen}}}`, "Unsupported value"},
	{"surge and unavailable as numbers (MC-15)", "MachineDeployment", `{spec: {strategy: {rollingUpdate: {maxSurge: 3, maxUnavailable: 2}}}}`, ``},
	{"surge and unavailable as percentages (MC-15)", "MachineDeployment", `{spec: {strategy: {rollingUpdate: {maxSurge: 250%, maxUnavailable: 100%}}}}`, ``},
	{"no surge", "MachineDeployment", `{spec: {strategy: {rollingUpdate: {maxSurge: 0, maxUnavailable: 1}}}}`, ``},
	{"both 0 (MC-2)", "MachineDeployment", `{spec: {strategy: {rollingUpdate: {maxSurge: 0, maxUnavailable: 0}}}}`, "not both be 0"},
	{"both 0 in percent (MC-2)", "MachineDeployment", `{spec: {strategy: {rollingUpdate: {maxSurge: 0%, maxUnavailable: 0%}}}}`, "not both be 0"},
	{"surge 0, unavailable left to its default (MC-2)", "MachineDeployment", `{spec: {strategy: {rollingUpdate: {maxSurge: 0}}}}`, "not both be 0"},
	{"more than everything unavailable (MC-2)", "MachineDeployment", `{spec: {strategy: {rollingUpdate: {maxUnavailable: 101%}}}}`, "0% to 100%"},
	{"a negative surge", "MachineDeployment", `{spec: {strategy: {rollingUpdate: {maxSurge: -1}}}}`, "at least 0"},
	{"a surge in words", "MachineDeployment", `{spec: {strategy: {rollingUpdate: {maxSurge: some}}}}`, "percentage"},
	{"a negative history", "MachineDeployment", `{spec: {revisionHistoryLimit: -1}}`, "greater than or equal to 0"},
	{"a negative deadline", "MachineDeployment", `{spec: {progressDeadlineSeconds: -1}}`, "greater than or equal to 0"},
	{"a negative placeholder series", "MachineDeployment", `{spec: {placeholderSeries: -1}}`, "greater than or equal to 0"},
}, selectorRules("MachineDeployment")...), selectorRules("MachineSet")...)

func selectorRules(kind string) []rule {
	rules := []rule{
		{"as it should be", kind, ``, ``},
		{"without a size (MC-1)", kind, `{spec: {replicas: null}}`, ``},
		{"size 0", kind, `{spec: {replicas: 0}}`, ``},
		{"a negative size (MC-2)", kind, `{spec: {replicas: -1}}`, "greater than or equal to 0"},
		{"a size that is text", kind, `{spec: {replicas: "3"}}`, "must be of type integer"},
		{"a negative minReadySeconds", kind, `{spec: {minReadySeconds: -1}}`, "greater than or equal to 0"},
		{"no selector (MC-2)", kind, `{spec: {selector: null}}`, "selector must not be empty"},
		{"an empty selector (MC-2, MCM-1)", kind, `{spec: {selector: {matchLabels: null}}}`, "spec.selector: Invalid value: must not be empty"},
		{"a selector that the template does not match (MC-2, MCM-1)", kind, `{spec: {selector: {matchLabels: {group: other}}}}`, "every label of spec.selector.matchLabels"},
		{"a template without labels (MC-2)", kind, `{spec: {template: {metadata: null}}}`, "every label of spec.selector.matchLabels"},
		{"expressions that match", kind, `{spec: {selector: {matchExpressions: [{key: group, operator: In, values: [f, g]}, {key: other, operator: Exists}, {key: none, operator: DoesNotExist}, {key: other, operator: NotIn, values: [p]}]}}}`, ``},
		{"an In that does not match", kind, `{spec: {selector: {matchExpressions: [{key: group, operator: In, values: [f]}]}}}`, "match spec.selector.matchExpressions"},
		{"an Exists that does not match", kind, `{spec: {selector: {matchExpressions: [{key: none, operator: Exists}]}}}`, "match spec.selector.matchExpressions"},
		{"a NotIn that excludes", kind, `{spec: {selector: {matchExpressions: [{key: group, operator: NotIn, values: [g]}]}}}`, "match spec.selector.matchExpressions"},
		{"a DoesNotExist that excludes", kind, `{spec: {selector: {matchExpressions: [{key: group, operator: DoesNotExist}]}}}`, "match spec.selector.matchExpressions"},
		{"an unknown operator", kind, `{spec: {selector: {matchExpressions: [{key: group, operator: Like, values: [g]}]}}}`, "operators are In, NotIn, Exists and DoesNotExist"},
		{"a removal", kind, `{spec: {removals: [{name: m, uid: u, time: "2026-01-01T00:00:00Z"}, {name: o, uid: v}]}}`, ``},
		{"a removal without UID", kind, `{spec: {removals: [{name: m}]}}`, "uid: Required"},
		{"a removal twice", kind, `{spec: {removals: [{name: m, uid: u}, {name: m, uid: v}]}}`, "Duplicate value"},
	}
	for i := range rules {
		rules[i].name = kind + " " + rules[i].name
	}
	return rules
}

func TestRulesAboutChanges(t *testing.T) {
	for _, r := range append(changes("MachineDeployment"), changes("MachineSet")...) {
		t.Run(r.name, func(t *testing.T) {
			o := parse(goodObjects[r.kind])
			o.SetNamespace(namespace(t, admin))
			if err := admin.Create(t.Context(), o); err != nil {
				t.Fatal(err)
			}
			expect(t, r.refusal, admin.Update(t.Context(), merge(t, o, r.over), client.DryRunAll))
		})
	}
}

func changes(kind string) []rule {
	return []rule{
		{"MC-8 " + kind + ": a template's labels grow", kind, `{spec: {template: {metadata: {labels: {new: label}}}}}`, ``},
		{"MC-8 " + kind + ": another selector", kind, `{spec: {selector: {matchLabels: {other: o}}}}`, "selector does not change"},
		{"MC-8 " + kind + ": another selector with its template", kind, `{spec: {selector: {matchLabels: {group: h}}, template: {metadata: {labels: {group: h}}}}}`, "selector does not change"},
		{"MC-8 " + kind + ": no selector any more", kind, `{spec: {selector: null}}`, "selector"},
		{kind + ": another size", kind, `{spec: {replicas: 7}}`, ``},
	}
}

// expect fails the test unless err has the words in refusal. An empty refusal means that err must be
// nil.
func expect(t *testing.T, refusal string, err error) {
	t.Helper()
	switch {
	case refusal == "" && err != nil:
		t.Errorf("refused: %v", err)
	case refusal != "" && err == nil:
		t.Errorf("accepted, want a refusal that says %q", refusal)
	case refusal != "" && !strings.Contains(err.Error(), refusal):
		t.Errorf("refused with %v, want %q", err, refusal)
	}
}

func create(ctx context.Context, t *testing.T, c client.Client, o *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	if err := c.Create(ctx, o); err != nil {
		t.Fatalf("creating %s %s: %v", o.GetKind(), o.GetName(), err)
	}
	return o
}
