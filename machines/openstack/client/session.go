package client

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"golang.org/x/sync/singleflight"
	"k8s.io/utils/clock"

	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/version"
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
	scope   *Scope
	token   string
	renewAt time.Time
	// failed is why the last sign-in failed, the first one or a renewal; nil: it did not. Nobody signs in before retryAt then.
	failed  error
	retryAt time.Time
	// refused: the token that there is is refused, too, so that no call can be made before retryAt.
	refused bool
	// moved is set while Keystone answers the renewal with a token for another project than the scope's. No call is made then.
	moved error
}

func newSession(creds Credentials, client http.Client, v *versions, c clock.Clock) (*Session, error) {
	provider, err := openstack.NewClient(creds.IdentityEndpoint)
	if err != nil {
		return nil, fault.New(fault.Invalid, fault.CodeInvalidSpec, "identityEndpoint: %s", creds.conceal(err.Error()))
	}
	provider.HTTPClient = client
	provider.UserAgent.Prepend(version.UserAgent())
	return &Session{creds: creds, clock: c, provider: provider, versions: v}, nil
}

// Scope signs in when nobody has yet, and costs nothing afterwards. Callers at the same time share one sign-in, and a refusal
// stands for SignInAgain.
func (s *Session) Scope(ctx context.Context) (*Scope, error) {
	s.mu.Lock()
	scope, refusal := s.scope, s.standing()
	usable := scope != nil && !s.refused
	waiting := refusal != nil && s.clock.Now().Before(s.retryAt)
	s.mu.Unlock()
	switch {
	case usable:
		return scope, nil
	case waiting:
		return nil, refusal
	case scope != nil:
		return scope, nil
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

// Known returns the scope without any call. It is nil while nobody has signed in; the error is why the last sign-in, or the
// renewal of a token that is refused, failed, or that the credentials are for another project than the scope's by now.
func (s *Session) Known() (*Scope, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.moved != nil {
		return s.scope, s.moved
	}
	if s.scope == nil || s.refused {
		return s.scope, s.standing()
	}
	return s.scope, nil
}

// standing returns why the last sign-in failed; nil when it did not. When Keystone asked for patience, the error says how much of
// it is left. The lock is held.
func (s *Session) standing() error {
	e := fault.Of(s.failed)
	if e == nil || e.RetryAfter == 0 {
		return s.failed
	}
	left := *e
	left.RetryAfter = max(s.retryAt.Sub(s.clock.Now()), 0)
	return &left
}

func (s *Session) signIn(ctx context.Context) (*Scope, error) {
	s.mu.Lock()
	scope := s.scope
	s.mu.Unlock()
	if scope != nil {
		return scope, nil
	}
	ctx, cancel := context.WithTimeout(withService(ctx, Identity), callTimeout)
	defer cancel()
	scope, err := s.authenticate(ctx, s.clock.Now())
	s.signedIn(err)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scope = scope
	return scope, nil
}

// signedIn records how a sign-in ended, and when the next one may be tried. A cloud that was not asked at all, because the
// line before it was long, is asked again as soon as there is a turn.
func (s *Session) signedIn(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed = err
	if err == nil {
		s.refused = false
		return
	}
	e := fault.Of(err)
	wait := max(SignInAgain, e.RetryAfter)
	if e.Code == fault.CodeWaitingForTurn {
		wait = e.RetryAfter
	}
	s.retryAt = s.clock.Now().Add(wait)
}

// signingIn describes the call that signs in.
func (s *Session) signingIn() Call {
	return Call{Service: Identity, Doing: "signing in at " + s.creds.IdentityEndpoint + " " + s.creds.who()}
}

func (s *Session) authenticate(ctx context.Context, started time.Time) (*Scope, error) {
	options := authOptions(&s.creds)
	if err := openstack.AuthenticateV3(ctx, s.provider, &options, gophercloud.EndpointOpts{}); err != nil {
		return nil, classify(s.signingIn(), err, &s.creds)
	}
	if s.provider.ReauthFunc != nil {
		s.provider.ReauthFunc = s.reauthenticate
	}
	t, err := readToken(s.provider)
	if err != nil {
		return nil, classify(s.signingIn(), err, &s.creds)
	}
	if t.Project.ID == "" {
		return nil, classify(s.signingIn(), fault.New(fault.Auth, fault.CodeForbidden, "the token is for no project; name one"), &s.creds)
	}
	s.use(t, started)
	scope, err := chooseEndpoints(t, &s.creds)
	return scope, classify(s.signingIn(), err, &s.creds)
}

// reauthenticate gets a new token. A failure stands for SignInAgain, as that of the first sign-in does: until then nobody else
// asks for a token with these credentials.
func (s *Session) reauthenticate(ctx context.Context) error {
	s.mu.Lock()
	failed, waiting := s.standing(), s.clock.Now().Before(s.retryAt)
	s.mu.Unlock()
	if failed != nil && waiting {
		return failed
	}
	err := classify(s.signingIn(), s.replaceToken(withService(ctx, Identity)), &s.creds)
	s.signedIn(err)
	return err
}

// replaceToken gets a new token and uses it when it is for the project of the scope. A project's name may belong to another project
// by now, where nothing of the first one is found: a token for that one is not used, and no call is made until a renewal gets one
// for the right project.
func (s *Session) replaceToken(ctx context.Context) error {
	started := s.clock.Now()
	fresh := &gophercloud.ProviderClient{
		IdentityBase: s.provider.IdentityBase, IdentityEndpoint: s.provider.IdentityEndpoint,
		HTTPClient: s.provider.HTTPClient, UserAgent: s.provider.UserAgent,
	}
	options := authOptions(&s.creds)
	options.AllowReauth = false
	if err := openstack.AuthenticateV3(ctx, fresh, &options, gophercloud.EndpointOpts{}); err != nil {
		return err
	}
	t, err := readToken(fresh)
	if err != nil {
		return err
	}
	if err := s.checkProject(t); err != nil {
		return err
	}
	if err := s.provider.SetTokenAndAuthResult(fresh.GetAuthResult()); err != nil {
		return err
	}
	s.use(t, started)
	return nil
}

// checkProject returns an error when a new token is for another project than the scope, and remembers it until one is not.
func (s *Session) checkProject(t *token) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.moved = nil
	if s.scope == nil || t.Project.ID == s.scope.ProjectID {
		return nil
	}
	moved := fault.New(fault.Auth, fault.CodeForbidden,
		"the credentials are for project %s (%s) by now, and were for project %s (%s) before; correct the credentials or the project's name, or restart drover to use the other project",
		t.Project.ID, t.Project.Name, s.scope.ProjectID, s.scope.ProjectName)
	s.moved = classify(s.signingIn(), moved, &s.creds)
	return moved
}

// hasMoved returns why no call may be made: the credentials are for another project by now. nil: they are not.
func (s *Session) hasMoved() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.moved
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

// readToken returns the token in the last answer of Keystone.
func readToken(from *gophercloud.ProviderClient) (*token, error) {
	var t token
	result, ok := from.GetAuthResult().(interface{ ExtractInto(any) error })
	if !ok {
		return nil, fault.New(fault.Unknown, fault.CodeUnknown, "the answer holds no token")
	}
	return &t, result.ExtractInto(&t)
}

// use remembers the provider's token, and sets the time of its renewal: on our clock, for the token's own length.
func (s *Session) use(t *token, started time.Time) {
	life := t.Expires.Sub(t.Issued.Time)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.token = s.provider.Token()
	s.renewAt = started.Add(time.Duration(float64(life) * tokenUse))
}

// renew gets a new token before the old one ends, or when the last one was for another project. When that fails the old one is used as
// long as the cloud takes it.
func (s *Session) renew(ctx context.Context) {
	s.mu.Lock()
	now, old := s.clock.Now(), s.token
	early := now.Before(s.renewAt) && s.moved == nil
	waiting := s.failed != nil && now.Before(s.retryAt)
	s.mu.Unlock()
	if early || waiting || s.creds.Method() == ByToken {
		return
	}
	_, _, _ = s.flight.Do("renew", func() (any, error) { return nil, s.provider.Reauthenticate(withService(ctx, Identity), old) })
}

// Do makes one call, or one paged list, with a token and a deadline of a minute. Its error has a class of package fault. After a
// 401 it tries once more with a new token. It makes no call while the credentials are for another project than before.
func (s *Session) Do(ctx context.Context, c Call, fn func(ctx context.Context, api *gophercloud.ServiceClient) error) error {
	scope, err := s.Scope(ctx)
	if err != nil {
		return err
	}
	s.renew(ctx)
	if err := s.hasMoved(); err != nil {
		return err
	}
	endpoint := scope.Endpoint(c.Service)
	if endpoint == "" {
		return classify(c, fault.New(fault.Invalid, fault.CodeInvalidSpec, "the cloud's catalog has no %s service in region %s", c.Service, scope.Region), &s.creds)
	}
	ctx, cancel := context.WithTimeout(withService(ctx, c.Service), callTimeout)
	defer cancel()
	if c.Pages {
		ctx = withPage(ctx)
	}
	api, err := s.client(ctx, c, endpoint)
	if err == nil {
		err = fn(withMachine(ctx, c.Machine), api)
	}
	s.seeRefusal(err)
	return classify(c, err, &s.creds)
}

// seeRefusal remembers that the token was refused and could not be renewed: no call can be made with it.
func (s *Session) seeRefusal(err error) {
	var again *gophercloud.ErrUnableToReauthenticate
	if !errors.As(err, &again) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused = s.failed != nil
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
