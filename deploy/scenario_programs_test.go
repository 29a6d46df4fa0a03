package deploy_test

import (
	"context"
	"encoding/json"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/test/machinecontroller"
)

// program returns a user with the rules of another program's ClusterRole. The rules apply in a new namespace.
func program(t *testing.T, account string) person {
	t.Helper()
	p := person{namespace: namespace(t, admin)}
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "program"}, Rules: map[string][]rbacv1.PolicyRule{
		machinecontroller.Account: machinecontroller.Rules(), machinecontroller.ManagerAccount: machinecontroller.ManagerRules(),
	}[account]}
	if err := admin.Create(t.Context(), role); err != nil {
		t.Fatal(err)
	}
	user := "system:serviceaccount:kube-system:" + account + "-of-" + p.namespace
	bind(t, p.namespace, "Role", "program", user)
	p.login(t, user)
	p.awaitRights(t, p.namespace, onDeployments)
	return p
}

// rewritten returns an object as a program writes it: decoded into the program's own types, with a changed field, and encoded
// again.
func rewritten[T any](t *testing.T, o *unstructured.Unstructured, change func(*T)) *unstructured.Unstructured {
	t.Helper()
	raw, err := json.Marshal(o.Object)
	if err != nil {
		t.Fatal(err)
	}
	var typed T
	if err := json.Unmarshal(raw, &typed); err != nil {
		t.Fatal(err)
	}
	change(&typed)
	if raw, err = json.Marshal(&typed); err != nil {
		t.Fatal(err)
	}
	return parse(string(raw))
}

// byDrover are objects with all the fields that drover writes and that the other programs do not know.
var byDrover = map[string]string{
	"Machine": `{metadata: {finalizers: [machine-delete-finalizer, machine-node-delete-finalizer]}, spec: {providerID: "openstack:///1"},
	  status: {phase: Running, nodeRef: {kind: Node, name: good, uid: u}, addresses: [{type: InternalIP, address: 10.0.0.1}], providerStatus: {zone: z},
	  conditions: [{type: Ready, status: "True", reason: A, message: b, lastTransitionTime: "2026-01-01T00:00:00Z"}, {type: Other, status: "False"}],
	  lastOperation: {type: Create, state: Successful, lastUpdated: "2026-01-01T00:00:00Z"}, lastUpdated: "2026-01-01T00:00:00Z", versions: {kubelet: 1.36.2},
	  backoffs: [{class: Quota, flavor: f, zone: z, code: c, until: "2036-01-01T00:00:00Z"}]}}`,
	"MachineSet":        `{metadata: {finalizers: [foregroundDeletion]}, spec: {removals: ` + oneRemoval + `, rolloutRemovals: ` + twoRemovals + `}}`,
	"MachineDeployment": `{metadata: {finalizers: [foregroundDeletion]}, spec: {removals: ` + twoRemovals + `, placeholderSeries: 4}}`,
}

