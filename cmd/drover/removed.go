package main

import (
	"errors"
	"maps"

	"github.com/spf13/cobra"
	cliflag "k8s.io/component-base/cli/flag"
)

// removed are the flags that earlier versions had, beside those of features, and what to do instead. drover refuses to start with them, because
// to ignore one could change what is deleted, or who may call. It accepts and ignores those of noEffect with a warning, as Kubernetes'
// own programs do with deprecated flags.
var (
	removed = map[string]string{
		"grpc-server-names": "use --grpc-cert-dir, with a certificate for these names",
		"gpu-types":         "annotate groups with capacity.cluster-autoscaler.kubernetes.io/gpu-type=nvidia.com/gpu (the resource) and gpu-count=NUMBER",
		"grpc-cert":         certDirInstead, "grpc-key": certDirInstead, "grpc-client-ca": certDirInstead,
		"grpc-self-signed": secretsInstead, "grpc-secret": secretsInstead, "grpc-client-secret": secretsInstead,
		"node-containerd-version": versionsInstead, "node-runc-version": versionsInstead, "node-cni-plugins-version": versionsInstead,
		"startup-conditions": "use --startup-requires=condition:TYPE", "startup-daemonsets": "use --startup-requires=daemonset:NAMESPACE/NAME",
		"other-startup-taints":       "use --startup-requires=taint:KEY",
		"node-kubelet-feature-gates": "annotate MachineDeployments (not their templates, which would replace the nodes) with v1.kubelet-featuregates.machine-controller.kubermatic.io/GATE",
		"start-servers":              "leave it out; to keep a server shut down, annotate its Machine or group with drover-project.github.io/skip-health=true, which also keeps the Machine from being replaced",
		"volume-detach-timeout":      "leave it out; annotate groups with drover-project.github.io/volume-detach-timeout for another time than 5 minutes",
		"orphan-max-per-pass":        "leave it out; ten deletions are accepted in a search",
		"leader-elect":               "leave it out; only --leader-elect=false becomes --features=no-leader-election",
		"prices-configmap":           "use --features=prices, and name the ConfigMap " + pricesConfigMap,
		"pprof-address":              "leave it out; to serve profiles on " + profilesAddress + ", use --features=profiling",
	}
	noEffect = map[string]string{
		"drain-workers": "there are 10", "workers": "there are 64", "kernel-memory-percent": "it is 3, until a node has reported",
		"orphan-period": "it is 15 minutes, or --orphan-age where that is shorter",
	}
)

const (
	certDirInstead  = "use --grpc-cert-dir, a directory with the server's tls.crt and tls.key and the CA of the clients, ca.crt"
	secretsInstead  = "use --grpc-secrets=drover-grpc,kube-system/cluster-autoscaler-drover (drover's own Secret, then the autoscaler's)"
	versionsInstead = "use --node-versions=containerd=VERSION,runc=VERSION,cni-plugins=VERSION"
)

// removedFlag is the value of a flag that drover no longer has.
type removedFlag struct{ instead string }

// Set returns an error that says what to use instead.
func (r removedFlag) Set(string) error {
	return errors.New("this version of drover has no such flag: " + r.instead)
}

func (r removedFlag) String() string { return "" }

// Type returns the type that a help would show.
func (r removedFlag) Type() string { return "string" }

// addFlags adds flags to a command, those that were removed, and a help that shows the others in groups.
func addFlags(c *cobra.Command, sets cliflag.NamedFlagSets) {
	for _, set := range sets.FlagSets {
		c.Flags().AddFlagSet(set)
	}
	cliflag.SetUsageAndHelpFunc(c, sets, 0)
	instead := maps.Clone(removed)
	for _, f := range features {
		if instead[f.was] == "" {
			instead[f.was] = "leave it out, or, to have it on, use --features=" + f.name
		}
	}
	for name, text := range instead {
		f := c.Flags().VarPF(removedFlag{text}, name, "", "")
		f.Hidden, f.NoOptDefVal = true, "true" // the flag is refused with a value and without one
	}
	for name, now := range noEffect {
		c.Flags().String(name, "", "")
		_ = c.Flags().MarkDeprecated(name, "it has no effect: "+now) // it fails only for a flag that does not exist
	}
}
