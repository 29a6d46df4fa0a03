package openstack

import (
	"context"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/security/groups"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/security/rules"
)

// defaultSecurityGroup is used by specs that name none (machine-controller's name). It lets its members reach each
// other.
const defaultSecurityGroup = "kubernetes-v1"

// defaultGroup finds the group, or makes it once. When two have been made, by two programs at the same time, the oldest
// counts for everybody.
func (c *catalog) defaultGroup(ctx context.Context) (securityGroup, error) {
	return lookup(c.cache, c.key("security group", defaultSecurityGroup), func() (securityGroup, error) {
		all, err := c.securityGroups(ctx, defaultSecurityGroup)
		if err != nil {
			return securityGroup{}, err
		}
		if len(all) > 0 {
			return oldest(all), nil
		}
		return c.makeDefaultGroup(ctx)
	})
}

func oldest(all []securityGroup) securityGroup {
	return slices.MinFunc(all, func(a, b securityGroup) int {
		if by := strings.Compare(a.Created, b.Created); by != 0 {
			return by
		}
		return strings.Compare(a.ID, b.ID)
	})
}

func (c *catalog) makeDefaultGroup(ctx context.Context) (securityGroup, error) {
	var made securityGroup
	making := call{service: networkService, doing: "creating security group " + defaultSecurityGroup}
	err := c.session.do(ctx, making, func(ctx context.Context, client *gophercloud.ServiceClient) error {
		g, err := groups.Create(ctx, client, groups.CreateOpts{
			Name: defaultSecurityGroup, Description: "nodes of a Kubernetes cluster reach each other; made by drover",
		}).Extract()
		if err != nil {
			return err
		}
		made.ID, made.Name = g.ID, g.Name
		for _, family := range []rules.RuleEtherType{rules.EtherType4, rules.EtherType6} {
			_, err := rules.Create(ctx, client, rules.CreateOpts{
				Direction: rules.DirIngress, EtherType: family, SecGroupID: g.ID, RemoteGroupID: g.ID,
			}).Extract()
			if err != nil {
				// A group without its rules would be found and used the next time.
				_ = groups.Delete(ctx, client, g.ID).ExtractErr()
				return err
			}
		}
		return nil
	})
	return made, err
}
