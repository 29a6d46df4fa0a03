// Package calls makes the calls to OpenStack by which the inventory lists, tags and deletes servers, ports and floating IPs, for all
// Machines of a project together.
//
// It has no state, and decides only how to read the pages of a list. The driver makes the calls of single Machines.
package calls

import (
	"context"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/drover-project/drover/machines/openstack/client"
)

// Do makes one call with the credentials of one Machine. It has the signature of client.Session.Do.
type Do func(ctx context.Context, c client.Call, fn func(ctx context.Context, api *gophercloud.ServiceClient) error) error
