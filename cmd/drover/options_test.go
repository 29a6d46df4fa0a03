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

// served returns the default options with serving on loopback without TLS. This needs the fewest flags
// that are valid.
func served() *options {
	o := defaults()
	o.grpcAddress, o.grpcInsecure = "127.0.0.1:8086", true
	return o
}

func TestValidateNamesTheWrongFlag(t *testing.T) {
	garbage := filepath.Join(t.TempDir(), "garbage.pem")
	must(t, os.WriteFile(garbage, []byte("-----BEGIN CERTIFICATE-----"), 0o600))
	for _, tt := range []struct {
		name string
		set  func(*options)
		want string // part of the message; empty means that the options are valid
	}{
		{"the defaults without TLS on loopback", func(*options) {}, ""},
		{"the defaults without certificates", func(o *options) { *o = *defaults() }, "--grpc-cert, --grpc-key and --grpc-client-ca: all three are needed"},
		{"a cluster ID with a space (F-13)", func(o *options) { o.clusterID = "a b" }, `--cluster-id: cluster ID "a b": must not contain white space`},
		{"a cluster ID that no description holds (F-13)", func(o *options) { o.clusterID = strings.Repeat("a", 129) }, "must have 1 to 128 bytes"},
		{"a startup taint that is not the key of one (F-13)", func(o *options) { o.startupTaint = "a b c!" }, `--startup-taint "a b c!" is not the key of a taint`},
		{"no startup taint (F-13)", func(o *options) { o.startupTaint = "" }, ""},
		{"an API server that is not a URL (F-13)", func(o *options) { o.nodes.apiServer = "not a url" }, `--bootstrap-api-server "not a url" is not the URL of an API server`},
		{"an API server without TLS (F-13)", func(o *options) { o.nodes.apiServer = "http://10.0.0.1:6443" }, `--bootstrap-api-server "http://10.0.0.1:6443"`},
		{"an API server (F-13)", func(o *options) { o.nodes.apiServer = "https://[fd00::1]:6443/" }, ""},
		{"namespaces of Secrets that are none (F-13)", func(o *options) { o.secretNamespaces = []string{"A b", "", ""} }, `--secret-namespaces "A b" is not the name of a namespace`},
		{"an empty namespace of Secrets (F-13)", func(o *options) { o.secretNamespaces = []string{"a", ""} }, `--secret-namespaces "" is not the name of a namespace`},
		{"a namespace of groups that is none (F-13)", func(o *options) { o.groups.namespaces = []string{"A"} }, `--namespaces "A" is not the name of a namespace`},
		{"an own namespace that is none (F-13)", func(o *options) { o.namespace = "a/b" }, `--namespace "a/b" is not the name of a namespace`},
		{"a missing kubeconfig of the target cluster (F-13)", func(o *options) { o.targetKubeconfig = "/not/there" }, "reading --target-kubeconfig: "},
		{"metrics nowhere that can be listened (F-13)", func(o *options) { o.metricsAddress = "foo" }, `--metrics-address "foo" is neither host:port nor 0`},
		{"no metrics and no health (F-13)", func(o *options) { o.metricsAddress, o.healthAddress = "0", "0" }, ""},
		{"health at a port that is none (F-13)", func(o *options) { o.healthAddress = ":66000" }, `--health-address ":66000" is neither host:port nor 0`},
		{"gRPC nowhere that can be listened (F-13)", func(o *options) { o.grpcAddress = "foo" }, "--grpc-address foo is neither host:port nor unix:///path"},
		{"a socket without an absolute path (F-13)", func(o *options) { o.grpcAddress = "unix://drover.sock" }, "--grpc-address unix://drover.sock: the path of a socket begins with /"},
		{"a bundle for nodes without a certificate (F-13)", func(o *options) { o.nodes.caBundle = garbage }, "--node-ca-bundle " + garbage + ": the file holds no certificate"},
		{"a condition that is none (F-13)", func(o *options) { o.machines.startupConditions = []string{"Network Ready"} }, `--startup-conditions "Network Ready" is not the type of a condition`},
		{"a GPU label that is none (F-13)", func(o *options) { o.groups.gpuLabel = "a b" }, `--gpu-label "a b" is not the key of a label`},
		{"a GPU resource that is none (F-13)", func(o *options) { o.groups.gpuResource = "" }, `--gpu-resource "" is not the name of a resource`},
		{"prices in a ConfigMap that cannot be (F-13)", func(o *options) { o.groups.prices = "Prices!" }, `--prices-configmap "Prices!" is not the name of a ConfigMap`},
		{"a freeze that every rollout would reach (MCM-70)", func(o *options) { o.freeze.up = 0 }, "--safety-up 0 is less than 1"},
		{"a freeze that would not end (MCM-71)", func(o *options) { o.freeze.down = 3 }, "--safety-down 3 is not from 1 to --safety-up (2)"},
		{"a freeze that would end where it begins (MCM-71)", func(o *options) { o.freeze.down = 0 }, "--safety-down 0 is not from 1"},
		{"groups that are looked at all the time (MCM-70)", func(o *options) { o.freeze.period = time.Millisecond }, "--machine-safety-overshooting-period 1ms is neither 0 nor a second"},
		{"no freeze at all (MCM-70)", func(o *options) { o.freeze.period = 0 }, ""},
		{"negative drain", func(o *options) { o.drainTimeout = -time.Second }, "--drain-timeout -1s"},
		{"no time to join", func(o *options) { o.joinTimeout = 0 }, "--join-timeout 0s"},
		{"nobody works", func(o *options) { o.workers = 0 }, "--workers 0"},
		{"profiles for everybody (MCM-112)", func(o *options) { o.pprofAddress = ":6060" }, "--pprof-address :6060"},
		{"profiles for this machine (MCM-112)", func(o *options) { o.pprofAddress = "[::1]:6060" }, ""},
		{"a name that no label can have", func(o *options) { o.machines.name = "a b" }, `--name "a b": `},
		{"a startup taint of others that no taint can be (F-47)", func(o *options) {
			o.machines.otherStartupTaints = []string{"node.cilium.io/agent-not-ready", "a=b:NoSchedule"}
		}, `--other-startup-taints "a=b:NoSchedule"`},
		{"a startup taint of others (F-47)", func(o *options) { o.machines.otherStartupTaints = []string{"node.cilium.io/agent-not-ready"} }, ""},
		{"a health timeout below nothing", func(o *options) { o.repair.timeout = -time.Second }, "--health-timeout -1s"},
		{"health switched off (MCM-50)", func(o *options) { o.repair.timeout = 0 }, ""},
		{"a bad condition that is none", func(o *options) { o.repair.nodeConditions = []string{"Kernel Deadlock"} }, `--health-node-conditions "Kernel Deadlock" is not the type of a condition`},
		{"replacements at once that are not a number", func(o *options) { o.repair.maxReplacing = "some" }, `--health-max-replacing "some" is neither a number nor a percentage`},
		{"replacements at once below nothing", func(o *options) { o.repair.maxReplacing = "-10%" }, `--health-max-replacing "-10%" is neither`},
		{"replacements at once in percent", func(o *options) { o.repair.maxReplacing = "10%" }, ""},
		{"a share of unhealthy Machines without a percent sign", func(o *options) { o.repair.maxUnhealthy = "40" }, `--health-max-unhealthy "40" is not a percentage`},
		{"a share of unhealthy Machines above all", func(o *options) { o.repair.maxUnhealthy = "101%" }, `--health-max-unhealthy "101%" is not a percentage`},
		{"orphans that are neither collected nor reported nor ignored (CAPI-59)", func(o *options) { o.orphans.mode = "yes" }, `--orphans "yes": it can be collect, report or off`},
		{"orphans that are only reported (CAPI-59)", func(o *options) { o.orphans.mode = reportOrphans }, ""},
		{"a negative age of orphans (MCM-81)", func(o *options) { o.orphans.age = -time.Second }, "--orphan-age -1s"},
		{"no time between two looks (MCM-81)", func(o *options) { o.orphans.period = 0 }, "--orphan-period 0s"},
		{"no orphan in a pass (MCM-81)", func(o *options) { o.orphans.maxPerPass = 0 }, "--orphan-max-per-pass 0"},
		{"fewer than none replaced", func(o *options) { o.maxReplacing = -1 }, "--max-replacing -1"},
		{"a server group that is not shared", func(o *options) { o.compute.serverGroup = "mine" }, `--server-group "mine"`},
		{"an allowed endpoint that is none (F-4)", func(o *options) { o.compute.allowedEndpoints = []string{"keystone.example", "ftp://keystone.example"} }, `--allowed-endpoints: reading the allowed endpoints: "ftp://keystone.example"`},
		{"an invalid proxy", func(o *options) { o.nodes.httpProxy = "proxy" }, "HTTP proxy is not a URL"},
		{"a gate that is neither on nor off", func(o *options) { o.nodes.featureGates = map[string]string{"A": "maybe"} }, "A=maybe: neither true nor false"},
		{"a resolver that is not an address", func(o *options) { o.nodes.clusterDNS = []string{"dns"} }, `--cluster-dns "dns"`},
		{"a domain that is none", func(o *options) { o.nodes.clusterDomain = "a b" }, `--cluster-domain "a b"`},
		{"a Service range without a length (F-2)", func(o *options) { o.nodes.serviceCIDRs = []string{"10.96.0.0/16", "10.97.0.0"} }, `--service-cidrs "10.97.0.0" is not an address range`},
		{"a selector that is none", func(o *options) { o.groups.selector = "a=b=c" }, "--selector: "},
		{"a guard that ends before it begins", func(o *options) { o.groups.restartGuard = -time.Second }, "--restart-guard -1s"},
		{"a kernel that takes all", func(o *options) { o.groups.kernelMemory = 100 }, "--kernel-memory-percent 100"},
		{"two faults are both named", func(o *options) { o.workers, o.joinTimeout = 0, 0 }, "--join-timeout 0s is not positive\n--workers 0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
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

func TestFlagsAreCheckedFirst(t *testing.T) {
	t.Run("every fault is named in one error, before the API server is asked anything (F-13)", func(t *testing.T) {
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
			"--grpc-cert", garbage, "--grpc-key", garbage, "--grpc-client-ca", garbage, "--workers", "0",
		})
		err := drover.Execute()
		if err == nil {
			t.Fatal("drover runs with flags that are wrong")
		}
		for _, flag := range []string{"--cluster-id", "--startup-taint", "--bootstrap-api-server", "--secret-namespaces", "--cloud-ca", "--metrics-address", "--grpc-client-ca", "--workers"} {
			if !strings.Contains(err.Error(), flag) {
				t.Errorf("the error does not name %s:\n%v", flag, err)
			}
		}
		if n := asked.Load(); n != 0 {
			t.Errorf("the API server was asked %d times", n)
		}
	})
}
