//go:build cluster

package install

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/yaml"

	"github.com/drover-project/drover/proto"
	"github.com/drover-project/drover/test/doccommands"
	"github.com/drover-project/drover/test/sandbox"
	"github.com/drover-project/drover/test/sandbox/scenario"
)

// site is a control plane without drover, a simulated OpenStack, and a shell for the commands of docs/install.md.
type site struct {
	*testing.T
	*sandbox.Sandbox
	Shell *doccommands.Shell
}

// newSite creates a site, with the files that the page asks the user to write.
func newSite(t *testing.T) *site {
	t.Helper()
	binary, err := helmBinary()
	if err != nil {
		t.Fatal(err)
	}
	s := &site{T: t, Sandbox: sandbox.ForTest(t, sandbox.Options{NoDrover: true})}
	s.Shell = doccommands.NewShell(t, s.Cluster.Kubeconfig, filepath.Dir(binary))
	if err := sandbox.WriteClouds(filepath.Join(s.Shell.Dir, "clouds.yaml"), "openstack", s.Cloud.Environment()); err != nil {
		t.Fatal(err)
	}
	demo, err := scenario.NewDemo(s.Sandbox)
	if err != nil {
		t.Fatal(err)
	}
	nodes, err := scenario.Manifest(demo.Group)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(s.Shell.Dir, "nodes.yaml"), nodes, 0o600); err != nil {
		t.Fatal(err)
	}
	return s
}

// in returns the same site for a subtest.
func (s *site) in(t *testing.T) *site {
	same := *s
	same.T = t
	return &same
}

func (s *site) kubectl(args ...string) string {
	s.Helper()
	out, err := s.Cluster.Kubectl(s.Context(), args...)
	if err != nil {
		s.Fatal(err)
	}
	return string(out)
}

// awaitNodes waits until as many Nodes as wanted take pods.
func (s *site) awaitNodes(want int) {
	s.Helper()
	got := 0
	err := wait.PollUntilContextTimeout(s.Context(), pollEvery, patience, true, func(ctx context.Context) (bool, error) {
		var list corev1.NodeList
		if err := s.Client.List(ctx, &list); err != nil {
			return false, err
		}
		got = 0
		for _, n := range list.Items {
			if sandbox.UsableNode(&n) {
				got++
			}
		}
		return got == want, nil
	})
	if err != nil {
		s.Fatalf("waiting for %d Nodes that take pods: %v; there are %d\n%s", want, err, got, s.kubectl("get", "machines,machinedeployments", "-A", "-o", "yaml"))
	}
}

// refusals fails the test for each request of a ServiceAccount that the API server refused because its roles did not allow it.
func (s *site) refusals(account string) {
	s.Helper()
	requests, err := s.Cluster.Requests()
	if err != nil {
		s.Fatal(err)
	}
	seen := 0
	for _, r := range requests {
		if r.User != "system:serviceaccount:"+account {
			continue
		}
		seen++
		if r.Code == http.StatusForbidden {
			s.Errorf("refused: %s %s", r.Verb, r.URI)
		}
	}
	if seen == 0 {
		s.Errorf("%s asked for nothing", account)
	}
}

// overTLS connects to drover with the files of the autoscaler's Secret.
func (p *pod) overTLS(address, serverName string) *grpc.ClientConn {
	p.Helper()
	pair, err := tls.LoadX509KeyPair(filepath.Join(p.folder("tls"), "tls.crt"), filepath.Join(p.folder("tls"), "tls.key"))
	if err != nil {
		p.Fatal(err)
	}
	ca, err := os.ReadFile(filepath.Join(p.folder("tls"), "ca.crt"))
	if err != nil {
		p.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	return p.dial(address, credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: pool, ServerName: serverName}))
}

func (p *pod) dial(target string, with credentials.TransportCredentials) *grpc.ClientConn {
	p.Helper()
	conn, err := grpc.NewClient(target, grpc.WithTransportCredentials(with))
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() { _ = conn.Close() })
	return conn
}

// address returns the address of drover in the autoscaler's cloud config.
func (p *pod) address() string {
	p.Helper()
	raw, err := os.ReadFile(filepath.Join(p.folder("autoscaler-config"), "cloud-config.yaml"))
	if err != nil {
		p.Fatal(err)
	}
	var config struct {
		Address string `json:"address"`
	}
	if err := yaml.Unmarshal(raw, &config); err != nil {
		p.Fatal(err)
	}
	return config.Address
}

