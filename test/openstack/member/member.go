// Package member is a user of a cloud other than drover, by default a member of a project of the simulated cloud. Through it
// tests create resources that do not belong to drover, and read the contents of the cloud.
package member

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"

	sim "github.com/drover-project/drover/test/openstack"
)

// Session is a user who has signed in.
type Session struct {
	provider *gophercloud.ProviderClient
	region   string
	// Microversion is the microversion of calls to Nova. Empty means the oldest one.
	Microversion string
}

// SignIn signs in the user of [sim.SeedMetaKube]. transport carries the calls; nil means the default transport.
func SignIn(ctx context.Context, cloud *sim.Cloud, transport http.RoundTripper) (*Session, error) {
	return SignInAs(ctx, gophercloud.AuthOptions{
		IdentityEndpoint: cloud.AuthURL(), Username: sim.MetaKubeUser, Password: sim.MetaKubePassword,
		DomainName: sim.MetaKubeDomain, TenantName: sim.MetaKubeProject,
	}, sim.MetaKubeRegion, transport)
}

// SignInAs signs in a user of any cloud, for one region. transport carries the calls; nil means the default transport.
func SignInAs(ctx context.Context, user gophercloud.AuthOptions, region string, transport http.RoundTripper) (*Session, error) {
	provider, err := openstack.NewClient(user.IdentityEndpoint)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	provider.HTTPClient.Transport = transport
	if err := openstack.Authenticate(ctx, provider, user); err != nil {
		return nil, fmt.Errorf("signing in: %w", err)
	}
	return &Session{provider: provider, region: region}, nil
}

// services holds the type of each service in the catalog, by the name that callers use. It also holds the version of the
// service's API where the URL in the catalog lacks it.
var services = map[string]struct{ kind, version string }{
	"compute": {"compute", ""}, "network": {"network", "v2.0/"}, "image": {"image", "v2/"}, "volume": {"volumev3", ""},
}

// Ask makes one call and returns the body of its answer. path begins with the service (compute, network, image or volume), as
// in "compute /servers". When body is empty, the request has no body. Any status other than 200, 201 and 202 is an error.
func (s *Session) Ask(ctx context.Context, method, path, body string) ([]byte, error) {
	name, rest, ok := strings.Cut(path, " /")
	service, known := services[name]
	if !ok || !known {
		return nil, fmt.Errorf("%q does not begin with a service and a blank, as in compute /servers", path)
	}
	url, err := s.provider.EndpointLocator(gophercloud.EndpointOpts{Type: service.kind, Availability: gophercloud.AvailabilityPublic, Region: s.region})
	if err != nil {
		return nil, err
	}
	var out json.RawMessage
	options := &gophercloud.RequestOpts{JSONResponse: &out, OkCodes: []int{http.StatusOK, http.StatusCreated, http.StatusAccepted}}
	if s.Microversion != "" && name == "compute" {
		options.MoreHeaders = map[string]string{"X-OpenStack-Nova-API-Version": s.Microversion}
	}
	if body != "" {
		options.JSONBody = json.RawMessage(body)
	}
	resp, err := s.provider.Request(ctx, method, strings.TrimSuffix(url, "/")+"/"+service.version+rest, options)
	if err != nil {
		return nil, err
	}
	return out, resp.Body.Close()
}

// Rows returns the items of a list. key is the field of the answer that holds them.
func (s *Session) Rows(ctx context.Context, path, key string) ([]map[string]any, error) {
	raw, err := s.Ask(ctx, http.MethodGet, path, "")
	if err != nil {
		return nil, err
	}
	var body map[string]json.RawMessage
	if err := json.Unmarshal(raw, &body); err != nil {
		return nil, err
	}
	var rows []map[string]any
	return rows, json.Unmarshal(body[key], &rows)
}

// Find returns the ID of the first item with the name in a list; empty when there is none.
func (s *Session) Find(ctx context.Context, service, key, name string) string {
	rows, err := s.Rows(ctx, service+" /"+key, key)
	if err != nil {
		return ""
	}
	for _, row := range rows {
		if row["name"] == name {
			return fmt.Sprint(row["id"])
		}
	}
	return ""
}

// listings holds the list call for each kind of resource, and the field of the answer that holds the items.
var listings = []struct{ path, key string }{
	{"compute /servers/detail", "servers"}, {"network /ports", "ports"}, {"network /floatingips", "floatingips"}, {"volume /volumes/detail", "volumes"},
}

// Inventory returns all servers, ports, floating IPs and volumes as the cloud shows them, in JSON, by ID.
func (s *Session) Inventory(ctx context.Context) (map[string]string, error) {
	out := map[string]string{}
	for _, l := range listings {
		rows, err := s.Rows(ctx, l.path, l.key)
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			raw, err := json.Marshal(row)
			if err != nil {
				return nil, err
			}
			out[fmt.Sprint(row["id"])] = string(raw)
		}
	}
	return out, nil
}
