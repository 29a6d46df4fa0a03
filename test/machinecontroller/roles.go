package machinecontroller

import (
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The ServiceAccounts of machine-controller and operating-system-manager, in kube-system.
const (
	Account        = "machine-controller"
	ManagerAccount = "operating-system-manager"
)

const group = "cluster.k8s.io"

func rule(apiGroup string, verbs []string, resources ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{apiGroup}, Resources: resources, Verbs: verbs}
}

// Rules are the rules of the ClusterRole with which machine-controller is installed, as far as they concern its kinds,
// Nodes, pods and the objects that Machines refer to.
func Rules() []rbacv1.PolicyRule {
	read := []string{"get", "list", "watch"}
	return []rbacv1.PolicyRule{
		rule(group, []string{rbacv1.VerbAll}, "machines", "machinesets", "machinesets/status", "machinedeployments",
			"machinedeployments/status", "clusters", "clusters/status"),
		rule("", []string{rbacv1.VerbAll}, "nodes"),
		rule("", []string{"create", "patch"}, "events"),
		rule("", []string{"get", "list"}, "pods"),
		rule("", []string{"create"}, "pods/eviction"),
		rule("", read, "persistentvolumes", "secrets", "configmaps"),
		rule("storage.k8s.io", read, "volumeattachments"),
	}
}

// ManagerRules are the rules of the ClusterRole with which operating-system-manager is installed, for the kinds that
// drover also has.
func ManagerRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		rule(group, []string{"get", "list", "watch", "patch", "update"}, "machinedeployments"),
		rule("", []string{"get", "list", "watch"}, "secrets", "configmaps"),
	}
}

// Install returns the roles and bindings with which machine-controller and operating-system-manager are installed. joiners is
// the group of the bootstrap tokens: kube-controller-manager approves the first certificates of its members.
func Install(joiners string) []client.Object {
	var all []client.Object
	for account, rules := range map[string][]rbacv1.PolicyRule{Account: Rules(), ManagerAccount: ManagerRules()} {
		all = append(all,
			&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "system:" + account}, Rules: rules},
			binding("system:"+account, "system:"+account, rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: metav1.NamespaceSystem, Name: account}))
	}
	tokens := rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: joiners}
	return append(all,
		binding("machine-controller:kubelet-bootstrap", "system:node-bootstrapper", tokens),
		binding("machine-controller:node-autoapprove-bootstrap", "system:certificates.k8s.io:certificatesigningrequests:nodeclient", tokens))
}

func binding(name, role string, subject rbacv1.Subject) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{subject},
	}
}
