package orphans

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/kinds"
	"github.com/drover-project/drover/machines/safety/orphans/verdict"
)

// pageSize is the number of Machines in one page of a list. A Machine can have more than a megabyte where the policies of drover are
// missing, and a page is in memory as a whole.
const pageSize = 100

// gather reads the input of a round. It reads the Machines after the resources: a Machine exists before its resources, so the
// list of Machines contains the Machine of each resource.
func (c *Collector) gather(ctx context.Context) *verdict.Snapshot {
	// The ends come first: a Machine that ends while its list is read is in the list, which does not mean that its end is over.
	s := &verdict.Snapshot{Settings: c.Settings, Now: c.Clock.Now(), Ends: c.ends.known(), Projects: c.Cloud.Tagged(ctx)}
	var failed [4]error
	s.Machines, failed[0] = c.listMachines(ctx)
	s.Defined, failed[1] = kinds.Since(ctx, c.Control.GetAPIReader())
	s.Nodes, failed[2] = c.listNodes(ctx)
	s.Sets, s.Deployments, failed[3] = c.listGroups(ctx)
	s.Stale = c.stale()
	if err := errors.Join(failed[:]...); s.Stale == "" && err != nil {
		s.Stale = strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	return s
}

// stale returns why the reads of this round may be out of date.
func (c *Collector) stale() string {
	switch {
	case !c.leads():
		return "the lease was not renewed lately, so another process may be the leader"
	case c.Stale != nil:
		return c.Stale()
	}
	return ""
}

// leads reports whether this process is certainly the only leader.
func (c *Collector) leads() bool { return c.Lease == nil || c.Lease.Fresh(c.Clock.Now()) }

// listMachines lists the Machines of all namespaces from the API server, page by page. All pages have the same resource
// version.
func (c *Collector) listMachines(ctx context.Context) (all []verdict.Machine, err error) {
	for next := ""; ; {
		var page v1alpha1.MachineList
		if err := c.Control.GetAPIReader().List(ctx, &page, client.Limit(pageSize), client.Continue(next)); err != nil {
			return nil, fmt.Errorf("listing Machines: %w", err)
		}
		for i := range page.Items {
			all = append(all, machineOf(&page.Items[i], c.Cloud))
		}
		if next = page.Continue; next == "" {
			return all, nil
		}
	}
}

func machineOf(m *v1alpha1.Machine, provider cloud.Provider) verdict.Machine {
	out := verdict.Machine{
		UID: m.UID, Name: m.Namespace + "/" + m.Name, ServerName: m.ServerName(), Server: provider.ServerID(ptr.Deref(m.Spec.ProviderID, "")),
	}
	if m.Status.NodeRef != nil {
		out.NodeName = m.Status.NodeRef.Name
	}
	return out
}

// listNodes returns the Nodes from the informer cache. Each Node is read again from the API server before it is deleted.
func (c *Collector) listNodes(ctx context.Context) ([]verdict.Node, error) {
	var list corev1.NodeList
	if err := c.Target.GetClient().List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing Nodes: %w", err)
	}
	all := make([]verdict.Node, 0, len(list.Items))
	for i := range list.Items {
		all = append(all, nodeOf(&list.Items[i], c.Cloud))
	}
	return all, nil
}

// listGroups returns the names of all MachineSets and MachineDeployments from the informer cache.
func (c *Collector) listGroups(ctx context.Context) (sets, deployments []string, err error) {
	var ofSets v1alpha1.MachineSetList
	var ofDeployments v1alpha1.MachineDeploymentList
	for _, list := range []client.ObjectList{&ofSets, &ofDeployments} {
		if err := c.Control.GetClient().List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return nil, nil, fmt.Errorf("listing the groups of Machines: %w", err)
		}
	}
	for i := range ofSets.Items {
		sets = append(sets, ofSets.Items[i].Name)
	}
	for i := range ofDeployments.Items {
		deployments = append(deployments, ofDeployments.Items[i].Name)
	}
	return sets, deployments, nil
}

func nodeOf(n *corev1.Node, provider cloud.Provider) verdict.Node {
	ready := v1alpha1.NodeReady(n)
	return verdict.Node{
		Name: n.Name, UID: n.UID, ProviderID: n.Spec.ProviderID, Server: provider.ServerID(n.Spec.ProviderID),
		OwnedBy: types.UID(v1alpha1.NodeOwner(n.Labels, n.Annotations)), Machine: n.Annotations[v1alpha1.AnnotationNodeMachine],
		Created: n.CreationTimestamp.Time, Ready: ready.Status == corev1.ConditionTrue, Changed: ready.LastTransitionTime.Time,
		ControlPlane: v1alpha1.ControlPlaneRole(n.Labels, n.Spec.Taints), Finalizers: len(n.Finalizers) > 0,
		LabeledControlPlane: v1alpha1.ControlPlaneRole(n.Labels, nil) != "",
		Expelled:            slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.MatchTaint(&machineGone) }),
		Unmanaged:           n.Annotations[v1alpha1.AnnotationUnmanaged] != "",
	}
}
