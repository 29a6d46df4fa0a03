package main

import (
	"strings"
	"testing"
	"time"
)

func TestOptionsSayWhatIsWrongWithThem(t *testing.T) {
	for _, tt := range []struct {
		name string
		set  func(*options)
		want string // part of the message; empty: valid
	}{
		{"the defaults", func(*options) {}, ""},
		{"negative drain", func(o *options) { o.drainTimeout = -time.Second }, "--drain-timeout -1s"},
		{"no time to join", func(o *options) { o.joinTimeout = 0 }, "--join-timeout 0s"},
		{"nobody works", func(o *options) { o.workers = 0 }, "--workers 0"},
		{"MCM-112 profiles for everybody", func(o *options) { o.pprofAddress = ":6060" }, "--pprof-address :6060"},
		{"MCM-112 profiles for this machine", func(o *options) { o.pprofAddress = "[::1]:6060" }, ""},
		{"a name that no label can have", func(o *options) { o.machines.name = "a b" }, `--name "a b": `},
		{"a startup taint of others that no taint can be (F-47)", func(o *options) {
			o.machines.otherStartupTaints = []string{"node.cilium.io/agent-not-ready", "a=b:NoSchedule"}
		}, `--other-startup-taints "a=b:NoSchedule"`},
		{"a startup taint of others (F-47)", func(o *options) { o.machines.otherStartupTaints = []string{"node.cilium.io/agent-not-ready"} }, ""},
		{"fewer than none replaced", func(o *options) { o.maxReplacing = -1 }, "--max-replacing -1"},
		{"a server group that is not shared", func(o *options) { o.compute.serverGroup = "mine" }, `--server-group "mine"`},
		{"an allowed endpoint that is none (F-4)", func(o *options) { o.compute.allowedEndpoints = []string{"keystone.example", "ftp://keystone.example"} }, `--allowed-endpoints: reading the allowed endpoints: "ftp://keystone.example"`},
		{"a proxy that is none", func(o *options) { o.nodes.httpProxy = "proxy" }, "HTTP proxy is no URL"},
		{"a gate that is neither on nor off", func(o *options) { o.nodes.featureGates = map[string]string{"A": "maybe"} }, "A=maybe: neither true nor false"},
		{"a resolver that is no address", func(o *options) { o.nodes.clusterDNS = []string{"dns"} }, `--cluster-dns "dns"`},
		{"a domain that is none", func(o *options) { o.nodes.clusterDomain = "a b" }, `--cluster-domain "a b"`},
		{"a Service range without a length (F-2)", func(o *options) { o.nodes.serviceCIDRs = []string{"10.96.0.0/16", "10.97.0.0"} }, `--service-cidrs "10.97.0.0" is not an address range`},
		{"a selector that is none", func(o *options) { o.groups.selector = "a=b=c" }, "--selector: "},
		{"a guard that ends before it begins", func(o *options) { o.groups.restartGuard = -time.Second }, "--restart-guard -1s"},
		{"a kernel that takes all", func(o *options) { o.groups.kernelMemory = 100 }, "--kernel-memory-percent 100"},
		{"two faults are both named", func(o *options) { o.workers, o.joinTimeout = 0, 0 }, "--join-timeout 0s is not positive\n--workers 0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := defaults()
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
