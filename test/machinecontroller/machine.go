package machinecontroller

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	serverFinalizer = "machine-delete-finalizer"
	nodeFinalizer   = "machine-node-delete-finalizer"
	// addressKey is both the name of a finalizer and the key of the annotation with the ID of the floating IP.
	addressKey = "kubermatic.io/release-openstack-floating-ip"
	ownerLabel = "machine-controller/owned-by"
	nodeNote   = "cluster.k8s.io/machine"
)

// machine makes the next change that a Machine needs, in the cloud or in the API server.
func (c *Controller) machine(ctx context.Context, m *Machine, sets []*MachineSet) error {
	switch {
	case m.DeletionTimestamp != nil:
		return c.leaving(ctx, m)
	case m.Spec.Name == "":
		m.Spec.Name = m.Name
		return update(ctx, c.client, m)
	case m.Status.NodeRef == nil:
		return c.ensure(ctx, m, sets)
	}
	node := &corev1.Node{}
	if err := c.client.Get(ctx, client.ObjectKey{Name: m.Status.NodeRef.Name}, node); err != nil {
		return err
	}
	if ready(node) && !slices.ContainsFunc(m.Status.Conditions, isReady) {
		m.Status.Conditions = append(m.Status.Conditions, corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionTrue})
		return update(ctx, c.client, m)
	}
	if note := m.Namespace + "/" + m.Name; node.Annotations[nodeNote] != note {
		metav1.SetMetaDataAnnotation(&node.ObjectMeta, nodeNote, note)
		return c.client.Update(ctx, node)
	}
	return nil
}

func ready(node *corev1.Node) bool { return slices.ContainsFunc(node.Status.Conditions, isReady) }

// isReady reports whether a condition is Ready and True. While a Machine has no such condition, machine-controller appends one, even when
// the Machine has a condition Ready with another status. It never changes or removes a condition.
func isReady(c corev1.NodeCondition) bool {
	return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
}

// ensure creates the server of a Machine, or looks for its Node.
func (c *Controller) ensure(ctx context.Context, m *Machine, sets []*MachineSet) error {
	cloud, err := connect(ctx, m)
	if err != nil {
		return err
	}
	server, err := cloud.server(ctx, m)
	if err != nil {
		return err
	}
	for _, finalizer := range []string{serverFinalizer, nodeFinalizer} {
		if !slices.Contains(m.Finalizers, finalizer) {
			m.Finalizers = append(m.Finalizers, finalizer)
		}
	}
	if server == nil {
		return c.create(ctx, m, cloud, sets)
	}
	if cloud.spec.FloatingIPPool != "" && slices.Contains(m.Finalizers, addressKey) && m.Annotations[addressKey] == "" {
		id, err := cloud.address(ctx, server.ID)
		if err != nil || id == "" {
			return err
		}
		metav1.SetMetaDataAnnotation(&m.ObjectMeta, addressKey, id)
		return update(ctx, c.client, m)
	}
	var addresses []corev1.NodeAddress
	for _, network := range server.Addresses {
		for _, each := range network.([]any) {
			text, _ := each.(map[string]any)["addr"].(string)
			addresses = append(addresses, corev1.NodeAddress{Address: text})
		}
	}
	slices.SortFunc(addresses, func(a, b corev1.NodeAddress) int { return strings.Compare(a.Address, b.Address) })
	if !slices.Equal(m.Status.Addresses, addresses) {
		m.Status.Addresses = addresses
		return update(ctx, c.client, m)
	}
	return c.matchNode(ctx, m, server.ID)
}

// create writes the Machine with its finalizers, including that of the floating IP if the spec asks for one, and then
// creates the server.
func (c *Controller) create(ctx context.Context, m *Machine, cloud *cloud, sets []*MachineSet) error {
	owner := slices.IndexFunc(sets, func(s *MachineSet) bool { return metav1.IsControlledBy(m, s) })
	if owner < 0 || metav1.GetControllerOf(sets[owner]) == nil {
		return fmt.Errorf("looking for the user data of Machine %s: it has no deployment", m.Name)
	}
	secret := &corev1.Secret{}
	name := metav1.GetControllerOf(sets[owner]).Name + "-" + m.Namespace + "-bootstrap-config"
	if err := c.client.Get(ctx, client.ObjectKey{Namespace: managerSettings, Name: name}, secret); err != nil {
		return err
	}
	if cloud.spec.FloatingIPPool != "" && !slices.Contains(m.Finalizers, addressKey) {
		m.Finalizers = append(m.Finalizers, addressKey)
	}
	if err := update(ctx, c.client, m); err != nil {
		return err
	}
	_, err := cloud.create(ctx, m, []byte(strings.ReplaceAll(string(secret.Data["cloud-config"]), "<MACHINE_NAME>", m.Spec.Name)))
	return err
}

// matchNode finds the Node of a Machine's server, and records it in the Machine's status.
func (c *Controller) matchNode(ctx context.Context, m *Machine, server string) error {
	var nodes corev1.NodeList
	if err := c.client.List(ctx, &nodes); err != nil {
		return err
	}
	for i := range nodes.Items {
		node := &nodes.Items[i]
		if !strings.EqualFold(node.Spec.ProviderID, "openstack:///"+server) {
			continue
		}
		if node.Labels[ownerLabel] != string(m.UID) {
			metav1.SetMetaDataLabel(&node.ObjectMeta, ownerLabel, string(m.UID))
			return c.client.Update(ctx, node)
		}
		m.Status.NodeRef = &corev1.ObjectReference{Kind: "Node", Name: node.Name, UID: node.UID}
		m.Status.Versions = &Versions{Kubelet: strings.TrimPrefix(node.Status.NodeInfo.KubeletVersion, "v")}
		return update(ctx, c.client, m)
	}
	return nil
}

// leaving deletes the server, the floating IP that the annotation names, and the Node. It removes a finalizer after
// each deletion.
func (c *Controller) leaving(ctx context.Context, m *Machine) error {
	without := func(finalizer string) error {
		m.Finalizers = slices.DeleteFunc(m.Finalizers, func(each string) bool { return each == finalizer })
		return update(ctx, c.client, m)
	}
	if slices.Contains(m.Finalizers, serverFinalizer) {
		cloud, err := connect(ctx, m)
		if err != nil {
			return err
		}
		server, err := cloud.server(ctx, m)
		switch {
		case err != nil:
			return err
		case server != nil:
			return cloud.remove(ctx, server.ID)
		case slices.Contains(m.Finalizers, addressKey):
			if err := cloud.release(ctx, m.Annotations[addressKey]); err != nil {
				return err
			}
			return without(addressKey)
		}
		return without(serverFinalizer)
	}
	if !slices.Contains(m.Finalizers, nodeFinalizer) {
		return nil
	}
	if m.Status.NodeRef != nil {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: m.Status.NodeRef.Name}}
		if err := c.client.Delete(ctx, node); client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	return without(nodeFinalizer)
}
