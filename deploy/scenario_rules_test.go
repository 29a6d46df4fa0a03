package deploy_test

import (
	"context"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// These objects are valid. The tests merge the changes of their tables into them.
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

// rule is a row of a table: the changes to a valid object, and a part of the error. An empty refusal means that the API server
// accepts the changed object.
type rule struct {
	name, kind, over, refusal string
}

func TestWhatTheSchemasAcceptAndRefuse(t *testing.T) {
	ns := namespace(t, admin)
	for _, r := range schemaRules {
		t.Run(r.name, func(t *testing.T) {
			o := merge(t, parse(goodObjects[r.kind]), r.over)
			o.SetNamespace(ns)
			expect(t, r.refusal, admin.Create(t.Context(), o, client.DryRunAll))
		})
	}
}

// schemaRules contains the rows of selectorRules twice, because they apply both to MachineDeployments and to MachineSets.
var schemaRules = append(append([]rule{
	{"a valid Machine is accepted", "Machine", ``, ``},
	{"a valid MachineClass is accepted", "MachineClass", ``, ``},
	{"a valid Cluster is accepted", "Cluster", ``, ``},
	{"a Machine without a spec is accepted", "Machine", `{spec: null}`, ``},

	{"a Machine with providerConfig and without providerSpec is accepted (MC-3)", "Machine", `{spec: {providerSpec: null, providerConfig: {value: {cloudProvider: openstack}}}}`, ``},
	{"a Machine with providerConfig and an empty providerSpec is accepted (MC-3)", "Machine", `{spec: {providerSpec: {value: null}, providerConfig: {value: {a: b}}}}`, ``},
	{"a Machine with both providerConfig and providerSpec is refused (MC-3)", "Machine", `{spec: {providerConfig: {value: {a: b}}}}`, "both set"},
	{"a template with both providerConfig and providerSpec is refused (MC-3)", "MachineDeployment", `{spec: {template: {spec: {providerConfig: {value: {a: b}}}}}}`, "both set"},

	{"a Machine's kubelet version without the prefix v is accepted", "Machine", `{spec: {versions: {kubelet: 1.30.3}}}`, ``},
	{"a Machine's kubelet version with build metadata is accepted", "Machine", `{spec: {versions: {kubelet: v1.30.3-rc.1+build.2}}}`, ``},
	{"a Machine's empty kubelet version is accepted when its provider is not OpenStack", "Machine", `{spec: {versions: {kubelet: ""}, providerSpec: {value: {cloudProvider: aws}}}}`, ``},
	{"a Machine's invalid kubelet version is refused", "Machine", `{spec: {versions: {kubelet: latest}}}`, "version like"},
	{"a Machine's kubelet version without a patch number is refused", "Machine", `{spec: {versions: {kubelet: "1.30"}}}`, "version like"},

	{"a Machine's taint without a value is accepted", "Machine", `{spec: {taints: [{key: a, effect: NoExecute}, {key: a, effect: PreferNoSchedule}]}}`, ``},
	{"a Machine's taint without an effect is refused", "Machine", `{spec: {taints: [{key: a}]}}`, "effect: Required"},
	{"a Machine's taint with an unknown effect is refused", "Machine", `{spec: {taints: [{key: a, effect: Never}]}}`, "each taint needs"},
	{"a Machine's taint without a key is refused", "Machine", `{spec: {taints: [{key: "", effect: NoExecute}]}}`, "each taint needs"},
	{"a node label with a value of 64 characters is refused in a Machine", "Machine", `{spec: {metadata: {labels: {a: "` + strings.Repeat("x", 64) + `"}}}}`, "Too long"},
	{"a node label with a value of 63 characters is accepted in a Machine", "Machine", `{spec: {metadata: {labels: {a: "` + strings.Repeat("x", 63) + `"}}}}`, ``},

	{"a Machine whose providerSpec.value is a string is refused", "Machine", `{spec: {providerSpec: {value: text}}}`, "must be of type object"},
	{"a Machine whose providerSpec contains a list of server tags is accepted", "Machine", `{spec: {providerSpec: {value: {cloudProviderSpec: {tags: [a]}}}}}`, ``},
	{"a Machine whose providerSpec contains a map of server tags is accepted", "Machine", `{spec: {providerSpec: {value: {cloudProviderSpec: {tags: {a: b}}}}}}`, ``},
	{"a Machine whose operatingSystem is a number is refused", "Machine", `{spec: {providerSpec: {value: {operatingSystem: 7}}}}`, "must be of type string"},
	{"a Machine whose providerSpec contains a string instead of a list of security groups is refused", "Machine", `{spec: {providerSpec: {value: {cloudProviderSpec: {securityGroups: a}}}}}`, "must be of type array"},
	{"a Machine's providerSpec with the key serverGroupID instead of serverGroup is accepted", "Machine", `{spec: {providerSpec: {value: {cloudProviderSpec: {serverGroupID: a}}}}}`, ``},

	{"a MachineClass for arm64 is accepted", "MachineClass", `{nodeTemplate: {architecture: arm64}}`, ``},
	{"a MachineClass for an unknown architecture is refused", "MachineClass", `{nodeTemplate: {architecture: vax}}`, "Unsupported value"},
	{"a MachineClass with an invalid capacity is refused", "MachineClass", `{nodeTemplate: {capacity: {cpu: many}}}`, "capacity.cpu"},
	{"a Cluster with an invalid address range is refused", "Cluster", `{spec: {clusterNetwork: {pods: {cidrBlocks: [10.0.0.1]}}}}`, "address ranges"},

	{"a MachineSet with the delete policy Oldest is accepted", "MachineSet", `{spec: {deletePolicy: Oldest}}`, ``},
	{"a MachineSet with the delete policy Default is accepted", "MachineSet", `{spec: {deletePolicy: Default}}`, ``},
	{"an empty delete policy of a MachineSet is accepted", "MachineSet", `{spec: {deletePolicy: ""}}`, ``},
	{"a MachineSet with an unknown delete policy is refused (MC-38)", "MachineSet", `{spec: {deletePolicy: Prettiest}}`, "Unsupported value"},

	{"the rollout strategy OnDelete of a MachineDeployment is accepted", "MachineDeployment", `{spec: {strategy: {type: OnDelete}}}`, ``},
	{"the rollout strategy Recreate of a MachineDeployment is accepted", "MachineDeployment", `{spec: {strategy: {type: Recreate}}}`, ``},
	{"an empty type of a MachineDeployment's rollout strategy is accepted", "MachineDeployment", `{spec: {strategy: {type: ""}}}`, ``},
	{"an unknown type of a MachineDeployment's rollout strategy is refused (MC-2, MCM-2)", "MachineDeployment", `{spec: {strategy: {type: BlueGreen}}}`, "Unsupported value"},
	{"maxSurge and maxUnavailable are accepted as numbers (MC-15)", "MachineDeployment", `{spec: {strategy: {rollingUpdate: {maxSurge: 3, maxUnavailable: 2}}}}`, ``},
	{"maxSurge and maxUnavailable are accepted as percentages (MC-15)", "MachineDeployment", `{spec: {strategy: {rollingUpdate: {maxSurge: 250%, maxUnavailable: 100%}}}}`, ``},
	{"a maxSurge of 0 is accepted when maxUnavailable is 1", "MachineDeployment", `{spec: {strategy: {rollingUpdate: {maxSurge: 0, maxUnavailable: 1}}}}`, ``},
	{"a maxSurge of 0 together with a maxUnavailable of 0 is refused (MC-2)", "MachineDeployment", `{spec: {strategy: {rollingUpdate: {maxSurge: 0, maxUnavailable: 0}}}}`, "not both be 0"},
	{"a maxSurge of 0 % together with a maxUnavailable of 0 % is refused (MC-2)", "MachineDeployment", `{spec: {strategy: {rollingUpdate: {maxSurge: 0%, maxUnavailable: 0%}}}}`, "not both be 0"},
	{"a maxSurge of 0 is refused when maxUnavailable is not set (MC-2)", "MachineDeployment", `{spec: {strategy: {rollingUpdate: {maxSurge: 0}}}}`, "not both be 0"},
	{"maxSurge and maxUnavailable are accepted as text without a percent sign, which is a percentage (F-135)", "MachineDeployment", `{spec: {strategy: {rollingUpdate: {maxSurge: "1", maxUnavailable: "0"}}}}`, ``},
	{"a maxSurge of 0 together with a maxUnavailable of 0 is refused as text too (MC-2)", "MachineDeployment", `{spec: {strategy: {rollingUpdate: {maxSurge: "0", maxUnavailable: "0"}}}}`, "not both be 0"},
	{"a maxUnavailable above 100 % is refused (MC-2)", "MachineDeployment", `{spec: {strategy: {rollingUpdate: {maxUnavailable: 101%}}}}`, "0% to 100%"},
	{"a negative maxSurge is refused", "MachineDeployment", `{spec: {strategy: {rollingUpdate: {maxSurge: -1}}}}`, "at least 0"},
	{"a maxSurge that is a word is refused", "MachineDeployment", `{spec: {strategy: {rollingUpdate: {maxSurge: some}}}}`, "percentage"},
	{"a negative revisionHistoryLimit is refused", "MachineDeployment", `{spec: {revisionHistoryLimit: -1}}`, "greater than or equal to 0"},
	{"a negative progressDeadlineSeconds is refused", "MachineDeployment", `{spec: {progressDeadlineSeconds: -1}}`, "greater than or equal to 0"},
	{"a negative placeholderSeries is refused", "MachineDeployment", `{spec: {placeholderSeries: -1}}`, "greater than or equal to 0"},
}, selectorRules("MachineDeployment")...), selectorRules("MachineSet")...)

func selectorRules(kind string) []rule {
	return []rule{
		{"a " + kind + " with only valid fields is accepted", kind, ``, ``},
		{"a " + kind + " without a size is accepted (MC-1)", kind, `{spec: {replicas: null}}`, ``},
		{"a " + kind + " with size 0 is accepted", kind, `{spec: {replicas: 0}}`, ``},
		{"a " + kind + " with a negative size is refused (MC-2)", kind, `{spec: {replicas: -1}}`, "greater than or equal to 0"},
		{"a " + kind + " whose size is a string is refused", kind, `{spec: {replicas: "3"}}`, "must be of type integer"},
		{"a " + kind + " with a negative minReadySeconds is refused", kind, `{spec: {minReadySeconds: -1}}`, "greater than or equal to 0"},
		{"a " + kind + " without a selector is refused (MC-2)", kind, `{spec: {selector: null}}`, "selector must not be empty"},
		{"a " + kind + " with an empty selector is refused (MC-2, MCM-1)", kind, `{spec: {selector: {matchLabels: null}}}`, "spec.selector: Invalid value: must not be empty"},
		{"a " + kind + " whose template does not match the selector is refused (MC-2, MCM-1)", kind, `{spec: {selector: {matchLabels: {group: other}}}}`, "every label of spec.selector.matchLabels"},
		{"a " + kind + " whose template has no labels is refused (MC-2)", kind, `{spec: {template: {metadata: null}}}`, "every label of spec.selector.matchLabels"},
		{"a " + kind + " whose template matches all expressions of the selector is accepted", kind, `{spec: {selector: {matchExpressions: [{key: group, operator: In, values: [f, g]}, {key: other, operator: Exists}, {key: none, operator: DoesNotExist}, {key: other, operator: NotIn, values: [p]}]}}}`, ``},
		{"a " + kind + " whose template does not match an In expression of the selector is refused", kind, `{spec: {selector: {matchExpressions: [{key: group, operator: In, values: [f]}]}}}`, "match spec.selector.matchExpressions"},
		{"a " + kind + " whose template does not match an Exists expression of the selector is refused", kind, `{spec: {selector: {matchExpressions: [{key: none, operator: Exists}]}}}`, "match spec.selector.matchExpressions"},
		{"a " + kind + " whose template has a label value that a NotIn expression of the selector forbids is refused", kind, `{spec: {selector: {matchExpressions: [{key: group, operator: NotIn, values: [g]}]}}}`, "match spec.selector.matchExpressions"},
		{"a " + kind + " whose template has a label that a DoesNotExist expression of the selector forbids is refused", kind, `{spec: {selector: {matchExpressions: [{key: group, operator: DoesNotExist}]}}}`, "match spec.selector.matchExpressions"},
		{"a " + kind + " with an unknown operator in the selector is refused", kind, `{spec: {selector: {matchExpressions: [{key: group, operator: Like, values: [g]}]}}}`, "operators are In, NotIn, Exists and DoesNotExist"},
		{"a " + kind + " with two entries in spec.removals is accepted", kind, `{spec: {removals: [{name: m, uid: u, time: "2026-01-01T00:00:00Z"}, {name: o, uid: v}]}}`, ``},
		{"a " + kind + " with an entry in spec.removals that has no UID is refused", kind, `{spec: {removals: [{name: m}]}}`, "uid: Required"},
		{"a " + kind + " with two entries of the same name in spec.removals is refused", kind, `{spec: {removals: [{name: m, uid: u}, {name: m, uid: v}]}}`, "Duplicate value"},
	}
}

func TestWhichChangesOfDeploymentsAndSetsAreAccepted(t *testing.T) {
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
		{kind + ": new labels in the template are accepted (MC-8)", kind, `{spec: {template: {metadata: {labels: {new: label}}}}}`, ``},
		{kind + ": a change of the selector is refused (MC-8)", kind, `{spec: {selector: {matchLabels: {other: o}}}}`, "selector does not change"},
		{kind + ": a change of the selector is refused although the template matches the new selector (MC-8)", kind, `{spec: {selector: {matchLabels: {group: h}}, template: {metadata: {labels: {group: h}}}}}`, "selector does not change"},
		{kind + ": the removal of the selector is refused (MC-8)", kind, `{spec: {selector: null}}`, "selector"},
		{kind + ": a change of the size is accepted", kind, `{spec: {replicas: 7}}`, ``},
	}
}

// expect fails the test unless err contains the text in refusal. An empty refusal means that err must be nil.
func expect(t *testing.T, refusal string, err error) {
	t.Helper()
	switch {
	case refusal == "" && err != nil:
		t.Errorf("refused: %v", err)
	case refusal != "" && err == nil:
		t.Errorf("accepted, want a refusal that says %q", refusal)
	// The API servers of older releases name the type of a refused object.
	case refusal != "" && !strings.Contains(strings.ReplaceAll(err.Error(), `Invalid value: "object": `, "Invalid value: "), refusal):
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
