package catalog

import (
	"cmp"
	"context"
	"slices"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/security/groups"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/security/rules"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/client"
)

var securityGroupKind = kind{name: "security group", notFound: fault.CodeSecurityGroupNotFound, service: client.Network, path: "security-groups", field: "security_groups"}

type securityGroup struct {
	resource
	Created     string               `json:"created_at"`
	Description string               `json:"description"`
	Rules       []rules.SecGroupRule `json:"security_group_rules"`
}

func (c *Catalog) securityGroup(ctx context.Context, name string) (securityGroup, error) {
	return find[securityGroup](ctx, c, securityGroupKind, name, nil)
}

// defaultSecurityGroup is the name of the security group for specs that name none; machine-controller uses the same name. The group
// allows traffic between its members.
const defaultSecurityGroup = "kubernetes-v1"

// defaultGroupDescription distinguishes the groups that drover created from other groups with the same name.
const defaultGroupDescription = "nodes of a Kubernetes cluster reach each other; made by drover"

// defaultGroup returns the default group, and creates it if it does not exist. When two programs have created a group at the same
// time, all programs use the oldest group. If drover created the group without finishing it, defaultGroup adds the missing rules.
func (c *Catalog) defaultGroup(ctx context.Context) (securityGroup, error) {
	// The cache key differs from the key for a spec that names the group, because the name in a spec may refer to a group of another
	// project.
	return lookup(c.cache, securityGroupKind.key(""), func() (securityGroup, error) {
		all, err := c.defaultGroups(ctx)
		if err != nil {
			return securityGroup{}, err
		}
		var g securityGroup
		if len(all) > 0 {
			g = oldest(all)
		} else if g, err = c.makeDefaultGroup(ctx); err != nil {
			return securityGroup{}, err
		}
		if g.Description != defaultGroupDescription {
			return g, nil
		}
		return g, c.addRules(ctx, g)
	})
}

// defaultGroups returns the project's own groups with the name of the default group. With an administrator's credentials Neutron
// lists the groups of every project.
func (c *Catalog) defaultGroups(ctx context.Context) ([]securityGroup, error) {
	scope, err := c.session.Scope(ctx)
	if err != nil {
		return nil, err
	}
	all, err := list[securityGroup](ctx, c.session, securityGroupKind, defaultSecurityGroup)
	return slices.DeleteFunc(all, func(g securityGroup) bool { return g.Project != scope.ProjectID }), err
}

func oldest(all []securityGroup) securityGroup {
	return slices.MinFunc(all, func(a, b securityGroup) int {
		return cmp.Or(cmp.Compare(a.Created, b.Created), cmp.Compare(a.ID, b.ID))
	})
}

// makeDefaultGroup creates the default group. Another program may create one at the same time: makeDefaultGroup returns the oldest one,
// which all programs use. If that is not the new one, it deletes the new one, because nothing uses it yet. A failed deletion is only
// logged.
func (c *Catalog) makeDefaultGroup(ctx context.Context) (securityGroup, error) {
	var body struct {
		Group securityGroup `json:"security_group"`
	}
	making := client.Call{Service: client.Network, Doing: "creating security group " + defaultSecurityGroup}
	err := c.session.Do(ctx, making, func(ctx context.Context, api *gophercloud.ServiceClient) error {
		return groups.Create(ctx, api, groups.CreateOpts{Name: defaultSecurityGroup, Description: defaultGroupDescription}).ExtractInto(&body)
	})
	if err != nil {
		return securityGroup{}, err
	}
	made := body.Group
	all, err := c.defaultGroups(ctx)
	if err != nil || len(all) == 0 {
		return made, err
	}
	first := oldest(all)
	if first.ID == made.ID {
		return made, nil
	}
	removing := client.Call{Service: client.Network, Doing: "deleting a second security group " + defaultSecurityGroup}
	err = c.session.Do(ctx, removing, func(ctx context.Context, api *gophercloud.ServiceClient) error {
		return groups.Delete(ctx, api, made.ID).ExtractErr()
	})
	if err != nil {
		log.FromContext(ctx).Info("Cannot delete a duplicate security group", "group", made.ID, "error", err.Error())
	}
	return first, nil
}

// addRules adds the missing rules: all traffic from the group's own members, for IPv4 and IPv6.
func (c *Catalog) addRules(ctx context.Context, g securityGroup) error {
	for _, family := range []rules.RuleEtherType{rules.EtherType4, rules.EtherType6} {
		has := func(r rules.SecGroupRule) bool {
			return r.Direction == string(rules.DirIngress) && r.EtherType == string(family) && r.RemoteGroupID == g.ID
		}
		if slices.ContainsFunc(g.Rules, has) {
			continue
		}
		adding := client.Call{Service: client.Network, Doing: "creating a rule of security group " + defaultSecurityGroup}
		err := c.session.Do(ctx, adding, func(ctx context.Context, api *gophercloud.ServiceClient) error {
			_, err := rules.Create(ctx, api, rules.CreateOpts{
				Direction: rules.DirIngress, EtherType: family, SecGroupID: g.ID, RemoteGroupID: g.ID,
			}).Extract()
			return err
		})
		if err != nil && !fault.Is(err, fault.Conflict) {
			return err
		}
	}
	return nil
}
