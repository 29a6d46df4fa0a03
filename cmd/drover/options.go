package main

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/spf13/pflag"

	"github.com/drover-project/drover/autoscale"
	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/openstack"
)

// options holds the values of all flags of drover.
type options struct {
	kubeconfig string
	// targetKubeconfig is the kubeconfig of the target cluster; empty when the target cluster is the control cluster.
	targetKubeconfig string
	namespace        string
	clusterID        string
	leader           bool
	// leaseRetry is the time between two renewals of the lease, which no flag sets. Zero means the constant leaseRetry.
	leaseRetry time.Duration
	verbosity  int

	metricsAddress string
	healthAddress  string
	pprofAddress   string

	grpcAddress        string
	grpcCert, grpcKey  string
	grpcClientCA       string
	grpcAllowedClients []string
	grpcInsecure       bool
	grpcReflection     bool
	certs              certOptions

	cloudsYAML string
	cloud      string
	caBundle   string

	startupTaint     string
	drainTimeout     time.Duration
	joinTimeout      time.Duration
	secretNamespaces []string
	workers          int

	observe  bool
	machines machineOptions
	repair   repairOptions

	nodes        nodeOptions
	compute      cloudOptions
	groups       groupOptions
	freeze       freezeOptions
	orphans      orphanOptions
	handover     handoverOptions
	maxReplacing int
}

func defaults() *options {
	return &options{
		namespace:      "drover",
		leader:         true,
		metricsAddress: "127.0.0.1:8080",
		healthAddress:  ":8081",
		grpcAddress:    ":8086",
		certs:          defaultCerts(),
		startupTaint:   v1alpha1.DefaultStartupTaint,
		drainTimeout:   2 * time.Hour,
		joinTimeout:    10 * time.Minute,
		workers:        64,
		machines:       defaultMachines(),
		repair:         defaultRepair(),
		nodes:          nodeOptions{clusterDomain: "cluster.local", packages: []string{"nfs-common", "cifs-utils"}},
		groups:         defaultGroups(),
		freeze:         defaultFreeze(),
		orphans:        defaultOrphans(),
		handover:       defaultHandover(),
	}
}

func (o *options) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.kubeconfig, "kubeconfig", o.kubeconfig, "kubeconfig of the cluster that has the Machines; empty: the service account of the pod drover runs in")
	f.StringVar(&o.targetKubeconfig, "target-kubeconfig", o.targetKubeconfig, "kubeconfig of the cluster that the Machines' servers join as Nodes; empty: it is the cluster that has the Machines")
	f.StringVar(&o.namespace, "namespace", o.namespace, "namespace of drover's own lease and of the ConfigMap with the cluster id")
	f.StringVar(&o.clusterID, "cluster-id", o.clusterID, "name of the cluster on its cloud resources; empty: the UID of the namespace kube-system. Written once; a change is refused")
	f.BoolVar(&o.leader, "leader-elect", o.leader, "take a lease before controllers run; every replica serves gRPC all the same")
	f.BoolVar(&o.observe, "observe", o.observe, "read and decide everything, and write nothing, neither to Kubernetes nor to the cloud: decisions are logged, and served as JSON under /observe beside the metrics. No lease is taken")
	f.IntVarP(&o.verbosity, "v", "v", o.verbosity, "log level: 0 decisions, 1 to 7 more details. Higher levels are the same as 7: client-go would log the bodies of Secrets")

	f.StringVar(&o.metricsAddress, "metrics-address", o.metricsAddress, "where Prometheus metrics are served; 0 turns them off")
	f.StringVar(&o.healthAddress, "health-address", o.healthAddress, "where /healthz and /readyz are served; 0 turns them off")
	f.StringVar(&o.pprofAddress, "pprof-address", o.pprofAddress, "where profiles are served under /debug/pprof/, without authentication, so on a loopback address only; empty: nowhere")

	f.StringVar(&o.grpcAddress, "grpc-address", o.grpcAddress, "where cluster-autoscaler calls: host:port or unix:///path, or both with a comma. A socket is for an autoscaler in the same pod: drover's user and group may call, without TLS")
	f.StringVar(&o.grpcCert, "grpc-cert", o.grpcCert, "certificate of the gRPC server (PEM file, reloaded when it changes)")
	f.StringVar(&o.grpcKey, "grpc-key", o.grpcKey, "key of the gRPC server (PEM file, reloaded when it changes)")
	f.StringVar(&o.grpcClientCA, "grpc-client-ca", o.grpcClientCA, "CA of the clients that may call (PEM file)")
	f.StringSliceVar(&o.grpcAllowedClients, "grpc-allowed-clients", o.grpcAllowedClients, "names (SAN or CN) of clients that may call; empty: every client with a certificate of the CA")
	f.BoolVar(&o.grpcInsecure, "grpc-insecure", o.grpcInsecure, "serve without TLS; only on loopback. A unix socket needs no such flag")
	o.certs.addFlags(f)
	f.BoolVar(&o.grpcReflection, "grpc-reflection", o.grpcReflection, "serve gRPC reflection")

	f.StringVar(&o.cloudsYAML, "clouds-yaml", o.cloudsYAML, "clouds.yaml with the configured cloud, read again every 10 s; empty: the OS_* variables of the environment")
	f.StringVar(&o.cloud, "cloud", o.cloud, "name of the cloud in clouds.yaml")
	f.StringVar(&o.caBundle, "cloud-ca", o.caBundle, "CA bundle for the cloud's endpoints (PEM file); empty: the system's")

	f.StringVar(&o.startupTaint, "startup-taint", o.startupTaint, "taint (effect NoSchedule) that a node has until it can take pods; empty: none")
	f.DurationVar(&o.drainTimeout, "drain-timeout", o.drainTimeout, "how long the drain of a Machine's node may last, counted while drover may act: pods are evicted under their disruption budgets; 0: they are not evicted, and the server is deleted at once")
	f.DurationVar(&o.joinTimeout, "join-timeout", o.joinTimeout, "how long a server may take to become a node, from when drover first sees it")
	f.StringSliceVar(&o.secretNamespaces, "secret-namespaces", o.secretNamespaces, "namespaces, beside its own, whose Secrets and ConfigMaps a Machine's provider spec may refer to")
	f.IntVar(&o.workers, "workers", o.workers, "Machines worked on at a time. A call to the cloud occupies its worker until it is answered (1 to 2 s in many clouds), so fewer workers than the cloud takes calls at a time slow drover down; Machines that wait for their turn occupy none")
	o.machines.addFlags(f)
	o.repair.addFlags(f)
	o.nodes.addFlags(f)
	o.compute.addFlags(f)
	o.groups.addFlags(f)
	o.freeze.addFlags(f)
	o.orphans.addFlags(f)
	o.handover.addFlags(f)
	f.IntVar(&o.maxReplacing, "max-replacing", o.maxReplacing, "how many Machines rollouts may replace at once, over all deployments; 0: no cap but each deployment's own surge and unavailability")
}

