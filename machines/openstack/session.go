package openstack

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"golang.org/x/sync/singleflight"
	"k8s.io/utils/clock"

	"github.com/drover-project/drover/machines/fault"
)

const (
	// callTimeout bounds every call.
	callTimeout = 60 * time.Second
	// signInAgain is how long a refused sign-in stands before it is tried again: a wrong password must not lock the user.
	signInAgain = 30 * time.Second
	// tokenUse is the part of a token's life after which it is renewed.
	tokenUse = 0.9
)

// session is one set of credentials at one cloud: one client, one token, shared by everybody.
type session struct {
	creds    Credentials
	clock    clock.Clock
	provider *gophercloud.ProviderClient
	versions *versions
	flight   singleflight.Group

	mu      sync.Mutex
	id      *identity
	token   string
	renewAt time.Time
	refused error
	retryAt time.Time
}

// identity is what a sign-in tells.
type identity struct {
	projectID, region string
	endpoints         map[service]string
}

func newSession(creds Credentials, client http.Client, v *versions, c clock.Clock) (*session, error) {
	provider, err := openstack.NewClient(creds.IdentityEndpoint)
	if err != nil {
		return nil, fault.New(fault.Invalid, fault.CodeInvalidSpec, "identityEndpoint: %v", err)
	}
	provider.HTTPClient = client
	provider.UserAgent.Prepend("drover")
	return &session{creds: creds, clock: c, provider: provider, versions: v}, nil
}

// identity signs in when nobody has yet, and is free afterwards. Single flight; a refusal stands for signInAgain.
func (s *session) identity(ctx context.Context) (*identity, error) {
	s.mu.Lock()
	id, refused := s.id, s.refused
	if refused != nil && !s.clock.Now().Before(s.retryAt) {
		refused = nil
	}
	s.mu.Unlock()
	if id != nil || refused != nil {
		return id, refused
	}
	got, err, _ := s.flight.Do("sign in", func() (any, error) { return s.signIn(ctx) })
	if err != nil {
		return nil, err
	}
	return got.(*identity), nil
}

// known gives the identity without any call: nil while nobody has signed in, and the refusal when there was one.
func (s *session) known() (*identity, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.id, s.refused
}

func (s *session) signIn(ctx context.Context) (*identity, error) {
	if id, _ := s.known(); id != nil {
		return id, nil
	}
	ctx, cancel := context.WithTimeout(withService(ctx, identityService), callTimeout)
	defer cancel()
	started := s.clock.Now()
	id, err := s.authenticate(ctx, started)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.id, s.refused = id, err
	if err != nil {
		s.retryAt = s.clock.Now().Add(max(signInAgain, fault.Of(err).RetryAfter))
		return nil, err
	}
	return id, nil
}

func (s *session) authenticate(ctx context.Context, started time.Time) (*identity, error) {
	asking := call{service: identityService, doing: "signing in at " + s.creds.IdentityEndpoint + " " + s.creds.who()}
	options := authOptions(&s.creds)
	if err := openstack.AuthenticateV3(ctx, s.provider, &options, gophercloud.EndpointOpts{}); err != nil {
		return nil, classify(asking, err, s.creds.secrets())
	}
	t, err := s.readToken(started)
	if err != nil {
		return nil, classify(asking, err, s.creds.secrets())
	}
	if t.Project.ID == "" {
		return nil, fault.New(fault.Auth, fault.CodeForbidden, "%s: the token is for no project; name one", asking.doing)
	}
	return chooseEndpoints(t, &s.creds)
}

// authOptions puts the credentials into the client library's form. A user's domain defaults to the one with ID default.
func authOptions(c *Credentials) gophercloud.AuthOptions {
	o := gophercloud.AuthOptions{IdentityEndpoint: c.IdentityEndpoint, AllowReauth: true}
	userDomain := func() {
		o.DomainID, o.DomainName = domain(c.UserDomainID, c.UserDomainName, c.DomainID, c.DomainName)
	}
	switch c.method() {
	case byApplicationCredential:
		o.ApplicationCredentialID, o.ApplicationCredentialSecret = c.ApplicationCredentialID, c.ApplicationCredentialSecret
		if c.ApplicationCredentialID == "" {
			o.ApplicationCredentialName, o.Username = c.ApplicationCredentialName, c.Username
			userDomain()
		}
	case byPassword:
		o.Username, o.Password = c.Username, c.Password
		userDomain()
		o.Scope = &gophercloud.AuthScope{ProjectID: c.ProjectID}
		if c.ProjectID == "" {
			o.Scope.ProjectName = c.ProjectName
			o.Scope.DomainID, o.Scope.DomainName = domain(c.ProjectDomainID, c.ProjectDomainName, c.DomainID, c.DomainName)
		}
	case byToken:
		o.TokenID, o.AllowReauth = c.Token, false
	}
	return o
}

// domain picks one of the ways to name a domain: Keystone refuses two.
func domain(ownID, ownName, sharedID, sharedName string) (id, name string) {
	switch {
	case ownID != "":
		return ownID, ""
	case ownName != "":
		return "", ownName
	case sharedName != "":
		return "", sharedName
	case sharedID != "":
		return sharedID, ""
	}
	return "default", ""
}

// token is the part of Keystone's answer that is needed.
type token struct {
	Issued  stamp `json:"issued_at"`
	Expires stamp `json:"expires_at"`
	Project struct {
		ID string `json:"id"`
	} `json:"project"`
	Catalog []catalogEntry `json:"catalog"`
}

