package deploy_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/guard"
	"github.com/drover-project/drover/test/kube"
)

// person is a user with rights in one namespace.
type person struct {
	client.Client
	namespace, user, kubeconfig string
}

// authorsRights are RBAC rules that allow everything on drover's kinds and their subresources, except on machines/status.
const authorsRights = `[{apiGroups: [cluster.k8s.io], verbs: ["*"], resources: [clusters, clusters/status, machineclasses, machines,
  machinesets, machinesets/status, machinesets/scale, machinedeployments, machinedeployments/status, machinedeployments/scale]}]`

// author creates a user who may do everything with drover's kinds in a new namespace, except write machines/status.
func author(t *testing.T) person {
	t.Helper()
	p := person{namespace: namespace(t, admin)}
	user := "author-of-" + p.namespace
	role := parse(`{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: author}, rules: ` + authorsRights + `}`)
	role.SetNamespace(p.namespace)
	create(t.Context(), t, admin, role)
	bind(t, p.namespace, "Role", "author", user)
	p.login(t, user)
	p.awaitRights(t, p.namespace, onMachines)
	return p
}

// login makes the person act as the given user.
func (p *person) login(t *testing.T, user string) {
	t.Helper()
	p.user = user
	config, err := cluster.ConfigForUser(user)
	if err != nil {
		t.Fatal(err)
	}
	if p.Client, err = client.New(config, client.Options{}); err != nil {
		t.Fatal(err)
	}
	p.kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	if err := kube.WriteKubeconfig(p.kubeconfig, config); err != nil {
		t.Fatal(err)
	}
}

// operator creates an author who may also update machines/status in the namespace.
func operator(t *testing.T) person {
	t.Helper()
	p := author(t)
	p.trust(t, p.namespace)
	return p
}

// trust allows a person to update machines/status in a namespace.
func (p person) trust(t *testing.T, in string) {
	t.Helper()
	bind(t, in, "ClusterRole", "drover:machine-status", p.user)
	p.awaitRights(t, in, onStatus)
}

// The rights that a test waits for after it has created a RoleBinding.
const (
	onMachines    = "update machines.cluster.k8s.io"
	onDeployments = "update machinedeployments.cluster.k8s.io"
	onStatus      = "update machines.cluster.k8s.io/status"
)

// bind grants a role to a user in a namespace.
func bind(t *testing.T, ns, kind, role, user string) {
	t.Helper()
	binding := parse(`{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {generateName: test-}}`)
	binding.SetNamespace(ns)
	binding.Object["roleRef"] = map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role}
	binding.Object["subjects"] = []any{map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}}
	create(t.Context(), t, admin, binding)
}

// awaitRights waits until the API server's authorizer knows the rights that the person was granted in the namespace. [allowed] defines
// the form of rights.
func (p person) awaitRights(t *testing.T, in string, rights ...string) {
	t.Helper()
	for _, right := range rights {
		eventually(t, namespaceOf(p.namespace), func(*unstructured.Unstructured) bool { return allowed(t, p.user, right, in) })
	}
}

// namespaceOf returns an empty Namespace with the name, to read into.
func namespaceOf(name string) *unstructured.Unstructured {
	o := parse(`{apiVersion: v1, kind: Namespace}`)
	o.SetName(name)
	return o
}

// kubectl runs kubectl as the person.
func (p person) kubectl(t *testing.T, args ...string) error {
	t.Helper()
	_, err := cluster.Kubectl(t.Context(), append([]string{"--kubeconfig", p.kubeconfig, "--namespace", p.namespace}, args...)...)
	return err
}

// replace does what kubectl replace does, without another process: it writes the whole object with the resource version that is stored.
func (p person) replace(t *testing.T, o *unstructured.Unstructured) error {
	t.Helper()
	stored := o.DeepCopy()
	if err := p.Get(t.Context(), client.ObjectKeyFromObject(o), stored); err != nil {
		return err
	}
	o.SetResourceVersion(stored.GetResourceVersion())
	return p.Update(t.Context(), o, client.DryRunAll, client.FieldOwner("kubectl-replace"))
}

