package kube

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Component is the name of the binary of an optional part of a control plane. etcd and kube-apiserver are not
// optional: they always start.
type Component string

const (
	// ControllerManager signs approved certificates, creates service accounts, collects garbage and runs the workload
	// controllers.
	ControllerManager Component = "kube-controller-manager"
	// Scheduler binds pods to nodes.
	Scheduler Component = "kube-scheduler"
	// Kwok runs the pods that are bound to a node with the annotation FakeNode. It leaves that node's status and lease alone.
	Kwok Component = "kwok"
)

// The binaries of the two components that always start, and of the client kubectl.
const (
	etcd      = "etcd"
	apiServer = "kube-apiserver"
	kubectl   = "kubectl"
)

// FakeNode is the annotation, with the value "fake", of a node whose pods kwok runs. The client that registers the node
// must set it at registration; later is too late for pods that are already bound. That client also maintains the node's
// status and lease.
const FakeNode = "kwok.x-k8s.io/node"

// All returns the optional components, in the order of their start.
func All() []Component { return []Component{ControllerManager, Scheduler, Kwok} }

// Options configure Start.
type Options struct {
	// Dir holds the cluster's data, keys and logs. It must be empty or absent. An empty Dir means a new folder under
	// the system's temporary one. In both cases Stop removes the folder.
	Dir string
	// Components are started in addition to etcd and kube-apiserver. Nil means only etcd and kube-apiserver.
	Components []Component
	// APIServerFlags are appended to kube-apiserver's own flags, so that they take precedence. Start returns an error
	// for a flag on whose value the package itself depends.
	APIServerFlags []string
	// Prepare, when set, is called when the API server serves and before the other components start. A controller
	// manager that finds the CRDs at its start collects garbage of their kinds from the beginning; it discovers later
	// kinds only every 30 s.
	Prepare func(context.Context, *Cluster) error
	// Log receives a line per step. Nil means none. The components' own logs are files in Dir/log; the error of a
	// failed start contains their last lines.
	Log io.Writer
}

// binaries returns the names of the programs that a cluster with these options runs.
func (o Options) binaries() []string {
	names := []string{etcd, apiServer, kubectl}
	for _, c := range o.Components {
		names = append(names, string(c))
	}
	return names
}

func (o Options) has(c Component) bool { return slices.Contains(o.Components, c) }

// ownFlags are the kube-apiserver flags that this package sets itself: the addresses and files by which other
// components find it, and the location of its audit log.
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