// validate checks the flags and the files that they name, before drover reads or writes anything in the cluster. It returns
// all errors as one.
func (o *options) validate() error {
	errs := []error{
		o.general(), o.addresses(), o.machines.validate(), o.repair.validate(), o.freeze.validate(), o.orphans.validate(), o.compute.validate(), o.nodes.validate(), o.groups.validate(), o.handover.validate(),
	}
	if o.drainTimeout < 0 {
		errs = append(errs, fmt.Errorf("--drain-timeout %v is negative", o.drainTimeout))
	}
	if o.joinTimeout <= 0 {
		errs = append(errs, fmt.Errorf("--join-timeout %v is not positive", o.joinTimeout))
	}
	if o.workers < 1 {
		errs = append(errs, fmt.Errorf("--workers %d is less than 1", o.workers))
	}
	if o.maxReplacing < 0 {
		errs = append(errs, fmt.Errorf("--max-replacing %d is negative", o.maxReplacing))
	}
	return errors.Join(errs...)
}

// general checks the flags for namespaces, the target cluster, the cluster id and the startup taint.
func (o *options) general() error {
	errs := []error{
		checkNamespaces("--namespace", o.namespace), checkNamespaces("--secret-namespaces", o.secretNamespaces...),
		checkTarget(o.targetKubeconfig),
	}
	if o.clusterID != "" {
		if err := openstack.CheckClusterID(o.clusterID); err != nil {
			errs = append(errs, fmt.Errorf("--cluster-id: %w", err))
		}
	}
	if o.startupTaint != "" {
		errs = append(errs, checkKey("--startup-taint", "the key of a taint", o.startupTaint))
	}
	return errors.Join(errs...)
}

// addresses checks the addresses on which drover listens.
func (o *options) addresses() error {
	errs := []error{checkListen("--metrics-address", o.metricsAddress), checkListen("--health-address", o.healthAddress), o.serving().Validate(), o.certs.validate(o.namespace, o.grpcAllowedClients)}
	if o.pprofAddress != "" && !onLoopback(o.pprofAddress) {
		errs = append(errs, fmt.Errorf("--pprof-address %s: profiles are served without authentication; listen on 127.0.0.1 or ::1", o.pprofAddress))
	}
	return errors.Join(errs...)
}

// serving returns the options of the gRPC server that the flags set.
func (o *options) serving() autoscale.Options {
	gpuLabel := ""
	if o.groups.gpuLabel != "" {
		gpuLabel = v1alpha1.LabelGPU
	}
	return autoscale.Options{
		Address: o.grpcAddress, Cert: o.grpcCert, Key: o.grpcKey, ClientCA: o.grpcClientCA, AllowedClients: o.grpcAllowedClients,
		SelfSigned: o.certs.selfSigned, Insecure: o.grpcInsecure, Reflection: o.grpcReflection, GPULabel: gpuLabel, GPUTypes: o.groups.gpuTypes,
	}
}

// onLoopback reports whether only this machine can reach the address.
func onLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	ip, parseErr := netip.ParseAddr(host)
	return err == nil && parseErr == nil && ip.IsLoopback()
}

// serviceAccount returns drover's own ServiceAccount, as namespace:name, for commands in messages. Its name is the one in the
// shipped manifests.
func (o *options) serviceAccount() string { return o.namespace + ":drover" }
