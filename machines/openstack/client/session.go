package client

import (
	"context"
	"net/http"
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
	// SignInAgain is how long a refused sign-in stands before it is tried again: a wrong password must not lock the user.
	SignInAgain = 30 * time.Second
	// tokenUse is the part of a token's life after which it is renewed.
	tokenUse = 0.9
)

// Session is one set of credentials at one cloud. It has one token, which everybody shares who uses these credentials.
type Session struct {
	creds    Credentials
	clock    clock.Clock
	provider *gophercloud.ProviderClient
	versions *versions
	flight   singleflight.Group

	mu      sync.Mutex
	id      *Scope
	token   string
	renewAt time.Time
	refused error
	retryAt time.Time
}

func newSession(creds Credentials, client http.Client, v *versions, c clock.Clock) (*Session, error) {
	provider, err := openstack.NewClient(creds.IdentityEndpoint)
	if err != nil {
		return nil, fault.New(fault.Invalid, fault.CodeInvalidSpec, "identityEndpoint: %v", err)
	}
	provider.HTTPClient = client
	provider.UserAgent.Prepend("drover")
	return &Session{creds: creds, clock: c, provider: provider, versions: v}, nil
}

// Scope signs in when nobody has yet, and costs nothing afterwards. Callers at the same time share one sign-in, and a refusal
// stands for SignInAgain.
func (s *Session) Scope(ctx context.Context) (*Scope, error) {
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
	return got.(*Scope), nil
}

// Method returns the way in which the session signs in.
func (s *Session) Method() Method { return s.creds.Method() }

// IdentityEndpoint returns the URL of the session's Keystone.
func (s *Session) IdentityEndpoint() string { return s.creds.IdentityEndpoint }

// Known returns the scope without any call. It is nil while nobody has signed in; the error is the last refusal.
func (s *Session) Known() (*Scope, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.id, s.refused
}

func (s *Session) signIn(ctx context.Context) (*Scope, error) {
	if id, _ := s.Known(); id != nil {
		return id, nil
	}
	ctx, cancel := context.WithTimeout(withService(ctx, Identity), callTimeout)
	defer cancel()
	started := s.clock.Now()
	id, err := s.authenticate(ctx, started)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.id, s.refused = id, err
	if err != nil {
		s.retryAt = s.clock.Now().Add(max(SignInAgain, fault.Of(err).RetryAfter))
		return nil, err
	}
	return id, nil
}

func (s *Session) authenticate(ctx context.Context, started time.Time) (*Scope, error) {
	asking := Call{Service: Identity, Doing: "signing in at " + s.creds.IdentityEndpoint + " " + s.creds.who()}
	options := authOptions(&s.creds)
	if err := openstack.AuthenticateV3(ctx, s.provider, &options, gophercloud.EndpointOpts{}); err != nil {
		return nil, classify(asking, err, s.creds.secrets())
	}
	t, err := s.readToken(started)
	if err != nil {
		return nil, classify(asking, err, s.creds.secrets())
	}
	if t.Project.ID == "" {
		return nil, fault.New(fault.Auth, fault.CodeForbidden, "%s: the token is for no project; name one", asking.Doing)
	}
	return chooseEndpoints(t, &s.creds)
}

// authOptions puts the credentials into the client library's form. A user's domain defaults to the one with ID default.
func authOptions(c *Credentials) gophercloud.AuthOptions {
	o := gophercloud.AuthOptions{IdentityEndpoint: c.IdentityEndpoint, AllowReauth: true}
	userDomain := func() {
		o.DomainID, o.DomainName = domain(c.UserDomainID, c.UserDomainName, c.DomainID, c.DomainName)
	}
	switch c.Method() {
	case ByApplicationCredential:
		o.ApplicationCredentialID, o.ApplicationCredentialSecret = c.ApplicationCredentialID, c.ApplicationCredentialSecret
		if c.ApplicationCredentialID == "" {
			o.ApplicationCredentialName, o.Username = c.ApplicationCredentialName, c.Username
			userDomain()
		}
	case ByPassword:
		o.Username, o.Password = c.Username, c.Password
		userDomain()
		o.Scope = &gophercloud.AuthScope{ProjectID: c.ProjectID}
		if c.ProjectID == "" {
			o.Scope.ProjectName = c.ProjectName
			o.Scope.DomainID, o.Scope.DomainName = domain(c.ProjectDomainID, c.ProjectDomainName, c.DomainID, c.DomainName)
		}
	case ByToken:
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

// readToken takes the last answer of Keystone, and sets the time of renewal: on our clock, for the token's own length.
func (s *Session) readToken(started time.Time) (*token, error) {
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
func (s *Session) renew(ctx context.Context) {
	s.mu.Lock()
	now, due, old := s.clock.Now(), s.renewAt, s.token
	s.mu.Unlock()
	if now.Before(due) || s.creds.Method() == ByToken {
		return
	}
	_, _, _ = s.flight.Do("renew", func() (any, error) {
		err := s.provider.Reauthenticate(withService(ctx, Identity), old)
		if err == nil {
			_, err = s.readToken(now)
		}
		if err != nil {
			s.mu.Lock()
			s.renewAt = now.Add(SignInAgain)
			s.mu.Unlock()
		}
		return nil, err
	})
}

// Do makes one call, or one paged list, with a token and a deadline of a minute. Its error has a class of package fault. After a
// 401 it tries once more with a new token.
func (s *Session) Do(ctx context.Context, c Call, fn func(ctx context.Context, client *gophercloud.ServiceClient) error) error {
	id, err := s.Scope(ctx)
	if err != nil {
		return err
	}
	s.renew(ctx)
	endpoint := id.endpoints[c.Service]
	if endpoint == "" {
		return fault.New(fault.Invalid, fault.CodeInvalidSpec, "%s: the cloud's catalog has no %s service in region %s", c.Doing, c.Service, id.Region)
	}
	ctx, cancel := context.WithTimeout(withService(ctx, c.Service), callTimeout)
	defer cancel()
	client, err := s.client(ctx, c, endpoint)
	if err == nil {
		err = fn(ctx, client)
	}
	return classify(c, err, s.creds.secrets())
}

// client is made for one call, with that call's microversion.
func (s *Session) client(ctx context.Context, c Call, endpoint string) (*gophercloud.ServiceClient, error) {
	client := &gophercloud.ServiceClient{ProviderClient: s.provider, Endpoint: endpoint, Type: string(c.Service)}
	if c.Version.wanted == "" {
		return client, nil
	}
	newest, err := s.versions.of(ctx, client)
	if err != nil {
		return nil, err
	}
	client.Microversion, err = c.Version.settle(newest)
	return client, err
}
