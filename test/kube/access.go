package kube

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	// BootstrapGroup is the group of the bootstrap tokens that may request a kubelet's client
	// certificate in this cluster. No controller approves these requests.
	BootstrapGroup = "system:bootstrappers:drover"

	clusterInfo       = "cluster-info"
	resolver          = "kube-dns"
	clusterInfoReader = "drover-test:cluster-info-reader"
)

// install creates in the cluster what an installer creates for joining nodes, except for the two
// bindings that would approve the nodes' certificates.
func (c *Cluster) install(ctx context.Context) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	info, err := c.clusterInfo()
	if err != nil {
		return err
	}
	// The API server also creates the namespace kube-public, but at some later time.
	public := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespacePublic}}
	if _, err := client.CoreV1().Namespaces().Create(ctx, public, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating the namespace %s: %w", public.Name, err)
	}
	if _, err := client.RbacV1().ClusterRoleBindings().Create(ctx, bootstrapBinding(), metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating the binding of %s: %w", BootstrapGroup, err)
	}
	// The API server creates the namespace kube-system, and the range that has the address of the Service, at some later time.
	if err := c.await(ctx, apiServer, "take the Service "+resolver, func(ctx context.Context) error {
		_, err := client.CoreV1().Services(metav1.NamespaceSystem).Create(ctx, clusterDNS(), metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	}); err != nil {
		return err
	}
	return publish(ctx, client, info)
}

// clusterDNS returns the Service of the cluster's DNS server, which no pods serve.
func clusterDNS() *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: resolver, Labels: map[string]string{"k8s-app": resolver}},
		Spec: corev1.ServiceSpec{
			ClusterIP: "10.96.0.10",
			Selector:  map[string]string{"k8s-app": resolver},
			Ports:     []corev1.ServicePort{{Name: "dns", Port: 53, Protocol: corev1.ProtocolUDP}, {Name: "dns-tcp", Port: 53, Protocol: corev1.ProtocolTCP}},
		},
	}
}

// publish makes cluster-info readable without authentication, as an installer does.
func publish(ctx context.Context, client kubernetes.Interface, info *corev1.ConfigMap) error {
	if _, err := client.CoreV1().ConfigMaps(metav1.NamespacePublic).Create(ctx, info, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating the ConfigMap %s: %w", clusterInfo, err)
	}
	role := &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: clusterInfoReader},
		Rules:      []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{clusterInfo}}},
	}
	if _, err := client.RbacV1().Roles(metav1.NamespacePublic).Create(ctx, role, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating the role of its readers: %w", err)
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: clusterInfoReader},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: clusterInfoReader},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "system:anonymous"}},
	}
	if _, err := client.RbacV1().RoleBindings(metav1.NamespacePublic).Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating the binding of its readers: %w", err)
	}
	return nil
}

// clusterInfo returns a kubeconfig with the server and its certificate authority, and without a
// user.
func (c *Cluster) clusterInfo() (*corev1.ConfigMap, error) {
	file := kubeconfig(c.ConfigForNobody())
	file.AuthInfos, file.Contexts, file.CurrentContext = nil, nil, ""
	data, err := clientcmd.Write(file)
	if err != nil {
		return nil, fmt.Errorf("writing the kubeconfig in %s: %w", clusterInfo, err)
	}
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: clusterInfo},
		Data:       map[string]string{"kubeconfig": string(data)},
	}, nil
}

// bootstrapBinding allows the tokens of BootstrapGroup to request certificates.
func bootstrapBinding() *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "drover-test:node-bootstrapper"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:node-bootstrapper"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: BootstrapGroup}},
	}
}
