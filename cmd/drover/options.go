package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	cliflag "k8s.io/component-base/cli/flag"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/openstack"
)

// options holds the values of all flags of drover. Each group of flags is a struct with its validation beside it.
type options struct {
	clusterOptions
	programOptions
	grpcOptions
	cloudOptions
	machineOptions
	handover handoverOptions
	repair   repairOptions
	freeze   freezeOptions
	orphans  orphanOptions
	nodes    nodeOptions
	groups   groupOptions
}

func defaults() *options {
	return &options{
		clusterOptions: clusterOptions{namespace: "drover"},
		programOptions: programOptions{metricsAddress: "127.0.0.1:8080", healthAddress: ":8081"},
		grpcOptions:    grpcOptions{grpcAddress: ":8086"},
		machineOptions: machineOptions{startupTaint: v1alpha1.DefaultStartupTaint, drainTimeout: 2 * time.Hour, joinTimeout: 10 * time.Minute},
		handover:       handoverOptions{lease: "kube-system/machine-controller"},
		repair: repairOptions{
			timeout: 10 * time.Minute, startTimeout: 30 * time.Minute, maxReplacing: "1", maxUnhealthy: "40%",
			nodeConditions: []string{"KernelDeadlock", "ReadonlyFilesystem", "NetworkUnavailable"},
		},
		freeze:  freezeOptions{up: 2, down: 1, period: time.Minute},
		orphans: orphanOptions{mode: collectOrphans, age: 15 * time.Minute},
		nodes:   nodeOptions{clusterDomain: "cluster.local", packages: []string{"nfs-common", "cifs-utils"}},
		groups:  groupOptions{gpuResource: "nvidia.com/gpu"},
	}
}

// group is a struct of flags. validate returns all errors in their values and in the files that they name; each error names the flag.
type group interface {
	addFlags(f *pflag.FlagSet)
	validate() error
}

// sections returns the groups of flags under the titles that the help shows, in its order.
func (o *options) sections() []struct {
	title string
	group
} {
	return []struct {
		title string
		group
	}{
		{"cluster", &o.clusterOptions}, {"cluster", &o.handover}, {"openStack", &o.cloudOptions}, {"autoscaler", &o.grpcOptions}, {"node group", &o.groups},
		{"machine", &o.machineOptions}, {"node", &o.nodes}, {"health", &o.repair}, {"safety", &o.freeze}, {"safety", &o.orphans}, {"program", &o.programOptions},
	}
}

// flags returns all flags of drover in groups.
func (o *options) flags() (sets cliflag.NamedFlagSets) {
	for _, s := range o.sections() {
		s.addFlags(sets.FlagSet(s.title))
	}
	return sets
}

// validate checks the flags and the files that they name, before drover reads or writes anything in the cluster. It returns
// all errors as one.
func (o *options) validate() error {
	errs := []error{o.serving().Validate(), o.ownSecrets()}
	for _, s := range o.sections() {
		errs = append(errs, s.validate())
	}
	return errors.Join(errs...)
}

// serviceAccount returns drover's own ServiceAccount, as namespace:name, for commands in messages. Its name is the one in the
// shipped manifests.
func (o *options) serviceAccount() string { return o.namespace + ":drover" }

// clusterOptions are the flags about the clusters, and about the other replicas.
type clusterOptions struct {
	kubeconfig string
	// targetKubeconfig is the kubeconfig of the target cluster; empty when the target cluster is the control cluster.
	targetKubeconfig string
	namespace        string
	clusterID        string
	// leaseRetry is the time between two renewals of the lease, which no flag sets. Zero means the constant leaseRetry.
	leaseRetry time.Duration
	observe    bool
}

func (o *clusterOptions) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.kubeconfig, "kubeconfig", o.kubeconfig, "kubeconfig of the cluster that has the Machines; empty: the service account of drover's pod")
	f.StringVar(&o.targetKubeconfig, "target-kubeconfig", o.targetKubeconfig, "kubeconfig of the cluster that the servers join as Nodes; empty: the cluster that has the Machines")
	f.StringVar(&o.namespace, "namespace", o.namespace, "namespace of drover's own lease and of the ConfigMap with the cluster id")
	f.StringVar(&o.clusterID, "cluster-id", o.clusterID, "name of the cluster on its cloud resources, never changed later; empty: the UID of the namespace kube-system")
	f.BoolVar(&o.observe, "observe", o.observe, "decide everything and write nothing; decisions are logged, and served under /observe beside the metrics")
}