// guardedValue is a value that drover's admission policies protect: authors of Machines may not write it. A test creates an object of
// the given kind with the fields in before, and then tries to write the value: it merges the fields in over into the object.
type guardedValue struct {
	name, kind, before, over string
	// says is the name of the value in the error with which the API server refuses the write.
	says string
	// status is true when the value is written through the subresource status.
	status bool
}

// verbs returns the ways in which a client can write the guarded value, such as update or patch.
func (g guardedValue) verbs() []string {
	switch {
	case g.status:
		return []string{"update", "patch", "apply"}
	case strings.Contains(g.over, "finalizers"):
		return []string{"update", "patch", "replace"}
	case g.before != "":
		return []string{"update", "patch", "apply", "replace"}
	}
	return []string{"create", "update", "patch", "apply", "replace"}
}

const (
	allFinalizers = `{metadata: {finalizers: [machine-delete-finalizer, machine-node-delete-finalizer, kubermatic.io/release-openstack-floating-ip, example.com/own]}}`
	oneRemoval    = `[{name: m, uid: u, time: "2026-01-01T00:00:00Z"}]`
	twoRemovals   = `[{name: m, uid: u, time: "2026-01-01T00:00:00Z"}, {name: other, uid: v, time: "2026-01-01T00:00:00Z"}]`
)