// Some programs decode a whole object into their types and write it back. They need the binding in
// machine-controller/status.yaml only to write values that the policies guard.
func TestWhichUpdatesNeedARoleBindingForMachinesStatus(t *testing.T) {
	text := func(s string) *string { return &s }
	for _, row := range []struct {
		name, program, kind string
		rewrite             func(*testing.T, *unstructured.Unstructured) *unstructured.Unstructured
		status              bool
		// says is a part of the error that the program receives as long as it may not update machines/status. It is empty when
		// the write is accepted without that right.
		says string
	}{
		{"operating-system-manager's update that adds its finalizer to a deployment", "operating-system-manager", "MachineDeployment", func(t *testing.T, o *unstructured.Unstructured) *unstructured.Unstructured {
			return rewritten(t, o, func(d *machinecontroller.MachineDeployment) {
				d.Finalizers = append(d.Finalizers, "kubermatic.io/cleanup-operating-system-configs")
			})
		}, false, ""},
		{"machine-controller's update of a deployment's revision annotation", "machine-controller", "MachineDeployment", func(t *testing.T, o *unstructured.Unstructured) *unstructured.Unstructured {
			return rewritten(t, o, func(d *machinecontroller.MachineDeployment) {
				metav1.SetMetaDataAnnotation(&d.ObjectMeta, "machinedeployment.clusters.k8s.io/revision", "1")
			})
		}, false, ""},
		{"machine-controller's update of a set's size", "machine-controller", "MachineSet", func(t *testing.T, o *unstructured.Unstructured) *unstructured.Unstructured {
			return rewritten(t, o, func(s *machinecontroller.MachineSet) { s.Spec.Replicas = new(int32(5)) })
		}, false, ""},
		{"machine-controller's update of a set's status", "machine-controller", "MachineSet", func(t *testing.T, o *unstructured.Unstructured) *unstructured.Unstructured {
			return rewritten(t, o, func(s *machinecontroller.MachineSet) { s.Status.Replicas = 5 })
		}, true, "the status cannot be set"},
		{"machine-controller's update of an unprotected annotation of a Machine", "machine-controller", "Machine", func(t *testing.T, o *unstructured.Unstructured) *unstructured.Unstructured {
			return rewritten(t, o, func(m *machinecontroller.Machine) { metav1.SetMetaDataAnnotation(&m.ObjectMeta, "n", "m") })
		}, false, ""},
		{"machine-controller's update of a Machine's status.errorReason", "machine-controller", "Machine", func(t *testing.T, o *unstructured.Unstructured) *unstructured.Unstructured {
			return rewritten(t, o, func(m *machinecontroller.Machine) { m.Status.ErrorReason = text("CreateError") })
		}, false, "status.errorReason cannot be set"},
		{"machine-controller's update that removes its finalizer from a Machine", "machine-controller", "Machine", func(t *testing.T, o *unstructured.Unstructured) *unstructured.Unstructured {
			return rewritten(t, o, func(m *machinecontroller.Machine) { m.Finalizers = m.Finalizers[1:] })
		}, false, "the finalizer machine-delete-finalizer cannot be removed"},
		{"machine-controller's update that sets the provider ID of a new Machine", "machine-controller", "new Machine", func(t *testing.T, o *unstructured.Unstructured) *unstructured.Unstructured {
			return rewritten(t, o, func(m *machinecontroller.Machine) { m.Spec.ProviderID = text("openstack:///1") })
		}, false, "spec.providerID cannot be set"},
		{"machine-controller's update that annotates a new Machine with its floating IP", "machine-controller", "new Machine", func(t *testing.T, o *unstructured.Unstructured) *unstructured.Unstructured {
			return rewritten(t, o, func(m *machinecontroller.Machine) {
				metav1.SetMetaDataAnnotation(&m.ObjectMeta, "kubermatic.io/release-openstack-floating-ip", "1")
			})
		}, false, "the annotation kubermatic.io/release-openstack-floating-ip cannot be set"},
	} {
		write := func(t *testing.T, p person) error {
			kind := row.kind
			if kind == "new Machine" {
				kind = "Machine"
			}
			o := row.rewrite(t, guardedValue{kind: kind, before: byDrover[row.kind]}.stored(t, p.namespace, "o"))
			if row.status {
				return p.Status().Update(t.Context(), o)
			}
			return p.Update(t.Context(), o)
		}
		t.Run(row.name+" is "+map[bool]string{true: "accepted", false: "refused"}[row.says == ""]+" without a RoleBinding for machines/status (F-5)", func(t *testing.T) {
			p := program(t, row.program)
			expect(t, row.says, write(t, p))
		})
		if row.says == "" {
			continue
		}
		t.Run(row.name+" is accepted with a RoleBinding for machines/status (F-5)", func(t *testing.T) {
			p := program(t, row.program)
			p.trust(t, p.namespace)
			expect(t, "", write(t, p))
		})
	}
}

// The sets of machine-controller create Machines with an empty status.
func TestMachineControllerCanCreateMachines(t *testing.T) {
	t.Run("machine-controller can create a Machine with an empty status without a RoleBinding for machines/status (F-5)", func(t *testing.T) {
		p := program(t, "machine-controller")
		o := rewritten(t, parse(goodMachine), func(*machinecontroller.Machine) {})
		o.SetNamespace(p.namespace)
		if _, has := o.Object["status"]; !has {
			t.Fatal("the typed object has no status")
		}
		expect(t, "", p.Create(t.Context(), o))
	})
}

// The shipped binding for machine-controller names machine-controller's ServiceAccount, and refers to the shipped role.
func TestWhatTheShippedClusterRoleBindingForMachineControllerAllows(t *testing.T) {
	const user = "system:serviceaccount:kube-system:machine-controller"
	binding := read(t, "machine-controller/status.yaml")
	create(t.Context(), t, admin, binding)
	t.Cleanup(func() {
		if err := admin.Delete(context.Background(), binding); client.IgnoreNotFound(err) != nil {
			t.Error(err)
		}
	})
	t.Run("it allows machine-controller to update machines/status (F-5)", func(t *testing.T) {
		eventually(t, binding, func(*unstructured.Unstructured) bool {
			return allowed(t, user, "update machines.cluster.k8s.io/status", "anywhere")
		})
	})
	t.Run("it allows no other account to update machines/status, and does not allow machine-controller to update Machines (F-5)", func(t *testing.T) {
		if allowed(t, "system:serviceaccount:kube-system:other", "update machines.cluster.k8s.io/status", "anywhere") ||
			allowed(t, user, "update machines.cluster.k8s.io", "anywhere") {
			t.Error("the binding allows too much")
		}
	})
}
