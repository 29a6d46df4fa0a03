package kube

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

const (
	frontProxy   = "front-proxy-client"
	serviceRange = "10.96.0.0/16"
	podRange     = "10.244.0.0/16"
	// clientQPS and clientBurst are the rate limits of the components' own clients. They are so high that no test
	// waits for them.
	clientQPS, clientBurst = "5000", "10000"
	kwokUser               = "drover-test-kwok"
	// coreProcesses is the number of processes that every cluster has: etcd and the API server.
	coreProcesses = 2
)

// auditPolicy logs every request once, without the objects, when the request has been answered. A
// watch is logged when it has ended.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules: [{level: Metadata}]
`

// writeFiles writes the configuration files and the kubeconfigs that the components read.
func (c *Cluster) writeFiles() error {
	for name, data := range map[string]string{"audit-policy.yaml": auditPolicy, "kwok.yaml": kwokConfiguration} {
		if err := os.WriteFile(c.path(name), []byte(data), 0o600); err != nil {
			return err
		}
	}
	return errors.Join(
		c.writeIdentity(ControllerManager, "system:kube-controller-manager"),
		c.writeIdentity(Scheduler, "system:kube-scheduler"),
		c.writeIdentity(Kwok, kwokUser, masters),
	)
}

// writeIdentity writes a component's kubeconfig, with a client certificate for the user and the groups.
func (c *Cluster) writeIdentity(component Component, user string, groups ...string) error {
	config, err := c.ConfigForUser(user, groups...)
	if err != nil {
		return err
	}
	return WriteKubeconfig(c.kubeconfigOf(component), config)
}

func (c *Cluster) kubeconfigOf(component Component) string {
	return c.pki(string(component) + ".kubeconfig")
}

// startCore starts etcd and the API server, which itself waits for etcd.
func (c *Cluster) startCore(ctx context.Context, o Options) error {
	writeLine(o.Log, "control plane: starting etcd and kube-apiserver in %s", c.Dir)
	if err := c.run(etcd, c.etcdFlags()); err != nil {
		return err
	}
	c.apiServerArgs = c.apiServerFlags(o)
	if err := c.run(apiServer, c.apiServerArgs); err != nil {
		return err
	}
	return c.await(ctx, apiServer, "be ready", c.apiServerReady())
}

// startComponents starts the optional components concurrently, and waits until all of them listen.
func (c *Cluster) startComponents(ctx context.Context, o Options) error {
	if len(o.Components) > 0 {
		writeLine(o.Log, "control plane: starting %s", strings.Trim(fmt.Sprint(o.Components), "[]"))
	}
	flags := map[Component][]string{
		ControllerManager: c.controllerManagerFlags(), Scheduler: c.schedulerFlags(), Kwok: c.kwokFlags(),
	}
	ports := map[Component]int{ControllerManager: c.ports.controllerManager, Scheduler: c.ports.scheduler, Kwok: c.ports.kwok}
	for _, component := range o.Components {
		if err := c.run(string(component), flags[component]); err != nil {
			return err
		}
	}
	for _, component := range o.Components {
		if err := c.await(ctx, string(component), "listen", listens(ports[component])); err != nil {
			return err
		}
	}
	if o.has(ControllerManager) {
		return c.await(ctx, string(ControllerManager), "make the default service account", c.defaultAccount())
	}
	return nil
}

func (c *Cluster) run(name string, args []string) error {
	p, err := startProcess(filepath.Join(c.bin, name), c.path("log/"+name+".log"), args)
	if err != nil {
		return err
	}
	c.processes = append(c.processes, p)
	return nil
}

func (c *Cluster) etcdFlags() []string {
	client, peer := c.EtcdURL(), "http://"+local(c.ports.etcdPeer)
	return []string{
		"--name=default", "--data-dir=" + c.etcdData(), "--unsafe-no-fsync", "--log-level=warn",
		// Both values are in milliseconds. They can be short because a single member does not wait for others before it
		// becomes the leader.
		"--heartbeat-interval=10", "--election-timeout=100",
		"--listen-client-urls=" + client, "--advertise-client-urls=" + client,
		"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer, "--initial-cluster=default=" + peer,
	}
}

func (c *Cluster) apiServerFlags(o Options) []string {
	flags := []string{
		"--etcd-servers=" + c.EtcdURL(),
		"--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", "--secure-port=" + strconv.Itoa(c.ports.api),
		// The endpoint reconciler is off, because it would fail: it refuses to publish a loopback address.
		"--endpoint-reconciler-type=none", "--service-cluster-ip-range=" + serviceRange,
		"--tls-cert-file=" + c.pki("apiserver.crt"), "--tls-private-key-file=" + c.pki("apiserver.key"),
		"--client-ca-file=" + c.pki("ca.crt"),
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + c.pki("sa.key"), "--service-account-signing-key-file=" + c.pki("sa.key"),
		"--requestheader-client-ca-file=" + c.pki("ca.crt"), "--requestheader-allowed-names=" + frontProxy,
		"--requestheader-username-headers=X-Remote-User", "--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + c.pki("front-proxy.crt"), "--proxy-client-key-file=" + c.pki("front-proxy.key"),
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
		"--enable-bootstrap-token-auth", "--allow-privileged",
		// The log must not be rotated, because tests count the requests in it. No test writes 10 GB.
		"--audit-policy-file=" + c.path("audit-policy.yaml"), "--audit-log-path=" + c.AuditLog, "--audit-log-maxsize=10000",
	}
	if !o.has(ControllerManager) {
		// The plugin ServiceAccount refuses pods without a service account, and only kube-controller-manager creates
		// service accounts.
		flags = append(flags, "--disable-admission-plugins=ServiceAccount")
	}
	return append(flags, o.APIServerFlags...)
}

func (c *Cluster) controllerManagerFlags() []string {
	return append(c.clientFlags(ControllerManager, c.ports.controllerManager),
		"--controllers=*,bootstrap-signer-controller,token-cleaner-controller", "--use-service-account-credentials",
		"--root-ca-file="+c.pki("ca.crt"), "--service-account-private-key-file="+c.pki("sa.key"),
		"--cluster-signing-cert-file="+c.pki("ca.crt"), "--cluster-signing-key-file="+c.pki("ca.key"))
}

func (c *Cluster) schedulerFlags() []string { return c.clientFlags(Scheduler, c.ports.scheduler) }

func (c *Cluster) clientFlags(component Component, port int) []string {
	config := c.kubeconfigOf(component)
	return []string{
		"--kubeconfig=" + config, "--authentication-kubeconfig=" + config, "--authorization-kubeconfig=" + config,
		"--bind-address=127.0.0.1", "--secure-port=" + strconv.Itoa(port), "--leader-elect=false",
		"--kube-api-qps=" + clientQPS, "--kube-api-burst=" + clientBurst,
	}
}

func (c *Cluster) kwokFlags() []string {
	return []string{"--kubeconfig=" + c.kubeconfigOf(Kwok), "--config=" + c.path("kwok.yaml"), "--server-address=" + local(c.ports.kwok)}
}