func guardedValues() []guardedValue {
	all := []guardedValue{
		{"sets status.addresses", "Machine", ``, `{status: {addresses: [{type: InternalIP, address: 10.96.0.1}]}}`, "status.addresses", false},
		{"changes status.addresses", "Machine", `{status: {addresses: [{type: InternalIP, address: 10.0.0.1}]}}`, `{status: {addresses: [{type: InternalIP, address: 10.96.0.1}]}}`, "status.addresses", false},
		{"adds an address to status.addresses", "Machine", `{status: {addresses: [{type: InternalIP, address: 10.0.0.1}]}}`, `{status: {addresses: [{type: InternalIP, address: 10.0.0.1}, {type: InternalIP, address: 10.96.0.1}]}}`, "status.addresses", false},
		{"sets status.nodeRef", "Machine", ``, `{status: {nodeRef: {kind: Node, name: control-plane}}}`, "status.nodeRef", false},
		{"changes status.nodeRef", "Machine", `{status: {nodeRef: {kind: Node, name: good}}}`, `{status: {nodeRef: {kind: Node, name: control-plane}}}`, "status.nodeRef", false},
		{"sets status.providerStatus", "Machine", ``, `{status: {providerStatus: {volumeIDs: [3f7c1b1e-0000-4000-8000-000000000000]}}}`, "status.providerStatus", false},
		{"sets status.phase", "Machine", ``, `{status: {phase: Running}}`, "status.phase", false},
		{"changes status.conditions", "Machine", `{status: {conditions: [{type: Ready, status: "False"}]}}`, `{status: {conditions: [{type: Ready, status: "True"}]}}`, "status.conditions", false},
		{"sets status.backoffs", "Machine", ``, `{status: {backoffs: [{class: Quota, flavor: f, zone: z, code: c, until: "2036-01-01T00:00:00Z"}]}}`, "status.backoffs", false},
		{"sets spec.providerID", "Machine", ``, `{spec: {providerID: "openstack:///3f7c1b1e-0000-4000-8000-000000000000"}}`, "spec.providerID", false},
		{"changes spec.providerID and sets the annotation bypass-no-spec-mutation-requirement", "Machine", `{spec: {providerID: "openstack:///1"}}`, `{metadata: {annotations: {kubermatic.io/bypass-no-spec-mutation-requirement: "true"}}, spec: {providerID: "openstack:///2"}}`, "spec.providerID", false},
		{"removes the finalizer machine-delete-finalizer", "Machine", allFinalizers, `{metadata: {finalizers: [machine-node-delete-finalizer, kubermatic.io/release-openstack-floating-ip]}}`, "the finalizer machine-delete-finalizer", false},
		{"removes the finalizer machine-node-delete-finalizer", "Machine", allFinalizers, `{metadata: {finalizers: [machine-delete-finalizer, kubermatic.io/release-openstack-floating-ip]}}`, "the finalizer machine-node-delete-finalizer", false},
		{"removes the finalizer kubermatic.io/release-openstack-floating-ip", "Machine", allFinalizers, `{metadata: {finalizers: [machine-delete-finalizer, machine-node-delete-finalizer]}}`, "the finalizer kubermatic.io/release", false},
		{"removes all finalizers", "Machine", allFinalizers, `{metadata: {finalizers: null}}`, "the finalizer machine-delete-finalizer", false},
		{"sets spec.rolloutRemovals", "MachineSet", ``, `{spec: {rolloutRemovals: ` + oneRemoval + `}}`, "spec.rolloutRemovals", false},
	}
	for _, l := range []string{"node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master", "node-restriction.kubernetes.io/tier", "a.node-restriction.kubernetes.io/tier"} {
		all = append(all,
			guardedValue{"sets the label " + l, "Machine", ``, `{metadata: {labels: {` + l + `: x}}}`, "the label " + l, false},
			guardedValue{"changes the label " + l, "Machine", `{metadata: {labels: {` + l + `: w}}}`, `{metadata: {labels: {` + l + `: x}}}`, "the label " + l, false},
			guardedValue{"sets the label " + l + " for the Node", "Machine", ``, `{metadata: {annotations: {kubermatic.io/bypass-no-spec-mutation-requirement: "true"}}, spec: {metadata: {labels: {` + l + `: x}}}}`, "the label " + l, false},
			guardedValue{"sets the label " + l + " in the template", "MachineSet", ``, `{spec: {template: {metadata: {labels: {` + l + `: x}}}}}`, "the label " + l, false},
			guardedValue{"changes the label " + l + " for Nodes in the template", "MachineDeployment", `{spec: {template: {spec: {metadata: {labels: {` + l + `: w}}}}}}`, `{spec: {template: {spec: {metadata: {labels: {` + l + `: x}}}}}}`, "the label " + l, false},
			guardedValue{"sets the label " + l + " for Nodes in the template", "MachineDeployment", ``, `{spec: {template: {spec: {metadata: {labels: {` + l + `: x}}}}}}`, "the label " + l, false},
		)
	}
	for _, a := range v1alpha1.GuardedAnnotations {
		all = append(all, guardedValue{"sets the annotation " + a, "Machine", ``, `{metadata: {annotations: {` + a + `: x}}}`, "the annotation " + a, false},
			guardedValue{"changes the annotation " + a, "Machine", `{metadata: {annotations: {` + a + `: w}}}`, `{metadata: {annotations: {` + a + `: x}}}`, "the annotation " + a, false})
	}
	for _, kind := range []string{"MachineSet", "MachineDeployment"} {
		all = append(all,
			guardedValue{"sets spec.removals", kind, ``, `{spec: {removals: ` + oneRemoval + `}}`, "spec.removals", false},
			guardedValue{"adds a removal to spec.removals", kind, `{spec: {removals: ` + oneRemoval + `}}`, `{spec: {removals: ` + twoRemovals + `}}`, "spec.removals", false},
			guardedValue{"sets spec.placeholderSeries", kind, ``, `{spec: {placeholderSeries: 3}}`, "spec.placeholderSeries", false},
			guardedValue{"raises spec.placeholderSeries", kind, `{spec: {placeholderSeries: 2}}`, `{spec: {placeholderSeries: 3}}`, "spec.placeholderSeries", false},
			guardedValue{"resets spec.placeholderSeries to 0", kind, `{spec: {placeholderSeries: 2}}`, `{spec: {placeholderSeries: 0}}`, "spec.placeholderSeries", false},
			guardedValue{"sets spec.template.spec.providerID", kind, ``, `{spec: {template: {spec: {providerID: "openstack:///1"}}}}`, "spec.template.spec.providerID", false},
			guardedValue{"sets the status", kind, ``, `{status: {replicas: 7}}`, "the status", true},
		)
		for _, a := range v1alpha1.GuardedAnnotations {
			all = append(all, guardedValue{"sets the annotation " + a + " in the template", kind, ``, `{spec: {template: {metadata: {annotations: {` + a + `: x}}}}}`, "the annotation " + a, false})
		}
	}
	return all
}

