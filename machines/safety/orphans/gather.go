package orphans

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/guard"
	"github.com/drover-project/drover/machines/safety/orphans/verdict"
)

// pageSize is the number of Machines in one page of a list. A Machine can have more than a megabyte where the policies of drover are
// missing, and a page is in memory as a whole.
const pageSize = 100

// gather reads the input of a round. It reads the Machines after the resources: a Machine exists before its resources, so the
// list of Machines contains the Machine of each resource. Between two rounds it makes no call: the caches suffice, because then nothing
// is deleted.
func (c *Collector) gather(ctx context.Context, between bool) *verdict.Snapshot {
	// The ends come first: a Machine that ends while its list is read is in the list, which does not mean that its end is over.
	s := &verdict.Snapshot{Settings: c.Settings, Now: c.Clock.Now(), Ends: c.ends.known(), Projects: c.Cloud.Tagged(ctx)}
	var failed [5]error
	if between {
		s.Machines, failed[0] = c.listMachines(ctx, c.Control.GetClient(), 0)
	} else {
		s.Machines, failed[0] = c.listMachines(ctx, c.Control.GetAPIReader(), pageSize)
		c.defined, failed[1] = guard.DefinedSince(ctx, c.Control.GetAPIReader())
	}
	s.Defined = c.defined
	s.Nodes, failed[2] = c.listNodes(ctx)
	s.Sets, failed[3] = c.names(ctx, &v1alpha1.MachineSetList{})
	s.Deployments, failed[4] = c.names(ctx, &v1alpha1.MachineDeploymentList{})
	s.Stale = c.stale()
	if err := errors.Join(failed[:]...); s.Stale == "" && err != nil {
		s.Stale = strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	return s
}

// stale returns why the reads of this round may be out of date.
func (c *Collector) stale() string {
	if !c.leads() {
		return "the lease was not renewed lately, so another process may be the leader"
	}
	return c.Stale()
}

// leads reports whether this process is certainly the only leader.
func (c *Collector) leads() bool { return c.Lease == nil || c.Lease.Fresh(c.Clock.Now()) }

// listMachines lists the Machines of all namespaces, page by page. All pages have the same resource version. A page of 0 Machines means
// that all are in one page, as for a cache, which has no pages.
func (c *Collector) listMachines(ctx context.Context, from client.Reader, page int64) (all []verdict.Machine, err error) {
	for next := ""; ; {
		var list v1alpha1.MachineList
		if err := from.List(ctx, &list, client.Limit(page), client.Continue(next), client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("listing Machines: %w", err)
		}
		for i := range list.Items {
			m := &list.Items[i]
			all = append(all, verdict.Machine{
				UID: m.UID, Name: m.Namespace + "/" + m.Name, ServerName: m.ServerName(), Server: c.Cloud.ServerID(ptr.Deref(m.Spec.ProviderID, "")),
				NodeName: ptr.Deref(m.Status.NodeRef, corev1.ObjectReference{}).Name,
			})
		}
		if next = list.Continue; next == "" || page == 0 {
			return all, nil
		}
	}
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

// names returns the names of the objects of a kind from the informer cache.
func (c *Collector) names(ctx context.Context, list client.ObjectList) (all []string, err error) {
	if err := c.Control.GetClient().List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the groups of Machines: %w", err)
	}
	err = meta.EachListItem(list, func(o runtime.Object) error {
		all = append(all, o.(client.Object).GetName())
		return nil
	})
	return all, err
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