// grows increases the size of the demo's group by one, with a gRPC call as the autoscaler makes it.
func (s *site) grows(conn *grpc.ClientConn) {
	s.Helper()
	c := proto.NewCloudProviderClient(conn)
	group := "MachineDeployment/" + metav1.NamespaceSystem + "/nodes"
	err := wait.PollUntilContextTimeout(s.Context(), pollEvery, patience, true, func(ctx context.Context) (bool, error) {
		if _, err := c.Refresh(ctx, &proto.RefreshRequest{}); err != nil {
			s.Logf("the autoscaler's Refresh: %v", err)
			return false, nil
		}
		groups, err := c.NodeGroups(ctx, &proto.NodeGroupsRequest{})
		if err != nil {
			return false, err
		}
		if len(groups.GetNodeGroups()) != 1 || groups.GetNodeGroups()[0].GetId() != group {
			return false, fmt.Errorf("the groups are %v", groups)
		}
		_, err = c.NodeGroupIncreaseSize(ctx, &proto.NodeGroupIncreaseSizeRequest{Id: group, Delta: 1})
		return err == nil, err
	})
	if err != nil {
		s.Fatal(err)
	}
}

// TestTheHelmCommandsOfTheInstallPageWork follows docs/install.md with Helm, then moves the autoscaler into drover's pods,
// uninstalls drover, installs it again and switches to kustomize.
func TestTheHelmCommandsOfTheInstallPageWork(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.Shell.Run(t, "docs/install.md#credentials")
	s.Shell.Run(t, "docs/install.md#helm")
	s.separate()
	s.stoppedAndStarted()
	s.Shell.Run(t, "docs/install.md#sidecar")
	s.sidecar()
	s.uninstalled()
	s.fromHelmToKustomize()
}

// TestTheKustomizeCommandsOfTheInstallPageWork follows docs/install.md with kustomize, in parallel with machine-controller, and then
// switches to Helm.
func TestTheKustomizeCommandsOfTheInstallPageWork(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.Shell.Run(t, "docs/install.md#credentials")
	s.Shell.Run(t, "docs/install.md#beside-machine-controller")
	s.Shell.Run(t, "docs/install.md#mine")
	s.Shell.Run(t, "docs/install.md#kustomize")
	s.separate()
	s.Shell.Run(t, "docs/install.md#from-kustomize-to-helm")
	s.Run("Helm takes over the objects that kustomize installed, and Machines and Nodes stay", func(t *testing.T) {
		s := s.in(t)
		s.awaitNodes(3)
		if out := s.kubectl("get", "machines", "-A", "-o", "jsonpath={.items[*].metadata.deletionTimestamp}"); out != "" {
			t.Errorf("Machines are being deleted: %s", out)
		}
		s.Shell.Run(t, "docs/install.md#sidecar")
		s.Shell.Run(t, "docs/install.md#helm-upgrade")
		if out := s.kubectl("-n", namespace, "get", "deployment", "drover", "-o", "jsonpath={.spec.template.spec.containers[*].name}"); out != "drover cluster-autoscaler" {
			t.Errorf("after an upgrade with the values of before the containers are %s", out)
		}
	})
}

// separate runs drover with an autoscaler in a Deployment of its own, and with certificates that drover issues.
func (s *site) separate() {
	p := newPod(s.T, s.Cluster, namespace, "drover")
	stop := p.start("drover", drover)
	p.ready("drover")
	s.Shell.Run(s.T, "docs/install.md#first-nodes")
	s.awaitNodes(2)
	autoscaler := newPod(s.T, s.Cluster, metav1.NamespaceSystem, "cluster-autoscaler")
	s.Run("the autoscaler can scale drover's group with the certificate in the autoscaler's Secret", func(t *testing.T) {
		s := s.in(t)
		s.grows(autoscaler.overTLS(p.ports[8086], "drover.drover.svc"))
		s.awaitNodes(3)
	})
	s.Run("the cloud config of the autoscaler has the address of drover's Service", func(t *testing.T) {
		if got := autoscaler.address(); got != "drover.drover.svc:8086" {
			t.Errorf("got %s", got)
		}
		if out := s.in(t).kubectl("-n", namespace, "get", "service", "drover", "-o", "jsonpath={.spec.ports[?(@.name=='grpc')].port}"); out != "8086" {
			t.Errorf("the Service's port is %q", out)
		}
	})
	s.Run("the API server refuses no request of drover", func(t *testing.T) { s.in(t).refusals("drover:drover") })
	stop()
}