// write tries to write the guarded value into the object stored, in the way that verb names, and returns the API server's answer.
func (g guardedValue) write(t *testing.T, p person, verb string, stored *unstructured.Unstructured) error {
	t.Helper()
	changed := merge(t, stored, g.over)
	switch verb {
	case "create":
		o := merge(t, parse(goodObjects[g.kind]), g.over)
		o.SetNamespace(p.namespace)
		o.SetName("another")
		return p.Create(t.Context(), o, client.DryRunAll)
	case "update":
		if g.status {
			return p.Status().Update(t.Context(), changed, client.DryRunAll)
		}
		return p.Update(t.Context(), changed, client.DryRunAll)
	case "patch":
		raw, err := yaml.YAMLToJSON([]byte(g.over))
		if err != nil {
			t.Fatal(err)
		}
		if g.status {
			return p.Status().Patch(t.Context(), stored.DeepCopy(), client.RawPatch("application/merge-patch+json", raw), client.DryRunAll)
		}
		return mergePatch(t.Context(), p, stored, string(raw), client.DryRunAll)
	case "apply":
		applied := merge(t, parse(fmt.Sprintf(`{apiVersion: cluster.k8s.io/v1alpha1, kind: %s, metadata: {name: %s, namespace: %s}}`, g.kind, stored.GetName(), p.namespace)), g.over)
		as := client.ApplyConfigurationFromUnstructured(applied)
		if g.status {
			return p.Status().Apply(t.Context(), as, client.FieldOwner("author"), client.ForceOwnership, client.DryRunAll)
		}
		return p.Apply(t.Context(), as, client.FieldOwner("author"), client.ForceOwnership, client.DryRunAll)
	case "replace", "kubectl replace":
		for _, field := range []string{"resourceVersion", "uid", "managedFields", "generation", "creationTimestamp"} {
			unstructured.RemoveNestedField(changed.Object, "metadata", field)
		}
		if verb == "kubectl replace" {
			return p.kubectl(t, "replace", "--dry-run=server", "-f", temp(t, changed))
		}
		return p.replace(t, changed)
	}
	t.Fatalf("no verb %s", verb)
	return nil
}

// stored creates, as the administrator, an object in which tests write the guarded value.
func (g guardedValue) stored(t *testing.T, ns, name string) *unstructured.Unstructured {
	t.Helper()
	o := merge(t, parse(goodObjects[g.kind]), g.before)
	o.SetNamespace(ns)
	o.SetName(name)
	return create(t.Context(), t, admin, o)
}

// withKubectl returns the ways in which a test tries to write the i-th guarded value: the verbs that guardedValue.write accepts. It
// adds kubectl replace only for the first value of each kind that can be replaced, because each run of kubectl starts a process.
func withKubectl(all []guardedValue, i int) []string {
	g := all[i]
	first := slices.IndexFunc(all, func(other guardedValue) bool {
		return other.kind == g.kind && slices.Contains(other.verbs(), "replace")
	})
	if i == first {
		return append(g.verbs(), "kubectl replace")
	}
	return g.verbs()
}

// request returns the way to write that verb names, for the name of a subtest.
func request(verb string) string {
	if verb == "kubectl replace" {
		return "kubectl replace command"
	}
	return verb + " request"
}

func TestAnAuthorOfMachinesMayNotSetValuesReservedForDrover(t *testing.T) {
	// p may update machines/status in the other author's namespace. This must not allow p anything in p's own namespace.
	p, other := author(t), author(t)
	p.trust(t, other.namespace)
	awaitGuards(t, p)
	all := guardedValues()
	for i, g := range all {
		stored := g.stored(t, p.namespace, fmt.Sprintf("g%d", i))
		for _, verb := range withKubectl(all, i) {
			t.Run(fmt.Sprintf("%s: an author's %s that %s is refused (F-5)", g.kind, request(verb), g.name), func(t *testing.T) {
				err := g.write(t, p, verb, stored)
				expect(t, g.says, err)
				expect(t, "drover-guard-", err)
				expect(t, "docs/security.md", err)
			})
		}
	}
}

