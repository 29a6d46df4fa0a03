package client

import (
	"slices"
	"strings"
	"time"

	"github.com/drover-project/drover/machines/fault"
)

// Scope is the project and region of a token, and the URLs of the services there.
type Scope struct {
	ProjectID, ProjectName, Region string
	ProjectDomain                  Named
	// User is the user that has signed in.
	User, UserDomain Named
	endpoints        map[Service]string
}

// Named is an object of Keystone with its ID and name.
type Named struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// Endpoint returns the URL of a service, which ends with its version and a slash; empty when the catalog does not have the service.
func (s *Scope) Endpoint(of Service) string { return s.endpoints[of] }

// serviceTypes are the types under which catalogs list a service.
var serviceTypes = map[Service][]string{
	Compute: {"compute"},
	Network: {"network"},
	Image:   {"image"},
	Volume:  {"block-storage", "block-store", "volumev3"},
}

// versionPath is the end of a service's URL. Some catalogs include it and others leave it out.
var versionPath = map[Service]string{Network: "v2.0/", Image: "v2/"}

// computePath is added to a compute URL without a version. Catalogs may have v2 or v2.1 in the URL, and some append the project to
// the version.
const computePath = "v2.1/"

// chooseEndpoints selects one URL per service. When the credentials name no region, the catalog must have only one region.
func chooseEndpoints(t *token, c *Credentials) (*Scope, error) {
	region, err := chooseRegion(t.Catalog, c.Region)
	if err != nil {
		return nil, err
	}
	want := c.Interface
	if want == "" {
		want = "public"
	}
	scope := &Scope{
		ProjectID: t.Project.ID, ProjectName: t.Project.Name, ProjectDomain: t.Project.Domain, Region: region,
		User: t.User.Named, UserDomain: t.User.Domain, endpoints: map[Service]string{},
	}
	for s, types := range serviceTypes {
		for _, entry := range t.Catalog {
			if slices.Contains(types, entry.Type) {
				if address := entry.address(region, want); address != "" {
					scope.endpoints[s] = serviceURL(s, address)
				}
			}
		}
	}
	return scope, nil
}

// address returns the service's URL in a region; empty when the service has no URL there.
func (e *catalogEntry) address(region, availability string) string {
	for _, endpoint := range e.Endpoints {
		if endpoint.Region == region && endpoint.Interface == availability {
			return endpoint.URL
		}
	}
	return ""
}

// chooseRegion returns the wanted region if Nova has it, or if the catalog shows no region of Nova. If no region is wanted, it
// returns the only region that Nova has.
func chooseRegion(catalog []catalogEntry, want string) (string, error) {
	var regions []string
	for _, entry := range catalog {
		for _, e := range entry.Endpoints {
			if entry.Type == string(Compute) && !slices.Contains(regions, e.Region) {
				regions = append(regions, e.Region)
			}
		}
	}
	switch {
	case len(regions) == 0 || slices.Contains(regions, want):
		return want, nil
	case want != "":
		return "", fault.New(fault.Invalid, fault.CodeInvalidSpec, "region %s is unknown; the cloud has: %s", want, strings.Join(regions, ", "))
	case len(regions) > 1:
		return "", fault.New(fault.Invalid, fault.CodeInvalidSpec, "region is missing, and the cloud has several: %s", strings.Join(regions, ", "))
	}
	return regions[0], nil
}

// serviceURL returns the URL of a service, with its version, for an address from the catalog.
func serviceURL(s Service, address string) string {
	endpoint := baseURL(address, versionPath[s])
	if s == Compute && !versioned.MatchString(endpoint) {
		return endpoint + computePath
	}
	return endpoint
}

// baseURL returns endpoint with the version and a slash at its end.
func baseURL(endpoint, version string) string {
	endpoint = strings.TrimRight(endpoint, "/") + "/"
	if !strings.HasSuffix(endpoint, "/"+version) && version != "" {
		endpoint += version
	}
	return endpoint
}

// token holds the fields of Keystone's response that drover uses.
type token struct {
	Issued  stamp          `json:"issued_at"`
	Expires stamp          `json:"expires_at"`
	Project inDomain       `json:"project"`
	User    inDomain       `json:"user"`
	Catalog []catalogEntry `json:"catalog"`
}

// inDomain is an object of Keystone together with the domain that it belongs to.
type inDomain struct {
	Named
	Domain Named `json:"domain"`
}

// stamp is a time in Keystone's format. The zone is missing (seen in Zed) for a token that expires with its application credential;
// the time is then in UTC.
type stamp struct{ time.Time }

// UnmarshalJSON parses a time with or without a zone.
func (s *stamp) UnmarshalJSON(raw []byte) error {
	text := strings.Trim(string(raw), `"`)
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t, err = time.Parse("2006-01-02T15:04:05", text)
	}
	s.Time = t
	return err
}

type catalogEntry struct {
	Type      string `json:"type"`
	Endpoints []struct {
		Interface string `json:"interface"`
		Region    string `json:"region"`
		RegionID  string `json:"region_id"`
		URL       string `json:"url"`
	} `json:"endpoints"`
}
