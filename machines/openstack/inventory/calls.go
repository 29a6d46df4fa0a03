package inventory

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	compute "github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/client"
	"github.com/drover-project/drover/machines/openstack/inventory/state"
)

// Do makes one call with the credentials of one Machine. It has the signature of client.Session.Do.
type Do func(ctx context.Context, c client.Call, fn func(ctx context.Context, api *gophercloud.ServiceClient) error) error

const (
	// pageSize is Nova's maximum page size.
	pageSize = 1000
	// restarts is the maximum number of attempts to read a list. Reading starts again when the server that marks the start of a
	// page has been deleted meanwhile.
	restarts = 3
)

// listServers reads all pages of one list. When full is true, it lists all servers; otherwise it lists the servers that have
// changed since a little before since, which is a time on the cloud's clock. It returns the rows, and the cloud's time at the
// start of the list. When one page fails, the list fails.
func listServers(ctx context.Context, s *client.Session, since time.Time, full bool) ([]state.ServerRow, cloudDate, error) {
	query := url.Values{"limit": {strconv.Itoa(pageSize)}}
	if !full {
		query.Set("changes-since", since.Add(-state.Overlap).UTC().Format(time.RFC3339))
	}
	call := client.Call{Service: client.Compute, Doing: "listing servers", Version: client.VersionServers}
	var err error
	for range restarts {
		var rows []state.ServerRow
		var first http.Header
		rows, first, err = client.Pages[state.ServerRow](ctx, s, client.Listing{Call: call, Path: "servers/detail", Field: "servers", Query: query})
		if fault.Is(err, fault.Invalid) && len(rows) > 0 {
			continue
		}
		date := cloudTime(first, rows[:min(len(rows), pageSize)])
		return slices.DeleteFunc(rows, func(r state.ServerRow) bool { return !client.LooksLikeID(r.ID) }), date, err
	}
	return nil, cloudDate{}, err
}

// cloudDate is a time on the cloud's clock. Dated is true when it is the present time there, from the header Date of a response.
type cloudDate struct {
	time.Time
	dated bool
}

// cloudTime returns the response's Date or, without one, the latest time in its rows.
func cloudTime(header http.Header, rows []state.ServerRow) cloudDate {
	if date, err := http.ParseTime(header.Get("Date")); err == nil {
		return cloudDate{date, true}
	}
	var latest time.Time
	for i := range rows {
		if rows[i].Updated.After(latest) {
			latest = rows[i].Updated
		}
	}
	return cloudDate{Time: latest}
}

// LookUp gets one resource. field is its name in the answer, and path where it is below the service's endpoint.
func LookUp[T any](ctx context.Context, do Do, call client.Call, field string, path ...string) (*T, error) {
	var body map[string]json.RawMessage
	found := new(T)
	err := do(ctx, call, func(ctx context.Context, api *gophercloud.ServiceClient) error {
		if _, err := api.Get(ctx, api.ServiceURL(path...), &body, nil); err != nil || body[field] == nil {
			return err
		}
		return json.Unmarshal(body[field], found)
	})
	return found, err
}

// lookUpServer gets one server by its ID.
func lookUpServer(ctx context.Context, id string, do Do) (*state.ServerRow, error) {
	call := client.Call{Service: client.Compute, Doing: "looking up server " + id, Version: client.VersionServers}
	return LookUp[state.ServerRow](ctx, do, call, "server", "servers", id)
}

// tagServer writes the owner tag of a Machine onto a server.
func tagServer(ctx context.Context, s *client.Session, id string, cluster state.Cluster, machine types.UID) error {
	call := client.Call{Service: client.Compute, Doing: fmt.Sprintf("tagging server %s with Machine %s", id, machine)}
	return s.Do(ctx, call, func(ctx context.Context, api *gophercloud.ServiceClient) error {
		return compute.UpdateMetadata(ctx, api, id, compute.MetadataOpts{state.MetadataMachineUID: string(machine), state.MetadataClusterID: string(cluster)}).Err
	})
}

// portsAtOnce is the maximum number of ports in one list request. The request has their IDs in its URL, whose length is limited.
const portsAtOnce = 100

// portFields are the fields of a port that drover requests from Neutron: those of state.Port.
var portFields = []string{"id", "description", "network_id", "fixed_ips", "device_id", "port_security_enabled", "trunk_details"}

// PortListing returns the listing of the ports that match a query.
func PortListing(query url.Values) client.Listing {
	return client.Listing{
		Call: client.Call{Service: client.Network, Doing: "listing ports"}, Path: "ports", Field: "ports", Query: query,
	}
}

// FloatingIPListing returns the listing of the floating IPs that match a query.
func FloatingIPListing(query url.Values) client.Listing {
	return client.Listing{
		Call: client.Call{Service: client.Network, Doing: "listing floating IPs"}, Path: "floatingips", Field: "floatingips", Query: query,
	}
}

// listAddresses lists all ports and floating IPs of the project.
func listAddresses(ctx context.Context, s *client.Session) (l state.AddressLists, err error) {
	id, err := s.Scope(ctx)
	if err != nil {
		return l, err
	}
	l.Ports, err = client.List[state.Port](ctx, s, PortListing(url.Values{
		"project_id": {id.ProjectID}, "fields": portFields,
	}))
	if err != nil {
		return l, err
	}
	l.FloatingIPs, err = client.List[state.FloatingIP](ctx, s, FloatingIPListing(url.Values{
		"project_id": {id.ProjectID}, "fields": {"id", "description", "floating_ip_address", "port_id"},
	}))
	return l, err
}