func TestAUserWhoMayUpdateMachinesStatusMaySetValuesReservedForDrover(t *testing.T) {
	p := operator(t)
	all := guardedValues()
	for i, g := range all {
		stored := g.stored(t, p.namespace, fmt.Sprintf("g%d", i))
		for _, verb := range withKubectl(all, i) {
			t.Run(fmt.Sprintf("%s: the user's %s that %s is allowed (F-5)", g.kind, request(verb), g.name), func(t *testing.T) {
				expect(t, "", g.write(t, p, verb, stored))
			})
		}
	}
}

// awaitGuards waits until the guard policies refuse a write of p, who may write Machines but may not set guarded values.
func awaitGuards(t *testing.T, p person) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		for _, kind := range []string{"Machine", "MachineSet"} {
			over := map[string]string{"Machine": `{spec: {providerID: a}}`, "MachineSet": `{spec: {placeholderSeries: 1}}`}[kind]
			o := merge(t, parse(goodObjects[kind]), over)
			o.SetNamespace(p.namespace)
			if err := p.Create(ctx, o, client.DryRunAll); err == nil || !strings.Contains(err.Error(), "drover-guard-") {
				return false, client.IgnoreAlreadyExists(err)
			}
		}
		return true, nil
	})
	if err != nil {
		t.Fatalf("waiting for the guard policies: %v", err)
	}
}

// An author may change everything except values that are reserved for drover, even in objects that drover has written to.
func TestWhatAnAuthorOfMachinesMayDo(t *testing.T) {
	p := author(t)
	byDrover := map[string]string{
		"Machine":    `{metadata: {labels: {node-restriction.kubernetes.io/tier: w}, annotations: {kubermatic.io/release-openstack-floating-ip: w}}, spec: {providerID: "openstack:///1"}, status: {phase: Running, addresses: [{type: InternalIP, address: 10.0.0.1}, {type: Hostname, address: good}]}}`,
		"MachineSet": `{spec: {removals: ` + oneRemoval + `, rolloutRemovals: ` + twoRemovals + `, placeholderSeries: 4}}`, "MachineDeployment": `{spec: {template: {spec: {metadata: {labels: {node-restriction.kubernetes.io/tier: w}}}}, removals: ` + twoRemovals + `, placeholderSeries: 4}}`,
	}
	for kind, before := range byDrover {
		o := guardedValue{kind: kind, before: before}.stored(t, p.namespace, "o-"+strings.ToLower(kind))
		for name, over := range map[string]string{
			"adds a label and an annotation":   `{metadata: {labels: {n: m}, annotations: {n: m}}}`,
			"pauses the object":                `{metadata: {annotations: {cluster.k8s.io/paused: "true"}}}`,
			"sets the author's own finalizer":  `{metadata: {finalizers: [example.com/own]}}`,
			"removes values written by drover": `{metadata: {labels: {node-restriction.kubernetes.io/tier: null}, annotations: {kubermatic.io/release-openstack-floating-ip: null}}, spec: {removals: null, rolloutRemovals: null, placeholderSeries: null}, status: null}`,
		} {
			for _, verb := range []string{"update", "patch", "replace"} {
				t.Run(fmt.Sprintf("%s: an author's %s request that %s is allowed (F-5)", kind, verb, name), func(t *testing.T) {
					expect(t, "", guardedValue{kind: kind, over: over}.write(t, p, verb, o))
				})
			}
		}
		t.Run("an author may create a "+kind+" without values that are reserved for drover (F-5)", func(t *testing.T) {
			expect(t, "", guardedValue{kind: kind}.write(t, p, "create", o))
		})
		if kind == "Machine" {
			t.Run("an author may remove an address from the status of a Machine (F-5)", func(t *testing.T) {
				expect(t, "", guardedValue{kind: kind, over: `{status: {addresses: [{type: Hostname, address: good}]}}`}.write(t, p, "patch", o))
			})
			t.Run("an author may set the annotations delete-machine and force-delete of a Machine (F-5)", func(t *testing.T) {
				expect(t, "", mergePatch(t.Context(), p, o, `{"metadata":{"annotations":{"cluster.k8s.io/delete-machine":"yes","drover-project.github.io/force-delete":"true"}}}`))
			})
		} else {
			t.Run("an author may change the template of a "+kind+" (F-5)", func(t *testing.T) {
				expect(t, "", mergePatch(t.Context(), p, o, `{"spec":{"template":{"spec":{"versions":{"kubelet":"1.36.3"}},"metadata":{"annotations":{"a":"b"}}}}}`))
			})
			t.Run("an author may scale a "+kind+" (F-5)", func(t *testing.T) {
				expect(t, "", p.kubectl(t, "scale", strings.ToLower(kind)+".cluster.k8s.io/"+o.GetName(), "--replicas=3"))
			})
		}
		t.Run("an author may delete a "+kind+" (F-5)", func(t *testing.T) { expect(t, "", p.Delete(t.Context(), o)) })
	}
}

