package nodegroup

import "context"

// Refresh begins a loop of the autoscaler: it takes the set of groups anew. It is the one read that fails when the state
// cannot be trusted, because a loop that does not take place does no harm (CA-C13). After a pause without a Refresh or a
// change, and only then, it reads the sizes from the API server: another replica may have been asked meanwhile.
//
// Errors: Unavailable.
func (g *Groups) Refresh(ctx context.Context) error {
	if err := g.contact.check(g.clock.Now()); err != nil {
		return err
	}
	if _, err := g.attend(ctx); err != nil {
		return err
	}
	return g.renew(true)
}

// List gives the node groups in the order of their ids. The set changes only at a Refresh, or after a minute without one.
func (g *Groups) List() []Group {
	entries := g.current().entries
	list := make([]Group, 0, len(entries))
	for _, e := range entries {
		list = append(list, e.listing())
	}
	return list
}

// ForNode gives the group that a node belongs to; false for a foreign node, for one whose Machine goes, and for one of
// a group that is not listed (CA-C25 … C35).
func (g *Groups) ForNode(n Node) (Group, bool) {
	v := g.current()
	owner := v.snapshot.owner(n)
	if owner == nil {
		// A placeholder of a group whose deployment has just gone still has its group.
		if p, ok := n.placeholder(); ok && v.byID[p.group] != nil {
			return v.byID[p.group].listing(), true
		}
		return Group{}, false
	}
	e := v.byID[owner.id]
	if e == nil {
		return Group{}, false
	}
	return e.listing(), true
}

// TargetSize is the number of living Machines wanted, own writes included (CA-C36, C37).
//
// Errors: NotFound.
func (g *Groups) TargetSize(id string) (int32, error) {
	e, err := g.entry(id)
	if err != nil {
		return 0, err
	}
	return e.target, nil
}

// Instances lists a group's instances, as many as fit into one answer (CA-C38 … C55).
//
// Errors: NotFound.
func (g *Groups) Instances(id string) ([]Instance, error) {
	e, err := g.entry(id)
	if err != nil {
		return nil, err
	}
	return e.shown(), nil
}

// TemplateNode gives the bytes of the v1.Node that a new instance of the group would become.
//
// Errors: NotFound; Unimplemented while it is not known (CA-C98).
func (g *Groups) TemplateNode(id string) ([]byte, error) {
	e, err := g.entry(id)
	if err != nil {
		return nil, err
	}
	if len(e.template) == 0 {
		return nil, refuse(Unimplemented, "what a node of %s will be is not known: see the condition TemplateResolved of the MachineDeployment", id)
	}
	return e.template, nil
}

func (g *Groups) entry(id string) (*entry, error) {
	if id == "" {
		return nil, refuse(InvalidArgument, "the request names no node group")
	}
	e := g.current().byID[id]
	if e == nil {
		return nil, refuse(NotFound, "there is no node group %q", id)
	}
	return e, nil
}
