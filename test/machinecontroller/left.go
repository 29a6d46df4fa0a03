package machinecontroller

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Past creates the objects, servers and floating IPs that exist when machine-controller is stopped. This is faster than
// to run the simulated machine-controller until they exist.
type Past struct {
	client    client.Client
	cloud     *cloud
	namespace string

	flavor, image, network string
}

// NewPast returns a Past that creates servers from a provider spec. All values in the spec are plain texts.
func NewPast(ctx context.Context, c client.Client, namespace string, providerSpec []byte) (*Past, error) {
	m := &Machine{}
	m.Spec.ProviderSpec.Value = &runtime.RawExtension{Raw: providerSpec}
	connection, err := connect(ctx, m)
	if err != nil {
		return nil, err
	}
	p := &Past{client: c, cloud: connection, namespace: namespace}
	p.flavor, p.image, p.network, err = connection.names(ctx)
	return p, err
}

// Deployment creates a MachineDeployment with the finalizer and revision that machine-controller writes.
func (p *Past) Deployment(ctx context.Context, name string, replicas int, paused bool, template MachineTemplate) (*MachineDeployment, error) {
	d := &MachineDeployment{ObjectMeta: metav1.ObjectMeta{
		Namespace: p.namespace, Name: name, Finalizers: []string{metav1.FinalizerDeleteDependents}, Annotations: map[string]string{revisionText: "1"},
	}}
	d.Spec.Replicas, d.Spec.Paused, d.Spec.Template = ptr.To(int32(replicas)), paused, template
	d.Spec.Selector.MatchLabels = template.Labels
	d.Spec.RevisionHistoryLimit, d.Spec.ProgressDeadlineSeconds, d.Spec.MinReadySeconds = ptr.To[int32](1), ptr.To[int32](600), ptr.To[int32](0)
	made := &MachineDeployment{}
	return made, p.made(ctx, "MachineDeployment", d, made)
}

// The annotations and the namespace of operating-system-manager, as far as drover reads them.
const (
	profileNote     = "k8c.io/operating-system-profile"
	managerRevision = "k8c.io/machine-deployment-revision"
	managerSettings = "cloud-init-settings"
)

// Manage sets the annotation of operating-system-manager on a deployment, and creates the Secret with the user data of its first revision.
func (p *Past) Manage(ctx context.Context, d *MachineDeployment, userData string) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: managerSettings}}
	if err := p.client.Create(ctx, namespace); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating namespace %s: %w", namespace.Name, err)
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: managerSettings, Name: d.Name + "-" + d.Namespace + "-bootstrap-config", Annotations: map[string]string{managerRevision: "1"},
		},
		StringData: map[string]string{"cloud-config": userData},
	}
	if err := p.client.Create(ctx, secret); err != nil {
		return fmt.Errorf("creating Secret %s: %w", secret.Name, err)
	}
	metav1.SetMetaDataAnnotation(&d.ObjectMeta, profileNote, "osp-ubuntu")
	return update(ctx, p.client, d)
}

// made creates an object of a kind, and reads it back with its UID.
func (p *Past) made(ctx context.Context, of string, o metav1.Object, into any) error {
	if err := create(ctx, p.client, of, o); err != nil {
		return err
	}
	stored := &unstructured.Unstructured{}
	stored.SetGroupVersionKind(kind(of))
	if err := p.client.Get(ctx, client.ObjectKey{Namespace: o.GetNamespace(), Name: o.GetName()}, stored); err != nil {
		return fmt.Errorf("reading %s %s: %w", of, o.GetName(), err)
	}
	return convert(stored.Object, into)
}

// SetOptions describe a set. Suffix is the end of its name. Most is the largest number of Machines that the deployment
// may have.
type SetOptions struct {
	Suffix                   string
	Revision, Replicas, Most int
	Template                 MachineTemplate
}

// Set creates a set of a deployment.
func (p *Past) Set(ctx context.Context, d *MachineDeployment, o SetOptions) (*MachineSet, error) {
	template := o.Template
	with := func(labels map[string]string) map[string]string {
		out := map[string]string{hashLabel: o.Suffix}
		for key, value := range labels {
			out[key] = value
		}
		return out
	}
	s := &MachineSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: d.Namespace, Name: d.Name + "-" + o.Suffix, Labels: with(template.Labels), Finalizers: []string{metav1.FinalizerDeleteDependents},
		Annotations: map[string]string{
			revisionText: strconv.Itoa(o.Revision), sizeNote: strconv.Itoa(int(*d.Spec.Replicas)), surgeNote: strconv.Itoa(o.Most),
		},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(d, kind("MachineDeployment"))},
	}}
	s.Spec.Replicas, s.Spec.Template = ptr.To(int32(o.Replicas)), template
	s.Spec.Selector.MatchLabels, s.Spec.Template.Labels = with(d.Spec.Selector.MatchLabels), with(template.Labels)
	made := &MachineSet{}
	return made, p.made(ctx, "MachineSet", s, made)
}

// Stage is how far machine-controller had come with a Machine when it was stopped.
type Stage struct {
	// Server is true when the server exists. Address is true when its floating IP exists. Noted is true when an
	// annotation of the Machine names the floating IP.
	Server, Address, Noted bool
	// Recorded is true when the Machine's status has the server's addresses. ProviderID is true when the spec also
	// has the provider ID.
	Recorded, ProviderID bool
	// Node is true when the server has joined and the Machine names its Node.
	Node bool
	// Deleted is true when the Machine is being deleted and still has its finalizers.
	Deleted bool
}

