package inventory

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	compute "github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"k8s.io/apimachinery/pkg/types"

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

// lookUpServer gets one server by its ID.
func lookUpServer(ctx context.Context, id string, do Do) (*state.ServerRow, error) {
	var body struct {
		Server state.ServerRow `json:"server"`
	}
	err := do(ctx, client.Call{Service: client.Compute, Doing: "looking up server " + id, Version: client.VersionServers}, func(ctx context.Context, api *gophercloud.ServiceClient) error {
		_, err := api.Get(ctx, api.ServiceURL("servers", id), &body, nil)
		return err
	})
	return &body.Server, err
}

// tagServer writes metadata onto a server of a Machine.
func tagServer(ctx context.Context, s *client.Session, id string, machine types.UID, metadata map[string]string) error {
	call := client.Call{Service: client.Compute, Doing: fmt.Sprintf("tagging server %s with Machine %s", id, machine)}
	return s.Do(ctx, call, func(ctx context.Context, api *gophercloud.ServiceClient) error {
		return compute.UpdateMetadata(ctx, api, id, compute.MetadataOpts(metadata)).Err
	})
}