// sidecar runs drover with the autoscaler in its pod.
func (s *site) sidecar() {
	p := newPod(s.T, s.Cluster, namespace, "drover")
	stop := p.start("drover", drover)
	p.ready("drover")
	s.Run("after an upgrade to an autoscaler in drover's pod, the autoscaler can scale drover's group without TLS", func(t *testing.T) {
		s := s.in(t)
		s.grows(p.dial(p.address(), insecure.NewCredentials()))
		s.awaitNodes(4)
	})
	s.realAutoscaler(p)
	stop()
}

// realAutoscaler runs the real cluster-autoscaler as a container of drover's pod, if this machine has its binary.
func (s *site) realAutoscaler(p *pod) {
	binary, err := sandbox.FindAutoscaler()
	if err != nil {
		s.Fatal(err)
	}
	if binary == "" {
		return
	}
	s.Run("the real cluster-autoscaler starts with the container's command, finds the group, and may make all its requests", func(t *testing.T) {
		stop := p.start("cluster-autoscaler", binary, "--address="+p.ports[8085])
		p.answers("http://" + p.ports[8085] + "/health-check")
		s := s.in(t)
		s.awaitStatus("MachineDeployment/kube-system/nodes")
		s.refusals("drover:drover")
		stop()
	})
}

// awaitStatus waits until the status ConfigMap of the autoscaler names a group, which shows that the autoscaler leads
// and has called drover.
func (s *site) awaitStatus(group string) {
	s.Helper()
	err := wait.PollUntilContextTimeout(s.Context(), pollEvery, patience, true, func(ctx context.Context) (bool, error) {
		out, err := s.Cluster.Kubectl(ctx, "-n", namespace, "get", "configmap", "cluster-autoscaler-status", "--ignore-not-found", "-o", "jsonpath={.data.status}")
		return strings.Contains(string(out), group), err
	})
	if err != nil {
		s.Errorf("waiting for the autoscaler's status to name %s: %v", group, err)
	}
}

// uninstalled removes both charts and installs drover again.
func (s *site) uninstalled() {
	helm(s.T, s.Cluster, "uninstall", "drover", "--namespace=drover")
	helm(s.T, s.Cluster, "uninstall", "drover-crds", "--namespace=drover")
	s.Run("helm uninstall keeps the CRDs, their guard policy, Machines and Nodes (F-42)", func(t *testing.T) {
		s := s.in(t)
		s.awaitNodes(4)
		for _, kept := range []string{"crd/machines.cluster.k8s.io", "validatingadmissionpolicy/drover-crds", "validatingadmissionpolicybinding/drover-crds"} {
			s.kubectl("get", kept)
		}
		if out := s.kubectl("get", "machines", "-A", "-o", "jsonpath={.items[*].metadata.deletionTimestamp}"); out != "" {
			t.Errorf("Machines are being deleted: %s", out)
		}
	})
	s.Run("the commands of the README install drover again after helm uninstall (F-42)", func(t *testing.T) { s.Shell.Run(t, "README.md#install") })
}

// stoppedAndStarted stops and starts drover and the autoscaler with the commands of docs/operations.md.
func (s *site) stoppedAndStarted() {
	replicas := func(namespace, deployment string) string {
		return s.kubectl("-n", namespace, "get", "deployment", deployment, "-o", "jsonpath={.spec.replicas}")
	}
	for _, row := range []struct{ block, namespace, deployment, want string }{
		{"docs/operations.md#stop-autoscaler", metav1.NamespaceSystem, "cluster-autoscaler", "0"},
		{"docs/operations.md#helm-stop", namespace, "drover", "0"},
		{"docs/operations.md#helm-start", namespace, "drover", "2"},
	} {
		s.Shell.Run(s.T, row.block)
		if got := replicas(row.namespace, row.deployment); got != row.want {
			s.Errorf("after %s the Deployment %s has %s replicas, want %s", row.block, row.deployment, got, row.want)
		}
	}
}

// fromHelmToKustomize replaces both charts with the kustomizations.
func (s *site) fromHelmToKustomize() {
	s.Shell.Run(s.T, "docs/install.md#mine")
	s.Shell.Run(s.T, "docs/install.md#from-helm-to-kustomize")
	s.Run("kustomize takes over the objects that Helm installed, and Machines and Nodes stay", func(t *testing.T) {
		s := s.in(t)
		s.awaitNodes(4)
		if out := s.kubectl("get", "machines", "-A", "-o", "jsonpath={.items[*].metadata.deletionTimestamp}"); out != "" {
			t.Errorf("Machines are being deleted: %s", out)
		}
		s.Shell.Run(t, "docs/install.md#kustomize")
	})
}