// Machine creates a Machine of a set in a stage of its life, with its server, floating IP and Node. It returns the ID
// of the server.
func (p *Past) Machine(ctx context.Context, s *MachineSet, name string, stage Stage) (server string, err error) {
	m := &Machine{ObjectMeta: *s.Spec.Template.DeepCopy(), Spec: s.Spec.Template.Spec}
	m.Namespace, m.Name, m.Spec.Name = s.Namespace, name, name
	admitted(m)
	m.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(s, kind("MachineSet"))}
	m.Finalizers = []string{serverFinalizer, nodeFinalizer}
	if stage.Noted {
		m.Finalizers = append(m.Finalizers, addressKey)
	}
	stored := &Machine{}
	if err := p.made(ctx, "Machine", m, stored); err != nil {
		return "", err
	}
	if stage.Server {
		if server, err = p.furnish(ctx, stored, stage); err != nil {
			return "", err
		}
	}
	if stage.Deleted {
		return server, remove(ctx, p.client, "Machine", stored)
	}
	return server, nil
}

// furnish creates the server of a Machine and the server's other resources, and writes on the Machine what
// machine-controller had written.
func (p *Past) furnish(ctx context.Context, m *Machine, stage Stage) (string, error) {
	made, err := servers.Create(ctx, p.cloud.compute, servers.CreateOpts{
		Name: m.Spec.Name, FlavorRef: p.flavor, ImageRef: p.image, UserData: []byte("#cloud-config"),
		Networks: []servers.Network{{UUID: p.network}}, Metadata: map[string]string{machineUID: string(m.UID), "system-cluster": "mmxfcmgjkx"},
	}, nil).Extract()
	if err != nil {
		return "", fmt.Errorf("creating a server for %s: %w", m.Name, err)
	}
	if stage.Address {
		id, err := p.addressOf(ctx, made.ID)
		if err != nil {
			return "", err
		}
		if stage.Noted {
			metav1.SetMetaDataAnnotation(&m.ObjectMeta, addressKey, id)
		}
	}
	providerID := "openstack:///" + made.ID
	if stage.ProviderID {
		m.Spec.ProviderID = &providerID
	}
	if stage.Recorded {
		m.Status.Addresses = []corev1.NodeAddress{{Address: "192.168.1.10"}}
	}
	if stage.Node {
		node, err := p.node(ctx, m, providerID)
		if err != nil {
			return "", err
		}
		m.Status.NodeRef = &corev1.ObjectReference{Kind: "Node", Name: node.Name, UID: node.UID}
		m.Status.Versions = &Versions{Kubelet: m.Spec.Versions.Kubelet}
		m.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	}
	return made.ID, update(ctx, p.client, m)
}

// addressOf creates the floating IP of a server once the server has a port.
func (p *Past) addressOf(ctx context.Context, server string) (string, error) {
	for {
		id, err := p.cloud.address(ctx, server)
		if err != nil || id != "" {
			return id, err
		}
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// node creates a Ready Node for a Machine's server.
func (p *Past) node(ctx context.Context, m *Machine, providerID string) (*corev1.Node, error) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: m.Spec.Name, Labels: map[string]string{ownerLabel: string(m.UID), corev1.LabelHostname: m.Spec.Name},
		Annotations: map[string]string{nodeNote: m.Namespace + "/" + m.Name},
	}}
	node.Spec.ProviderID = providerID
	if err := p.client.Create(ctx, node); err != nil {
		return nil, fmt.Errorf("creating node %s: %w", node.Name, err)
	}
	// The API server gives every new Node the taint not-ready, which the controller-manager removes.
	node.Spec.Taints = nil
	if err := p.client.Update(ctx, node); err != nil {
		return nil, fmt.Errorf("removing the taint of node %s: %w", node.Name, err)
	}
	node.Status.NodeInfo.KubeletVersion = "v" + m.Spec.Versions.Kubelet
	node.Status.Conditions = []corev1.NodeCondition{{
		Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now(),
	}}
	if err := p.client.Status().Update(ctx, node); err != nil {
		return nil, fmt.Errorf("writing the status of node %s: %w", node.Name, err)
	}
	return node, nil
}

// Template returns a Machine template with this kubelet version and provider spec, and with labels whose value is
// name.
func Template(name, kubelet string, providerSpec json.RawMessage) MachineTemplate {
	t := MachineTemplate{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"name": name}}}
	t.Spec.Labels = map[string]string{"pool": name}
	t.Spec.Versions.Kubelet = kubelet
	t.Spec.ProviderSpec.Value = &runtime.RawExtension{Raw: providerSpec}
	return t
}

// Rename replaces the Machine's UID in a server's metadata. A restored cluster has servers whose metadata contains the
// UID of no existing Machine, because its objects have new UIDs.
func (p *Past) Rename(ctx context.Context, server, uid string) error {
	_, err := servers.UpdateMetadata(ctx, p.cloud.compute, server, servers.MetadataOpts{machineUID: uid}).Extract()
	if err != nil {
		return fmt.Errorf("writing the metadata of server %s: %w", server, err)
	}
	return nil
}