func (o *clusterOptions) validate() error {
	errs := []error{checkNamespaces("--namespace", o.namespace)}
	if o.clusterID != "" {
		if err := openstack.CheckClusterID(o.clusterID); err != nil {
			errs = append(errs, fmt.Errorf("--cluster-id: %w", err))
		}
	}
	if o.targetKubeconfig != "" {
		_, err := readKubeconfig("--target-kubeconfig", o.targetKubeconfig)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// programOptions are the flags about the process: its addresses and its log.
type programOptions struct {
	metricsAddress string
	healthAddress  string
	verbosity      int
	features       []string
}

func (o *programOptions) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.metricsAddress, "metrics-address", o.metricsAddress, "where Prometheus metrics are served; 0 turns them off")
	f.StringVar(&o.healthAddress, "health-address", o.healthAddress, "where /healthz and /readyz are served; 0 turns them off")
	f.IntVarP(&o.verbosity, "v", "v", o.verbosity, "log level: 0 decisions, 1 to 7 more details; higher ones are the same as 7")
	f.StringSliceVar(&o.features, "features", o.features, "what is off by default; docs/flags.md lists the names, and so does the error about any other")
}

func (o *programOptions) validate() error {
	errs := []error{checkListen("--metrics-address", o.metricsAddress), checkListen("--health-address", o.healthAddress)}
	for _, name := range o.features {
		errs = append(errs, unless(slices.Contains(featureNames(), name), "--features %q: there are %s", name, strings.Join(featureNames(), ", ")))
	}
	return errors.Join(errs...)
}

// The names in --features that code asks for.
const (
	bareMachineSets   = "bare-machinesets"
	grpcInsecure      = "grpc-insecure"
	grpcReflection    = "grpc-reflection"
	identityOverride  = "identity-override"
	noLeaderElection  = "no-leader-election"
	physicalHostLabel = "physical-host-label"
	prices            = "prices"
	profiling         = "profiling"
	providerIDRegion  = "provider-id-region"
	restartGuard      = "restart-guard"
	sharedServerGroup = "shared-server-group"
	zeroOrMax         = "zero-or-max"
)

// features are the values of --features with their meaning, and the flag whose place each has taken.
var features = []struct{ name, meaning, was string }{
	{bareMachineSets, "a MachineSet with bounds and without a MachineDeployment is a node group too", "bare-machinesets"},
	{grpcInsecure, "serve gRPC without TLS, only on loopback. A unix socket does not need this", "grpc-insecure"},
	{grpcReflection, "serve gRPC reflection", "grpc-reflection"},
	{identityOverride, "let a provider spec without credentials of its own replace user, domain and project of the configured cloud's", "allow-identity-override"},
	{noLeaderElection, "run the controllers without a lease: for a replica that is alone, because two of them would both act", "leader-elect"},
	{physicalHostLabel, "put the label " + v1alpha1.LabelPhysicalHost + " on nodes. The autoscaler then needs `--balancing-ignore-label=" + v1alpha1.LabelPhysicalHost + "`", "physical-host-label"},
	{prices, "tell the autoscaler the prices in ConfigMap " + pricesConfigMap + " of drover's namespace, for its expander price", "prices-configmap"},
	{profiling, "serve profiles under http://" + profilesAddress + "/debug/pprof/, without authentication", "pprof-address"},
	{providerIDRegion, "the provider ID of a node names its region, while there are no nodes whose form is taken", "provider-id-region"},
	{restartGuard, "for 15 minutes after an autoscaler's start groups that await nodes show no room, so that it orders none twice", "restart-guard"},
	{sharedServerGroup, "a server whose spec names no server group is put into one of the cluster, with soft-anti-affinity", "server-group"},
	{zeroOrMax, "pass the annotation autoscaling-options-zeroormaxnodescaling on to the autoscaler, which then grows such a group to its maximum at once and never shrinks it", "allow-zero-or-max"},
}

func featureNames() (names []string) {
	for _, f := range features {
		names = append(names, f.name)
	}
	return names
}

// has reports whether --features names a feature.
func (o *programOptions) has(feature string) bool { return slices.Contains(o.features, feature) }

// unless returns an error with this text when ok is false.
func unless(ok bool, text string, args ...any) error {
	if ok {
		return nil
	}
	return fmt.Errorf(text, args...)
}
