package world

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509/pkix"
	"fmt"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/cert"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/drover-project/drover/test/chaos/calls"
	"github.com/drover-project/drover/test/chaos/schedule"
	"github.com/drover-project/drover/test/kubelet"
	sim "github.com/drover-project/drover/test/openstack"
)

// checkPeriod is the period at which a kubelet checks what it waits for.
const checkPeriod = 2 * time.Second

// runKubelet is the kubelet of a server. It joins with the credentials in its user data, registers a Ready Node with one pod, and
// removes pods that are being deleted. It runs as long as its server exists.
func (w *World) runKubelet(ctx context.Context, server sim.Server) {
	k := &smallKubelet{world: w, server: server}
	for {
		if err := k.join(ctx); err == nil {
			break
		}
		if !schedule.Sleep(ctx, checkPeriod) {
			return
		}
	}
	for k.change(ctx) {
		k.endPods(ctx)
	}
	if w.Safety {
		w.markUnknown(server.ID)
	}
}

type smallKubelet struct {
	world  *World
	server sim.Server
	node   client.Client
	// seen is the cluster's revision at the last check.
	seen uint64
}

// change blocks until something in the cluster has changed since the last check. It returns false when ctx ends first.
func (k *smallKubelet) change(ctx context.Context) bool {
	for schedule.Sleep(ctx, checkPeriod) {
		if now := k.world.Kube.Revision(); now != k.seen {
			k.seen = now
			return true
		}
	}
	return false
}

// join requests a certificate with the bootstrap token and registers the Node.
func (k *smallKubelet) join(ctx context.Context) error {
	boot, err := kubelet.ParseUserData(k.server.UserData)
	if err != nil {
		return err
	}
	kubeconfig, err := clientcmd.Load([]byte(boot.Files[kubelet.BootstrapFile]))
	if err != nil {
		return err
	}
	config := k.world.Kube.ConfigOver(inTurn{k.world, k.world.Kube.RoundTripper(""), calls.Kubelet})
	for _, user := range kubeconfig.AuthInfos {
		config.BearerToken = user.Token
	}
	first, err := client.New(config, client.Options{Scheme: Kinds, Mapper: mapper})
	if err != nil {
		return err
	}
	if err := k.certify(ctx, first); err != nil {
		return err
	}
	config = k.world.Kube.ConfigOver(inTurn{k.world, k.world.Kube.RoundTripper("system:node:"+k.server.Name, "system:nodes"), calls.Kubelet})
	if k.node, err = client.New(config, client.Options{Scheme: Kinds, Mapper: mapper}); err != nil {
		return err
	}
	return k.register(ctx, boot)
}

// certify requests a client certificate and waits until it is approved.
func (k *smallKubelet) certify(ctx context.Context, c client.Client) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	pem, err := cert.MakeCSR(key, &pkix.Name{CommonName: "system:node:" + k.server.Name, Organization: []string{"system:nodes"}}, nil, nil)
	if err != nil {
		return err
	}
	request := &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "csr-"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request: pem, SignerName: certificatesv1.KubeAPIServerClientKubeletSignerName,
			Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth},
		},
	}
	if err := c.Create(ctx, request); err != nil {
		return err
	}
	for k.change(ctx) {
		if err := c.Get(ctx, client.ObjectKeyFromObject(request), request); err != nil {
			return err
		}
		for _, condition := range request.Status.Conditions {
			if condition.Type == certificatesv1.CertificateApproved {
				return nil
			}
			return fmt.Errorf("the certificate request is %s", condition.Type)
		}
	}
	return ctx.Err()
}

// register creates the Node, with the taints of the kubelet's configuration, and a pod on it.
func (k *smallKubelet) register(ctx context.Context, boot *kubelet.Boot) error {
	var settings struct {
		Taints []corev1.Taint `json:"registerWithTaints"`
	}
	if err := yaml.Unmarshal([]byte(boot.Files[kubelet.ConfigFile]), &settings); err != nil {
		return err
	}
	capacity := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("8Gi"), corev1.ResourcePods: resource.MustParse("110"),
	}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: k.server.Name, Labels: map[string]string{corev1.LabelHostname: k.server.Name}},
		Spec:       corev1.NodeSpec{ProviderID: "openstack:///" + k.server.ID, Taints: settings.Taints},
		Status: corev1.NodeStatus{
			Capacity: capacity, Allocatable: capacity,
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", LastTransitionTime: metav1.Now()}},
		},
	}
	if err := k.node.Create(ctx, node); err != nil {
		return err
	}
	return k.runPod(ctx)
}

// runPod creates the pod on the Node and sets it to running.
func (k *smallKubelet) runPod(ctx context.Context) error {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "work-on-" + strings.ToLower(k.server.ID), Namespace: metav1.NamespaceDefault, Labels: k.world.replicas.Spec.Selector.MatchLabels,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: k.world.replicas.Name, UID: k.world.replicas.UID, Controller: ptr.To(true)}},
		},
		Spec: corev1.PodSpec{NodeName: k.server.Name, Containers: []corev1.Container{{Name: "work", Image: "work"}}},
	}
	if k.world.PodVolume {
		claim := &corev1.PersistentVolumeClaimVolumeSource{ClaimName: volumeName}
		pod.Spec.Volumes = []corev1.Volume{{Name: volumeName, VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: claim}}}
	}
	if err := k.world.Admin.Create(ctx, pod); err != nil {
		return err
	}
	pod.Status.Phase = corev1.PodRunning
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	return k.world.Admin.Status().Update(ctx, pod)
}

// endPods removes the pods that are being deleted.
func (k *smallKubelet) endPods(ctx context.Context) {
	var pods corev1.PodList
	if err := k.node.List(ctx, &pods, client.MatchingFields{"spec.nodeName": k.server.Name}); err != nil {
		return
	}
	for i := range pods.Items {
		if pods.Items[i].DeletionTimestamp != nil {
			_ = k.node.Delete(ctx, &pods.Items[i], client.GracePeriodSeconds(0))
		}
	}
}
