package client

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"

	"github.com/drover-project/drover/machines/fault"
)

// Scope is the project and region of a token, and the URLs of the services there.
type Scope struct {
	ProjectID, ProjectName, Region string
	ProjectDomain                  tokens.Domain
	// User is the user that has signed in.
	User tokens.User
	// Admin is true when the token has the role admin, so that lists may have resources that the project cannot use.
	Admin     bool
	endpoints map[Service]string
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

// versionPath is the end of a service's URL. Some catalogs include it and others leave it out. A compute URL may have v2 or v2.1, and
// some catalogs append the project to the version.
var versionPath = map[Service]string{Compute: "v2.1/", Network: "v2.0/", Image: "v2/"}

// chooseEndpoints selects one URL per service. When the credentials name no region, the catalog must have only one region.
func chooseEndpoints(t *token, c *Credentials) (*Scope, error) {
	region, err := chooseRegion(t.Entries, cmp.Or(c.Places[Compute].Region, c.Region))
	if err != nil {
		return nil, err
	}
	scope := &Scope{
		ProjectID: t.Project.ID, ProjectName: t.Project.Name, ProjectDomain: t.Project.Domain, Region: region,
		User: t.User, endpoints: map[Service]string{},
		Admin: slices.ContainsFunc(t.Roles, func(r tokens.Role) bool { return r.Name == adminRole }),
	}
	for s, types := range serviceTypes {
		place := c.Places[s]
		address := place.URL
		for _, entry := range t.Entries {
			if address == "" && slices.Contains(types, entry.Type) {
				address = addressIn(entry, c.regionOf(s, region), c.interfacesOf(s))
			}
		}
		if address != "" {
			scope.endpoints[s] = serviceURL(s, address)
		}
	}
	if scope.endpoints[Compute] == "" {
		return nil, c.missing(Compute, region)
	}
	return scope, nil
}

// missing returns the error for a service that the catalog does not have where the credentials look for it.
func (c *Credentials) missing(s Service, ofScope string) error {
	return fault.New(fault.Invalid, fault.CodeInvalidSpec, "the cloud's catalog has no %s service with interface %s in region %s",
		s, strings.Join(c.interfacesOf(s), " or "), c.regionOf(s, ofScope))
}

// adminRole is the role to which the services' own policies give the rights of an administrator.
const adminRole = "admin"

// regionOf returns the region in which a service is looked for: that of the scope unless the credentials name one.
func (c *Credentials) regionOf(s Service, ofScope string) string {
	return cmp.Or(c.Places[s].Region, c.Region, ofScope)
}

// interfacesOf returns the interfaces of a service in the order of preference.
func (c *Credentials) interfacesOf(s Service) []string {
	for _, list := range [][]string{c.Places[s].Interfaces, c.Interfaces} {
		if len(list) > 0 {
			return list
		}
	}
	return []string{"public"}
}

// addressIn returns a service's URL in a region, of the first interface that it has there; empty when it has none.
func addressIn(service tokens.CatalogEntry, region string, interfaces []string) string {
	for _, wanted := range interfaces {
		for _, endpoint := range service.Endpoints {
			if endpoint.Region == region && endpoint.Interface == wanted {
				return endpoint.URL
			}
		}
	}
	return ""
}

// chooseRegion returns the wanted region if Nova has it, or if the catalog shows no region of Nova. If no region is wanted, it
// returns the only region that Nova has.
func chooseRegion(catalog []tokens.CatalogEntry, want string) (string, error) {
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

// serviceURL returns the URL of a service, with its version and a slash at its end, for an address from the catalog.
func serviceURL(s Service, address string) string {
	endpoint := strings.TrimRight(address, "/") + "/"
	if s == Compute && !versioned.MatchString(endpoint) || s != Compute && !strings.HasSuffix(endpoint, "/"+versionPath[s]) {
		return endpoint + versionPath[s]
	}
	return endpoint
}

// token holds the fields of Keystone's response that drover uses.
type token struct {
	Issued  stamp          `json:"issued_at"`
	Expires stamp          `json:"expires_at"`
	Project tokens.Project `json:"project"`
	User    tokens.User    `json:"user"`
	Roles   []tokens.Role  `json:"roles"`
	tokens.ServiceCatalog
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
