package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// served returns the fewest flags that are valid: the defaults, and gRPC on loopback without TLS.
func served() *options {
	o := defaults()
	o.grpcAddress, o.features = "127.0.0.1:8086", []string{grpcInsecure}
	return o
}

func TestDroverValidatesItsFlags(t *testing.T) {
	garbage := filepath.Join(t.TempDir(), "garbage.pem")
	must(t, os.WriteFile(garbage, []byte("-----BEGIN CERTIFICATE-----"), 0o600))
	for _, tt := range []struct {
		name string
		set  func(*options)
		want string // part of the message; empty means that the options are valid
	}{
		{"accepts the default flags together with a gRPC address on loopback without TLS", func(*options) {}, ""},
		{"refuses the default flags when no certificates for the gRPC server are given", func(o *options) { *o = *defaults() }, "set --grpc-cert-dir or --grpc-secrets"},
		{"refuses a cluster ID with a space (F-13)", func(o *options) { o.clusterID = "a b" }, `--cluster-id: cluster ID "a b": must not contain white space`},
		{"refuses a cluster ID that is too long for the description of a port (F-13)", func(o *options) { o.clusterID = strings.Repeat("a", 129) }, "must have 1 to 128 bytes"},
		{"refuses a startup taint that is not a valid taint key (F-13)", func(o *options) { o.startupTaint = "a b c!" }, `--startup-taint "a b c!" is not the key of a taint`},
		{"accepts an empty --startup-taint, with which new nodes get no startup taint (F-13)", func(o *options) { o.startupTaint = "" }, ""},
		{"refuses a --bootstrap-api-server that is not a URL (F-13)", func(o *options) { o.nodes.apiServer = "not a url" }, `--bootstrap-api-server "not a url" is not the URL of an API server`},
		{"refuses an http URL in --bootstrap-api-server (F-13)", func(o *options) { o.nodes.apiServer = "http://10.0.0.1:6443" }, `--bootstrap-api-server "http://10.0.0.1:6443"`},
		{"accepts an https URL in --bootstrap-api-server (F-13)", func(o *options) { o.nodes.apiServer = "https://[fd00::1]:6443/" }, ""},
		{"refuses an invalid namespace in --secret-namespaces (F-13)", func(o *options) { o.secretNamespaces = []string{"A b", "", ""} }, `--secret-namespaces "A b" is not the name of a namespace`},
		{"refuses an empty namespace in --secret-namespaces (F-13)", func(o *options) { o.secretNamespaces = []string{"a", ""} }, `--secret-namespaces "" is not the name of a namespace`},
		{"refuses an invalid namespace in --namespaces (F-13)", func(o *options) { o.groups.namespaces = []string{"A"} }, `--namespaces "A" is not the name of a namespace`},
		{"refuses an invalid name of drover's own namespace (F-13)", func(o *options) { o.namespace = "a/b" }, `--namespace "a/b" is not the name of a namespace`},
		{"refuses a missing kubeconfig of the target cluster (F-13)", func(o *options) { o.targetKubeconfig = "/not/there" }, "reading --target-kubeconfig: "},
		{"refuses an address without a port for the metrics (F-13)", func(o *options) { o.metricsAddress = "foo" }, `--metrics-address "foo" is neither host:port nor 0`},
		{"accepts 0 as the address of metrics and health checks, which switches them off (F-13)", func(o *options) { o.metricsAddress, o.healthAddress = "0", "0" }, ""},
		{"refuses port 66000 for the health checks (F-13)", func(o *options) { o.healthAddress = ":66000" }, `--health-address ":66000" is neither host:port nor 0`},
		{"refuses an address without a port for the gRPC server (F-13)", func(o *options) { o.grpcAddress = "foo" }, "--grpc-address foo is neither host:port nor unix:///path"},
		{"refuses a gRPC socket whose path is relative (F-13)", func(o *options) { o.grpcAddress = "unix://drover.sock" }, "--grpc-address unix://drover.sock: the path of a socket begins with /"},
		{"refuses a CA bundle for nodes when its file contains no certificate (F-13)", func(o *options) { o.nodes.caBundle = garbage }, "--node-ca-bundle " + garbage + ": the file holds no certificate"},
		{"refuses a startup condition whose type is invalid (F-13)", func(o *options) { o.startupRequires = []string{"condition:Network Ready"} }, `--startup-requires "Network Ready" is not the type of a condition`},
		{"refuses a --startup-requires without a kind", func(o *options) { o.startupRequires = []string{"kube-system/cilium"} }, `--startup-requires "kube-system/cilium" begins with none of`},
		{"refuses a DaemonSet without a namespace in --startup-requires", func(o *options) { o.startupRequires = []string{"daemonset:cilium"} }, `--startup-requires "daemonset:cilium" is not of the form`},
		{"refuses an unknown name in --features", func(o *options) { o.features = []string{"speed"} }, `--features "speed": there are bare-machinesets, `},
		{"refuses an unknown program in --node-versions (F-153)", func(o *options) { o.nodes.versions = map[string]string{"crun": "1.0.0"} }, "--node-versions crun=1.0.0: there are containerd, runc and cni-plugins"},
		{"refuses an invalid GPU label (F-13)", func(o *options) { o.groups.gpuLabel = "a b" }, `--gpu-label "a b" is not the key of a label`},
		{"refuses an empty name of the GPU resource (F-13)", func(o *options) { o.groups.gpuResource = "" }, `--gpu-resource "" is not the name of a resource`},
		{"refuses --safety-up=0, because every rollout would freeze its group (MCM-70)", func(o *options) { o.freeze.up = 0 }, "--safety-up 0 is less than 1"},
		{"refuses a --safety-down above --safety-up (MCM-71)", func(o *options) { o.freeze.down = 3 }, "--safety-down 3 is not from 1 to --safety-up (2)"},
		{"refuses --safety-down=0 (MCM-71)", func(o *options) { o.freeze.down = 0 }, "--safety-down 0 is not from 1"},
		{"refuses a --machine-safety-overshooting-period of less than 1 second (MCM-70)", func(o *options) { o.freeze.period = time.Millisecond }, "--machine-safety-overshooting-period 1ms is neither 0 nor a second"},
		{"accepts a --machine-safety-overshooting-period of 0, which switches the freeze off (MCM-70)", func(o *options) { o.freeze.period = 0 }, ""},
		{"refuses a negative drain timeout", func(o *options) { o.drainTimeout = -time.Second }, "--drain-timeout -1s"},
		{"refuses a join timeout of 0", func(o *options) { o.joinTimeout = 0 }, "--join-timeout 0s"},
		{"refuses a controller name that is not a valid label value", func(o *options) { o.name = "a b" }, `--name "a b": `},
		{"refuses an invalid key of a taint in --startup-requires (F-47)", func(o *options) {
			o.startupRequires = []string{"taint:node.cilium.io/agent-not-ready", "taint:a=b:NoSchedule"}
		}, `--startup-requires "a=b:NoSchedule"`},
		{"accepts a taint, a condition and a DaemonSet in --startup-requires (F-47)", func(o *options) {
			o.startupRequires = []string{"taint:node.cilium.io/agent-not-ready", "condition:NetworkReady", "daemonset:kube-system/cilium"}
		}, ""},
		{"refuses a label in --allowed-node-labels that is not reserved (F-89)", func(o *options) { o.allowedNodeLabels = []string{"node-role.kubernetes.io/worker"} }, `--allowed-node-labels "node-role.kubernetes.io/worker" is not a reserved label`},
		{"refuses an invalid key in --allowed-node-labels (F-89)", func(o *options) {
			o.allowedNodeLabels = []string{"node-restriction.kubernetes.io/tier=high"}
		}, `--allowed-node-labels "node-restriction.kubernetes.io/tier=high" is not the key of a label`},
		{"accepts reserved labels in --allowed-node-labels (F-89)", func(o *options) {
			o.allowedNodeLabels = []string{"node-role.kubernetes.io/control-plane", "node-restriction.kubernetes.io/tier"}
		}, ""},
		{"refuses a negative health timeout", func(o *options) { o.repair.timeout = -time.Second }, "--health-timeout -1s"},
		{"accepts a health timeout of 0, which switches the health check off (MCM-50)", func(o *options) { o.repair.timeout = 0 }, ""},
		{"refuses an invalid type of a Node condition in --health-node-conditions", func(o *options) { o.repair.nodeConditions = []string{"Kernel Deadlock"} }, `--health-node-conditions "Kernel Deadlock" is not the type of a condition`},
		{"refuses a --health-max-replacing that is neither a number nor a percentage", func(o *options) { o.repair.maxReplacing = "some" }, `--health-max-replacing "some" is neither a number nor a percentage`},
		{"refuses a negative --health-max-replacing", func(o *options) { o.repair.maxReplacing = "-10%" }, `--health-max-replacing "-10%" is neither`},
		{"accepts a --health-max-replacing in percent", func(o *options) { o.repair.maxReplacing = "10%" }, ""},
		{"refuses a --health-max-unhealthy without a percent sign", func(o *options) { o.repair.maxUnhealthy = "40" }, `--health-max-unhealthy "40" is not a percentage`},
		{"refuses a --health-max-unhealthy above 100 %", func(o *options) { o.repair.maxUnhealthy = "101%" }, `--health-max-unhealthy "101%" is not a percentage`},
		{"refuses an unknown value of --orphans (CAPI-59)", func(o *options) { o.orphans.mode = "yes" }, `--orphans "yes": it can be collect, report or off`},
		{"accepts --orphans=report, with which drover only reports orphans (CAPI-59)", func(o *options) { o.orphans.mode = reportOrphans }, ""},
		{"refuses a negative minimum age of orphans (MCM-81)", func(o *options) { o.orphans.age = -time.Second }, "--orphan-age -1s"},
		{"refuses a negative number of Machines that rollouts may replace at once", func(o *options) { o.freeze.maxReplacing = -1 }, "--max-replacing -1"},
		{"refuses an allowed endpoint of Keystone that is an ftp URL (F-4)", func(o *options) { o.allowedEndpoints = []string{"keystone.example", "ftp://keystone.example"} }, `--allowed-endpoints: reading the allowed endpoints: "ftp://keystone.example"`},
		{"refuses an HTTP proxy for nodes that is not a URL", func(o *options) { o.nodes.httpProxy = "proxy" }, "HTTP proxy is not a URL"},
		{"refuses a cluster DNS server that is not an IP address", func(o *options) { o.nodes.clusterDNS = []string{"dns"} }, `--cluster-dns "dns"`},
		{"refuses an invalid cluster domain", func(o *options) { o.nodes.clusterDomain = "a b" }, `--cluster-domain "a b"`},
		{"refuses an IP range of Services without a prefix length (F-2)", func(o *options) { o.nodes.serviceCIDRs = []string{"10.96.0.0/16", "10.97.0.0"} }, `--service-cidrs "10.97.0.0" is not an address range`},
		{"refuses an invalid label selector for node groups", func(o *options) { o.groups.selector = "a=b=c" }, "--selector: "},
		{"refuses a negative --start-timeout (F-71)", func(o *options) { o.repair.startTimeout = -time.Second }, "--start-timeout -1s is negative"},
		{"names both flags in one error when two flags are invalid", func(o *options) { o.joinTimeout, o.drainTimeout = 0, -time.Second }, "--drain-timeout -1s is negative\n--join-timeout 0s is not positive"},
	} {
		t.Run("drover "+tt.name, func(t *testing.T) {
			o := served()
			tt.set(o)
			err := o.validate()
			switch {
			case tt.want == "" && err != nil:
				t.Errorf("refused: %v", err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("got %v, want something with %q", err, tt.want)
			}
		})
	}
}

func TestFlagsAreCheckedBeforeTheFirstRequestToTheAPIServer(t *testing.T) {
	t.Run("one error names every invalid flag before the first request to the API server (F-13)", func(t *testing.T) {
		var asked atomic.Int64
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			asked.Add(1)
			w.WriteHeader(http.StatusServiceUnavailable)
		}))
		defer server.Close()
		dir := t.TempDir()
		kubeconfig, garbage := filepath.Join(dir, "kubeconfig"), filepath.Join(dir, "garbage.pem")
		must(t, os.WriteFile(garbage, []byte("garbage"), 0o600))
		config := clientcmdapi.NewConfig()
		config.Clusters["c"] = &clientcmdapi.Cluster{Server: server.URL}
		config.Contexts["c"] = &clientcmdapi.Context{Cluster: "c"}
		config.CurrentContext = "c"
		must(t, clientcmd.WriteToFile(*config, kubeconfig))

		drover := command()
		drover.SetArgs([]string{
			"--kubeconfig", kubeconfig, "--cluster-id", "a b", "--startup-taint", "a b c!", "--bootstrap-api-server", "not a url",
			"--secret-namespaces", "A b,,", "--cloud-ca", garbage, "--metrics-address", "foo", "--grpc-address", "127.0.0.1:8086",
			"--grpc-cert-dir", dir, "--join-timeout", "0",
		})
		err := drover.Execute()
		if err == nil {
			t.Fatal("drover runs with flags that are wrong")
		}
		for _, flag := range []string{"--cluster-id", "--startup-taint", "--bootstrap-api-server", "--secret-namespaces", "--cloud-ca", "--metrics-address", "--grpc-cert-dir", "--join-timeout"} {
			if !strings.Contains(err.Error(), flag) {
				t.Errorf("the error does not name %s:\n%v", flag, err)
			}
		}
		if n := asked.Load(); n != 0 {
			t.Errorf("the API server was asked %d times", n)
		}
	})
}
