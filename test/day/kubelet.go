package day

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/drover-project/drover/test/kubelet"
	sim "github.com/drover-project/drover/test/openstack"
)

// joinEvery is the period at which a kubelet checks what it waits for and retries what has failed.
const joinEvery = 5 * time.Second

// guest is the operating system and kubelet of a server.
type guest struct {
	world  *World
	server sim.Server
	// stop ends the guest. It is called when the guest's server is gone.
	stop context.CancelFunc
	// silentUntil is the time at which the kubelet reports again. dead means that it never does.
	silentUntil time.Time
	dead        bool
}

// booted starts the guest of a server that has become ACTIVE for the first time.
func (w *World) booted(s sim.Server) {
	ctx, stop := context.WithCancel(w.ctx)
	g := &guest{world: w, server: s, stop: stop}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ctx.Err() != nil || w.guests[s.ID] != nil {
		stop()
		return
	}
	w.guests[s.ID] = g
	w.all.Go(func() { g.join(ctx) })
}

// gone ends the guest of a server.
func (w *World) gone(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if g := w.guests[id]; g != nil {
		g.stop()
		delete(w.guests, id)
	}
}

// runs reports whether the kubelet of the guest works now.
func (g *guest) runs() bool {
	s, there := g.world.Cloud.Server(g.server.ID)
	return there && s.Status == "ACTIVE" && !g.dead && !time.Now().Before(g.silentUntil)
}

// join registers the Node. It retries until the server is gone.
func (g *guest) join(ctx context.Context) {
	for sleep(ctx, joinEvery) {
		if !g.runs() {
			continue
		}
		if err := g.try(ctx); err == nil || ctx.Err() != nil {
			return
		}
	}
}

// try requests a certificate with the bootstrap token in the user data, and registers the Node.
func (g *guest) try(ctx context.Context) error {
	boot, err := kubelet.ParseUserData(g.server.UserData)
	if err != nil {
		return err
	}
	kubeconfig, err := clientcmd.Load([]byte(boot.Files[kubelet.BootstrapFile]))
	if err != nil {
		return err
	}
	config := g.world.Kube.ConfigOver(&othersToKube{g.world, g.world.Kube.RoundTripper("")})
	for _, user := range kubeconfig.AuthInfos {
		config.BearerToken = user.Token
	}
	first, err := client.New(config, client.Options{Scheme: kinds, Mapper: mapper})
	if err != nil {
		return err
	}
	if err := g.certify(ctx, first); err != nil {
		return err
	}
	config = g.world.Kube.ConfigOver(&othersToKube{g.world, g.world.Kube.RoundTripper("system:node:"+g.server.Name, "system:nodes")})
	own, err := client.New(config, client.Options{Scheme: kinds, Mapper: mapper})
	if err != nil {
		return err
	}
	return g.register(ctx, own, boot)
}

// certify requests a client certificate and waits until it is approved.
func (g *guest) certify(ctx context.Context, c client.Client) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	pem, err := cert.MakeCSR(key, &pkix.Name{CommonName: "system:node:" + g.server.Name, Organization: []string{"system:nodes"}}, nil, nil)
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
	for range 60 {
		if !sleep(ctx, joinEvery) {
			return ctx.Err()
		}
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
	return errors.New("the certificate request was not approved")
}

// register creates the Node, with the taints of the kubelet's configuration.
func (g *guest) register(ctx context.Context, c client.Client, boot *kubelet.Boot) error {
	var settings struct {
		Taints []corev1.Taint `json:"registerWithTaints"`
	}
	if err := yaml.Unmarshal([]byte(boot.Files[kubelet.ConfigFile]), &settings); err != nil {
		return err
	}
	amounts := func(cpu, memory string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory), corev1.ResourcePods: resource.MustParse("110")}
	}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: g.server.Name, Labels: map[string]string{
			corev1.LabelHostname: g.server.Name, corev1.LabelTopologyZone: g.server.Zone, corev1.LabelInstanceTypeStable: g.server.Flavor,
		}},
		Spec:   corev1.NodeSpec{ProviderID: "openstack:///" + g.server.ID, Taints: settings.Taints},
		Status: corev1.NodeStatus{Capacity: amounts("4", "16Gi"), Allocatable: amounts("3800m", "15Gi")},
	}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", LastTransitionTime: metav1.Now()}}
	node.Status.NodeInfo.KubeletVersion = "v1.37.1"
	return c.Create(ctx, node)
}
