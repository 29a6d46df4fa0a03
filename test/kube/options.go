package kube

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Component is a part of a control plane that starts only when asked for; etcd
// and kube-apiserver always start. Its value is its binary's name.
type Component string

const (
	// ControllerManager signs approved certificates, makes service accounts,
	// collects garbage and runs the workload controllers.
	ControllerManager Component = "kube-controller-manager"
	// Scheduler binds pods to nodes.
	Scheduler Component = "kube-scheduler"
	// Kwok runs the pods that are bound to a node with the annotation FakeNode. It leaves that node's status and lease alone.
	Kwok Component = "kwok"
)

// The parts that always start, and the client that comes with them.
const (
	etcd      = "etcd"
	apiServer = "kube-apiserver"
	kubectl   = "kubectl"
)

// FakeNode is the annotation, with the value "fake", of a node whose pods kwok runs. The client that registers the node sets it
// at registration (later is too late for pods that are bound by then), and maintains the node's status and lease.
const FakeNode = "kwok.x-k8s.io/node"

// All are the components that may be asked for, in the order they start.
func All() []Component { return []Component{ControllerManager, Scheduler, Kwok} }

// Options say what Start starts.
type Options struct {
	// Dir holds the cluster's data, keys and logs. It must be empty or absent.
	// Empty means a new folder under the system's temporary one. Either way
	// Stop removes it.
	Dir string
	// Components start beside etcd and kube-apiserver; nil starts those two alone.
	Components []Component
	// APIServerFlags are appended to kube-apiserver's own, so that they win;
	// those that Start itself depends on are refused.
	APIServerFlags []string
	// Prepare, when given, is called once the API server serves and before the
	// other components start. A controller manager that finds its kinds defined
	// collects their garbage from the start; it notices later ones every 30 s.
	Prepare func(context.Context, *Cluster) error
	// Log gets a line per step, nil means none. The components' own logs are
	// files in Dir/log; their last lines stand in the error of a failed start.
	Log io.Writer
}

// binaries are the names of the programs that a cluster with these options runs.
func (o Options) binaries() []string {
	names := []string{etcd, apiServer, kubectl}
	for _, c := range o.Components {
		names = append(names, string(c))
	}
	return names
}

func (o Options) has(c Component) bool { return slices.Contains(o.Components, c) }

// ownFlags are those of kube-apiserver by which the rest of the cluster finds it
// and what it leaves.
var ownFlags = []string{"--bind-address", "--secure-port", "--etcd-servers", "--client-ca-file", "--audit-log-path", "--audit-policy-file"}

func (o Options) validate() error {
	for _, c := range o.Components {
		if !slices.Contains(All(), c) {
			return fmt.Errorf("unknown component %q in Options.Components: use some of %v", c, All())
		}
	}
	for _, flag := range o.APIServerFlags {
		if name, _, _ := strings.Cut(flag, "="); slices.Contains(ownFlags, name) {
			return fmt.Errorf("%s in Options.APIServerFlags: Start chooses that itself, leave it out", name)
		}
	}
	return nil
}