// stamp is a time as Keystone writes it. That of a token which ends with its application credential has no zone (seen in
// Zed): it is UTC.
type stamp struct{ time.Time }

// UnmarshalJSON reads either form.
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

// readToken takes the last answer of Keystone, and sets the time of renewal: on our clock, for the token's own length.
func (s *session) readToken(started time.Time) (*token, error) {
	var t token
	result, ok := s.provider.GetAuthResult().(interface{ ExtractInto(any) error })
	if !ok {
		return nil, fault.New(fault.Unknown, fault.CodeUnknown, "the answer holds no token")
	}
	if err := result.ExtractInto(&t); err != nil {
		return nil, err
	}
	life := t.Expires.Sub(t.Issued.Time)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.token = s.provider.Token()
	s.renewAt = started.Add(time.Duration(float64(life) * tokenUse))
	return &t, nil
}

// renew gets a new token before the old one ends. When that fails the old one is used on: a 401 would tell.
func (s *session) renew(ctx context.Context) {
	s.mu.Lock()
	now, due, old := s.clock.Now(), s.renewAt, s.token
	s.mu.Unlock()
	if now.Before(due) || s.creds.method() == byToken {
		return
	}
	_, _, _ = s.flight.Do("renew", func() (any, error) {
		err := s.provider.Reauthenticate(withService(ctx, identityService), old)
		if err == nil {
			_, err = s.readToken(now)
		}
		if err != nil {
			s.mu.Lock()
			s.renewAt = now.Add(signInAgain)
			s.mu.Unlock()
		}
		return nil, err
	})
}

// do makes one call, or one paged list, with a token and a deadline, and gives its failure a class. A 401 is replayed
// once with a new token.
func (s *session) do(ctx context.Context, c call, fn func(ctx context.Context, client *gophercloud.ServiceClient) error) error {
	id, err := s.identity(ctx)
	if err != nil {
		return err
	}
	s.renew(ctx)
	endpoint := id.endpoints[c.service]
	if endpoint == "" {
		return fault.New(fault.Invalid, fault.CodeInvalidSpec, "%s: the cloud's catalog has no %s service in region %s", c.doing, c.service, id.region)
	}
	ctx, cancel := context.WithTimeout(withService(ctx, c.service), callTimeout)
	defer cancel()
	client, err := s.client(ctx, c, endpoint)
	if err == nil {
		err = fn(withMachine(ctx, c.machine), client)
	}
	return classify(c, err, s.creds.secrets())
}

// client is made for one call, with that call's microversion.
func (s *session) client(ctx context.Context, c call, endpoint string) (*gophercloud.ServiceClient, error) {
	client := &gophercloud.ServiceClient{ProviderClient: s.provider, Endpoint: endpoint, Type: string(c.service)}
	if c.version.wanted == "" {
		return client, nil
	}
	newest, err := s.versions.of(ctx, client)
	if err != nil {
		return nil, err
	}
	client.Microversion, err = c.version.settle(newest)
	return client, err
}

// serviceTypes are the names under which catalogs list a service.
var serviceTypes = map[service][]string{
	computeService: {"compute"},
	networkService: {"network"},
	imageService:   {"image"},
	volumeService:  {"block-storage", "block-store", "volumev3"},
}

// versionPath is what the URL of a service ends in; catalogs give it for some services and leave it out for others.
var versionPath = map[service]string{networkService: "v2.0/", imageService: "v2/"}

// computePath is what a compute URL without a version lacks. It is added only when there is none, since catalogs name v2 or
// v2.1, and some put the project behind it.
const computePath = "v2.1/"

// chooseEndpoints picks one URL per service. Without a region, the catalog must have one only.
func chooseEndpoints(t *token, c *Credentials) (*identity, error) {
	region, err := chooseRegion(t.Catalog, c.Region)
	if err != nil {
		return nil, err
	}
	want := c.Interface
	if want == "" {
		want = "public"
	}
	id := &identity{projectID: t.Project.ID, region: region, endpoints: map[service]string{}}
	for s, types := range serviceTypes {
		for _, entry := range t.Catalog {
			if slices.Contains(types, entry.Type) {
				if address := entry.address(region, want); address != "" {
					id.endpoints[s] = serviceURL(s, address)
				}
			}
		}
	}
	return id, nil
}

// address gives the service's URL in a region; empty when it has none.
func (e *catalogEntry) address(region, availability string) string {
	for _, endpoint := range e.Endpoints {
		if endpoint.Region == region && endpoint.Interface == availability {
			return endpoint.URL
		}
	}
	return ""
}

// chooseRegion checks the wanted region, or gives the only one that Nova is in.
func chooseRegion(catalog []catalogEntry, want string) (string, error) {
	var regions []string
	for _, entry := range catalog {
		for _, e := range entry.Endpoints {
			if entry.Type == string(computeService) && !slices.Contains(regions, e.Region) {
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

// serviceURL returns the URL of a service, with its version, for what the catalog says.
func serviceURL(s service, address string) string {
	endpoint := baseURL(address, versionPath[s])
	if s == computeService && !versioned.MatchString(endpoint) {
		return endpoint + computePath
	}
	return endpoint
}

// baseURL ends in a slash and in the version.
func baseURL(endpoint, version string) string {
	endpoint = strings.TrimRight(endpoint, "/") + "/"
	if !strings.HasSuffix(endpoint, "/"+version) && version != "" {
		endpoint += version
	}
	return endpoint
}