// The policies must name every guarded finalizer and annotation, and must guard every field of a Machine's status.
func TestThePoliciesCoverEveryFinalizerAnnotationAndStatusFieldReservedForDrover(t *testing.T) {
	for file, keys := range map[string][]string{
		"guard-machines.yaml": append([]string{v1alpha1.FinalizerServer, v1alpha1.FinalizerNode, v1alpha1.FinalizerFloatingIP}, v1alpha1.GuardedAnnotations...),
		"guard-groups.yaml":   v1alpha1.GuardedAnnotations,
	} {
		raw, err := os.ReadFile("policies/" + file)
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range keys {
			if !strings.Contains(string(raw), "'"+key+"'") {
				t.Errorf("%s does not guard %s (F-5)", file, key)
			}
		}
	}
	var status []string
	for field := range specFields(t, "machines.cluster.k8s.io", "status") {
		status = append(status, field)
	}
	if !slices.Contains(status, "addresses") {
		t.Errorf("the fields of a Machine's status are %v", status)
	}
	slices.Sort(status)
	p := author(t)
	samples := map[string]string{
		"addresses": `[{type: InternalIP, address: a}]`, "backoffs": `[{class: a, flavor: b, zone: c, code: d, until: "2036-01-01T00:00:00Z"}]`,
		"conditions": `[{type: a, status: "True"}]`, "nodeRef": `{name: a}`, "lastUpdated": `"2036-01-01T00:00:00Z"`, "versions": `{kubelet: 1.30.3}`,
		"providerStatus": `{a: b}`, "lastOperation": `{type: a}`, "nodeMarks": `{started: true}`,
		"serverStart": `{server: a, time: "2036-01-01T00:00:00Z"}`,
	}
	machine := guardedValue{kind: "Machine"}.stored(t, p.namespace, "fields")
	for _, field := range status {
		sample, ok := samples[field]
		if !ok {
			sample = "a"
		}
		t.Run("an author may not set status."+field+" of a Machine (F-5)", func(t *testing.T) {
			over := `{status: {` + field + `: ` + sample + `}}`
			expect(t, "status."+field+" cannot be set", guardedValue{kind: "Machine", over: over}.write(t, p, "patch", machine))
		})
	}
}

// drover compares the stored policies with the shipped ones. Fields that the API server has set to defaults must not count as a
// difference.
func TestDroverRecognizesItsInstalledAdmissionPolicies(t *testing.T) {
	t.Run("drover's periodic check finds that its installed admission policies are in force (F-5)", func(t *testing.T) {
		drover := person{namespace: "drover"}
		drover.login(t, account)
		now := clocktesting.NewFakeClock(time.Now())
		watch, err := guard.New(guard.Options{Reader: drover, Shipped: objects(t, "policies"), Events: events.NewFakeRecorder(10), Clock: now})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- watch.Start(ctx) }()
		eventually(t, namespaceOf("drover"), func(*unstructured.Unstructured) bool {
			if now.HasWaiters() && !watch.InForce() {
				now.Step(10 * time.Second)
			}
			return watch.InForce()
		})
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