// listPorts lists the ports with these IDs, up to 100 with each request.
func listPorts(ctx context.Context, s *client.Session, ids []string) (rows []state.Port, err error) {
	for some := range slices.Chunk(ids, portsAtOnce) {
		more, err := client.List[state.Port](ctx, s, PortListing(url.Values{"id": some, "fields": portFields}))
		if err != nil {
			return nil, err
		}
		rows = append(rows, more...)
	}
	return rows, nil
}

// tagAddress writes the new owner tag onto a port or floating IP. For a floating IP it also sends the current port_id, because Neutron
// disassociates a floating IP from its port in an update without port_id.
func tagAddress(ctx context.Context, s *client.Session, a state.Adopted) error {
	what := cmp.Or(a.Port.ID, a.FloatingIP.Address)
	call := client.Call{Service: client.Network, Doing: fmt.Sprintf("tagging %s %s with Machine %s", a.Tag.Kind, what, a.Tag.Machine)}
	return s.Do(ctx, call, func(ctx context.Context, api *gophercloud.ServiceClient) error {
		if ip := a.FloatingIP; ip.ID != "" {
			return floatingips.Update(ctx, api, ip.ID, floatingips.UpdateOpts{Description: new(a.Tag.String()), PortID: &ip.PortID}).Err
		}
		return ports.Update(ctx, api, a.Port.ID, ports.UpdateOpts{Description: new(a.Tag.String())}).Err
	})
}

// lookUpPort gets one port by its ID.
func lookUpPort(ctx context.Context, s *client.Session, id string) (*state.Port, error) {
	call := client.Call{Service: client.Network, Doing: "looking up port " + id}
	return LookUp[state.Port](ctx, s.Do, call, "port", "ports", id)
}

// lookUpFloatingIP gets one floating IP by its ID.
func lookUpFloatingIP(ctx context.Context, s *client.Session, id string) (*state.FloatingIP, error) {
	call := client.Call{Service: client.Network, Doing: "looking up floating IP " + id}
	return LookUp[state.FloatingIP](ctx, s.Do, call, "floatingip", "floatingips", id)
}

// deleteResource deletes a server, port or floating IP. Messages contain the reason why.
func deleteResource(ctx context.Context, s *client.Session, kind cloud.ResourceKind, id, why string) error {
	call := client.Call{Service: client.Network, Doing: fmt.Sprintf("deleting %s %s, %s", kind, id, why)}
	if kind == cloud.ResourceServer {
		call.Service = client.Compute
	}
	return s.Do(ctx, call, func(ctx context.Context, api *gophercloud.ServiceClient) error {
		switch kind {
		case cloud.ResourceServer:
			return compute.Delete(ctx, api, id).ExtractErr()
		case cloud.ResourceFloatingIP:
			return floatingips.Delete(ctx, api, id).ExtractErr()
		}
		return ports.Delete(ctx, api, id).ExtractErr()
	})
}

// unlimited represents a quota without a limit.
const unlimited = 1 << 40

// readFree makes one GET and returns the quota of a service that the project has left.
func readFree(ctx context.Context, s *client.Session, of client.Service) (state.Amounts, error) {
	free := state.Amounts{}
	for n := range free {
		free[n] = unlimited
	}
	c := client.Call{Service: of, Doing: "reading the " + string(of) + " quotas"}
	var err error
	switch of {
	case client.Compute, client.Volume:
		err = readAbsolute(ctx, s, c, &free)
	default:
		err = readDetails(ctx, s, c, &free)
	}
	return free, err
}

// left returns the free part of a limit; a negative limit means no limit.
func left(limit, used int) int {
	if limit < 0 {
		return unlimited
	}
	return max(0, limit-used)
}

// readAbsolute reads Nova's or Cinder's limits.
func readAbsolute(ctx context.Context, s *client.Session, c client.Call, free *state.Amounts) error {
	limits, err := LookUp[struct{ Absolute map[string]int }](ctx, s.Do, c, "limits", "limits")
	for n, names := range map[int][2]string{
		state.Instances: {"maxTotalInstances", "totalInstancesUsed"}, state.Cores: {"maxTotalCores", "totalCoresUsed"},
		state.RAMMiB: {"maxTotalRAMSize", "totalRAMUsed"}, state.Volumes: {"maxTotalVolumes", "totalVolumesUsed"},
		state.VolumeGiB: {"maxTotalVolumeGigabytes", "totalGigabytesUsed"},
	} {
		if limit, ok := limits.Absolute[names[0]]; ok {
			free[n] = left(limit, limits.Absolute[names[1]])
		}
	}
	return err
}

// readDetails reads Neutron's quotas and their usage.
func readDetails(ctx context.Context, s *client.Session, c client.Call, free *state.Amounts) error {
	id, err := s.Scope(ctx)
	if err != nil {
		return err
	}
	type detail struct{ Limit, Used, Reserved int }
	quota, err := LookUp[struct{ Port, FloatingIP *detail }](ctx, s.Do, c, "quota", "quotas", id.ProjectID, "details.json")
	if d := quota.Port; d != nil {
		free[state.Ports] = left(d.Limit, d.Used+d.Reserved)
	}
	if d := quota.FloatingIP; d != nil {
		free[state.FloatingIPs] = left(d.Limit, d.Used+d.Reserved)
	}
	return err
}
