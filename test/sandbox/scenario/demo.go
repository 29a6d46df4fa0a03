package scenario

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/test/sandbox"
)

// Demo is one run of the scenario in a sandbox.
type Demo struct {
	*sandbox.Sandbox
	// Group is the scenario's node group as it was first applied.
	Group *v1alpha1.MachineDeployment
	// Joined is how long the first pending pod waited for a node of its own to be ready.
	Joined time.Duration
}

// NewDemo prepares the scenario for a sandbox.
func NewDemo(s *sandbox.Sandbox) (*Demo, error) {
	server, err := discovery.NewDiscoveryClientForConfig(s.Cluster.Config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	version, err := server.ServerVersion()
	if err != nil {
		return nil, fmt.Errorf("asking for the control plane's version: %w", err)
	}
	group, err := Deployment(version.GitVersion)
	if err != nil {
		return nil, err
	}
	return &Demo{Sandbox: s, Group: group}, nil
}

// kubectlFile runs kubectl with a manifest in a file, as a user would.
func (d *Demo) kubectlFile(ctx context.Context, verb, name string, object any) error {
	raw, err := Manifest(object)
	if err != nil {
		return err
	}
	path := filepath.Join(d.Dir, name+".yaml")
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		return fmt.Errorf("writing a manifest: %w", err)
	}
	return d.kubectl(ctx, verb, "-f", path)
}

func (d *Demo) kubectl(ctx context.Context, args ...string) error {
	_, err := d.Cluster.Kubectl(ctx, args...)
	return err
}

const pollEvery = 100 * time.Millisecond

// check returns what is still missing, or an empty text when the condition holds. An error ends the wait immediately.
type check func(ctx context.Context) (waitingFor string, err error)

// until waits until a check reports that its condition holds. If ctx ends first, the error contains what was missing
// and the Machines' conditions.
func (d *Demo) until(ctx context.Context, c check) error {
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	missing := ""
	for {
		now, err := c(ctx)
		switch {
		case ctx.Err() != nil:
			// The check was cut off, so what it missed before is shown.
		case err != nil:
			return err
		case now == "":
			return nil
		default:
			missing = now
		}
		if err := d.Err(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: still waiting for %s%s", context.Cause(ctx), missing, d.complaints())
		case <-ticker.C:
		}
	}
}

// complaints returns the problems in the conditions of the Machines.
func (d *Demo) complaints() string {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	var machines v1alpha1.MachineList
	if err := d.Client.List(ctx, &machines); err != nil {
		return ""
	}
	var out strings.Builder
	for i := range machines.Items {
		m := &machines.Items[i]
		fmt.Fprintf(&out, "\n  Machine %s: %s", m.Name, sandbox.PhaseOf(m))
		if m.Status.ErrorMessage != nil {
			fmt.Fprintf(&out, ": %s", *m.Status.ErrorMessage)
		}
		for _, c := range m.Status.Conditions {
			if c.Status != corev1.ConditionTrue && c.Message != "" {
				fmt.Fprintf(&out, "\n    %s: %s", c.Type, c.Message)
			}
		}
	}
	return out.String()
}

// members holds the group's nodes and Machines.
type members struct {
	nodes    []corev1.Node
	machines []v1alpha1.Machine
	usable   int
}

func (d *Demo) members(ctx context.Context) (members, error) {
	var nodes corev1.NodeList
	var machines v1alpha1.MachineList
	err := errors.Join(
		d.Client.List(ctx, &nodes),
		d.Client.List(ctx, &machines, client.InNamespace(d.Group.Namespace), client.MatchingLabels(d.Group.Spec.Selector.MatchLabels)),
	)
	if err != nil {
		return members{}, fmt.Errorf("looking at nodes and machines: %w", err)
	}
	m := members{machines: machines.Items}
	names := map[string]bool{}
	for i := range machines.Items {
		names[machines.Items[i].ServerName()] = true
	}
	for i := range nodes.Items {
		if n := &nodes.Items[i]; names[n.Name] {
			m.nodes = append(m.nodes, *n)
			if sandbox.UsableNode(n) {
				m.usable++
			}
		}
	}
	return m, nil
}

// size returns a check that the group has exactly the wanted number of Machines, each with a usable node, and as many
// servers.
func (d *Demo) size(want int) check {
	return func(ctx context.Context) (string, error) {
		m, err := d.members(ctx)
		if err != nil {
			return "", err
		}
		if servers := len(d.Cloud.Servers()); len(m.machines) != want || m.usable != want || servers != want {
			return fmt.Sprintf("%d usable nodes: now %d machines, %d usable nodes, %d servers", want, len(m.machines), m.usable, servers), nil
		}
		return "", nil
	}
}
