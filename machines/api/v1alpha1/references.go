package v1alpha1

import "fmt"

const (
	// RoleReferences is the ClusterRole that allows drover to read the Secrets and ConfigMaps that a provider spec refers to. A
	// RoleBinding in each namespace with such objects grants it to drover.
	RoleReferences = "drover:references"
	// DefaultServiceAccount is the ServiceAccount, as namespace:name, that drover runs under in the shipped manifests.
	DefaultServiceAccount = "drover:drover"
)

// BindReferences returns the kubectl command that allows drover to read the Secrets and ConfigMaps of a namespace. serviceAccount is
// drover's ServiceAccount, as namespace:name; empty means DefaultServiceAccount.
func BindReferences(serviceAccount, namespace string) string {
	if serviceAccount == "" {
		serviceAccount = DefaultServiceAccount
	}
	return fmt.Sprintf("kubectl create rolebinding %s --clusterrole=%s --serviceaccount=%s -n %s",
		RoleReferences, RoleReferences, serviceAccount, namespace)
}
