package nodegroup

import (
	"context"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/nodegroup/model"
	"github.com/drover-project/drover/nodegroup/model/membership"
)

// Refresh begins a loop of the autoscaler: it makes a new list of groups. It is the only read that fails when the state cannot be
// trusted, because a skipped loop does no harm (CA-C13). After a pause without a Refresh or a change, it first reads the sizes
// from the API server, because another replica may have changed them meanwhile.
//
// Errors: Unavailable.
func (g *Groups) Refresh(ctx context.Context) error {
	if err := g.Trusted(); err != nil {
		return err
	}
	if _, err := g.sizes.ensureFresh(ctx); err != nil {
		return err
	}
	return g.store.renew(true)
}

// Trusted returns nil while Refresh answers. It returns an error when an API server has not answered for 30 s, or a watch has lagged for
// 30 s. It makes no call.
//
// Errors: Unavailable.
func (g *Groups) Trusted() error { return g.freshness.check() }

// List returns the node groups in the order of their ids. The set of groups changes only at a Refresh, or after a minute
// without one.
func (g *Groups) List() []model.Listing { return g.store.current().List() }

// ForNode returns the group that a node belongs to. It returns false for a node that belongs to no Machine, for a node whose
// Machine is being removed, and for a node of a group that is not listed (CA-C25 … C35).
func (g *Groups) ForNode(n membership.Node) (model.Listing, bool) {
	return g.store.current().ForNode(n)
}

// TargetSize returns the group's size: the number of living Machines that are wanted. Sizes that drover itself has written count
// immediately, also before the watch delivers them (CA-C36, C37).
//
// Errors: NotFound.
func (g *Groups) TargetSize(id string) (int32, error) {
	e, err := g.store.entry(id)
	if err != nil {
		return 0, err
	}
	return e.Target, nil
}

// Instances returns the group's instances, as many as fit into one answer (CA-C38 … C55).
//
// Errors: NotFound.
func (g *Groups) Instances(id string) ([]model.Instance, error) {
	e, err := g.store.entry(id)
	if err != nil {
		return nil, err
	}
	return e.Shown(), nil
}

// TemplateNode returns the encoded v1.Node that a new instance of the group would become.
//
// Errors: NotFound; Unimplemented while the node is not known (CA-C98).
func (g *Groups) TemplateNode(id string) ([]byte, error) {
	e, err := g.store.entry(id)
	if err != nil {
		return nil, err
	}
	if len(e.Template) == 0 {
		return nil, model.Refusef(model.Unimplemented, "the resources of a new node of %s are not known: see the condition TemplateResolved of the MachineDeployment", id)
	}
	return e.Template, nil
}

// Settings returns the autoscaler's options, overridden by the group's own. It returns false when the autoscaler's flags apply:
// for a group without option annotations, and for an autoscaler that does not send its provision time. An autoscaler up to 1.28
// has no field for the provision time, and would read an answer as a provision time of zero. Settings never fails, because an
// autoscaler that cannot read the options of a growing group forgets the increase and requests it again (CA-C90 … C96).
func (g *Groups) Settings(id string, defaults model.Settings) (model.Settings, bool) {
	if defaults.ProvisionTime <= 0 {
		return model.Settings{}, false
	}
	g.advisor.provision.Store(int64(defaults.ProvisionTime))
	e := g.store.current().ByID[id]
	if e == nil || !e.Options.Any() {
		return model.Settings{}, false
	}
	return e.Options.Over(defaults), true
}

// NodePrice returns the price of a node from start to end. The node may belong to a group, be a template, or be unknown. An
// unknown node costs as much as the most expensive known node, so that the autoscaler does not prefer it.
//
// Errors: Unimplemented without prices (CA-C106).
func (g *Groups) NodePrice(n membership.Node, start, end time.Time) (float64, error) {
	p := g.prices.current.Load()
	if p == nil {
		return 0, noPrices()
	}
	resources := g.store.current().Snapshot.ResourcesOf(n)
	return p.Node(n.Labels[corev1.LabelInstanceTypeStable], resources, start, end), nil
}

// PodPrice returns the price of the resources that a pod requests from start to end.
//
// Errors: Unimplemented without prices (CA-C106).
func (g *Groups) PodPrice(pod *corev1.Pod, start, end time.Time) (float64, error) {
	p := g.prices.current.Load()
	if p == nil {
		return 0, noPrices()
	}
	var templates []*v1alpha1.NodeTemplate
	for _, grp := range g.store.current().Snapshot.Groups {
		if grp.Owner.Template != nil {
			templates = append(templates, grp.Owner.Template)
		}
	}
	return p.Pod(pod, templates, start, end), nil
}

func noPrices() error {
	return model.Refusef(model.Unimplemented, "there are no prices (--features=prices): the autoscaler must not be run with --expander=price")
}

// GPUTypes returns the values of the GPU label in the groups' templates, sorted. It never fails (CA-C105).
func (g *Groups) GPUTypes() []string {
	key := g.options.GPULabel
	if key == "" {
		return nil
	}
	found := map[string]bool{}
	for _, e := range g.store.current().Entries {
		if t := e.Owner.Template; t != nil && t.Labels[key] != "" {
			found[t.Labels[key]] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}
