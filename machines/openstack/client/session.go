package client

import (
	"cmp"
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
	// callTimeout is the deadline of every call.
	callTimeout = 60 * time.Second
	// SignInAgain is the time until a refused sign-in is retried. Without this delay, a wrong password could lock the user out.
	SignInAgain = 30 * time.Second
	// tokenUse is the fraction of a token's lifetime after which the token is renewed.
	tokenUse = 0.9
)

// Session is one set of credentials at one cloud. It has one token, which all users of these credentials share.
type Session struct {
	creds    Credentials
	clock    clock.Clock
	provider *gophercloud.ProviderClient
	versions *versions
	unknown  *unknownTexts
	flight   singleflight.Group

	mu      sync.Mutex
	scope   *Scope
	token   string
	renewAt time.Time
	// failed is the error of the last sign-in or renewal of the token; nil when it succeeded. While failed is set, there is no
	// sign-in before retryAt.
	failed  error
	retryAt time.Time
	// refused is true when the renewal failed and the cloud refuses the current token, so that no call can be made before retryAt.
	refused bool
	// moved is the error while Keystone issues tokens for another project than that in scope; nil otherwise. No call is made while
	// moved is set.
	moved error
}

func newSession(creds Credentials, client http.Client, v *versions, u *unknownTexts, c clock.Clock) (*Session, error) {
	provider, err := openstack.NewClient(creds.IdentityEndpoint)
	if err != nil {
		return nil, fault.New(fault.Invalid, fault.CodeInvalidSpec, "identityEndpoint: %s", creds.conceal(err.Error()))
	}
	client.Transport = &uncured{next: client.Transport, clock: c, refused: map[refusedKind]refusedToken{}}
	provider.HTTPClient = client
	provider.UserAgent.Prepend(version.UserAgent())
	s := &Session{creds: creds, clock: c, provider: provider, versions: v, unknown: u}
	if creds.Method() != ByToken {
		provider.ReauthFunc = s.signIn
	}
	return s, nil
}

// Scope signs in if the session has not done so yet, and returns the result from memory afterwards. Concurrent callers share one
// sign-in. After a refusal, Scope returns the same error for the time SignInAgain, without another sign-in.
func (s *Session) Scope(ctx context.Context) (*Scope, error) {
	if scope, err := s.ready(); scope != nil || err != nil {
		return scope, err
	}
	_, err, _ := s.flight.Do("sign in", func() (any, error) {
		if scope, _ := s.ready(); scope != nil {
			return nil, nil
		}
		return nil, s.signIn(ctx)
	})
	if err != nil {
		return nil, err
	}
	return s.ready()
}

// ready returns the scope when calls can be made, the error of the last sign-in while no other may be tried, and otherwise neither.
func (s *Session) ready() (*Scope, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.scope != nil && !s.refused {
		return s.scope, nil
	}
	if s.waiting() {
		return nil, s.lastFailure()
	}
	return s.scope, nil
}

// waiting reports whether the last sign-in failed, and no other may be tried yet. mu must be held.
func (s *Session) waiting() bool { return s.failed != nil && s.clock.Now().Before(s.retryAt) }

// Method returns the way in which the session signs in.
func (s *Session) Method() Method { return s.creds.Method() }

// IdentityEndpoint returns the URL of the session's Keystone.
func (s *Session) IdentityEndpoint() string { return s.creds.IdentityEndpoint }

// Known returns the scope without making a call. The scope is nil before the first sign-in. The error explains why the last
// sign-in failed, why a refused token could not be renewed, or that the credentials are now for another project than that in the
// scope.
func (s *Session) Known() (*Scope, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.moved != nil {
		return s.scope, s.moved
	}
	if s.scope == nil || s.refused {
		return s.scope, s.lastFailure()
	}
	return s.scope, nil
}

// lastFailure returns why the last sign-in failed; nil when it succeeded. When Keystone asked for a pause, the error has the
// remaining time. mu must be held.
func (s *Session) lastFailure() error {
	e := fault.Of(s.failed)
	if e == nil || e.RetryAfter == 0 {
		return s.failed
	}
	left := *e
	left.RetryAfter = max(s.retryAt.Sub(s.clock.Now()), 0)
	return &left
}

// signIn gets a new token: the first one, or one in place of a token that expires or was refused. After a failure it returns the same
// error until retryAt, and asks Keystone for no token before that time.
func (s *Session) signIn(ctx context.Context) error {
	s.mu.Lock()
	failed, waiting := s.lastFailure(), s.waiting()
	s.mu.Unlock()
	if waiting {
		return failed
	}
	ctx, cancel := context.WithTimeout(withService(ctx, Identity), callTimeout)
	defer cancel()
	err := s.explain(ctx, s.signingIn(), s.replaceToken(ctx))
	s.signedIn(err)
	return err
}

// signedIn records the result of a sign-in, and when the next sign-in may be tried. When the request was not sent, because it had
// to wait for its turn, the next sign-in may be tried as soon as that turn comes.
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

// signingIn describes the sign-in call.
func (s *Session) signingIn() Call {
	return Call{Service: Identity, Doing: "signing in at " + s.creds.IdentityEndpoint + " " + s.creds.describe()}
}

// replaceToken gets a new token, and uses it if it is for the project of the scope.
func (s *Session) replaceToken(ctx context.Context) error {
	started := s.clock.Now()
	fresh := &gophercloud.ProviderClient{
		IdentityBase: s.provider.IdentityBase, IdentityEndpoint: s.provider.IdentityEndpoint,
		HTTPClient: s.provider.HTTPClient, UserAgent: s.provider.UserAgent,
	}
	options := authOptions(&s.creds)
	if err := openstack.AuthenticateV3(ctx, fresh, &options, gophercloud.EndpointOpts{}); err != nil {
		return err
	}
	result, ok := fresh.GetAuthResult().(interface{ ExtractInto(any) error })
	if !ok {
		return fault.New(fault.Unknown, fault.CodeUnknown, "the response has no token")
	}
	var t token
	if err := result.ExtractInto(&t); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	scope, err := s.scopeOf(&t)
	if err != nil {
		return err
	}
	s.provider.CopyTokenFrom(fresh)
	// The time of the renewal is on drover's clock, and computed from the token's lifetime.
	life := t.Expires.Sub(t.Issued.Time)
	s.scope, s.token, s.renewAt = scope, fresh.Token(), started.Add(time.Duration(float64(life)*tokenUse))
	return nil
}

// scopeOf returns the scope of a new token; mu must be held. The credentials may name the project by a name that belongs to another
// project now, without the resources of the old project. A token for another project is not used, and no call is made until a renewal
// returns a token for the right project. The region stays that of the first token.
func (s *Session) scopeOf(t *token) (*Scope, error) {
	s.moved = nil
	switch {
	case s.scope == nil && t.Project.ID == "":
		return nil, fault.New(fault.Auth, fault.CodeForbidden, "the token has no project; set the project in the credentials")
	case s.scope == nil:
		return chooseEndpoints(t, &s.creds)
	case t.Project.ID != s.scope.ProjectID:
		moved := fault.New(fault.Auth, fault.CodeForbidden,
			"the credentials are now for project %s (%s), and were for project %s (%s) before; correct the credentials or the project's name, or restart drover to use the other project",
			t.Project.ID, t.Project.Name, s.scope.ProjectID, s.scope.ProjectName)
		s.moved = classify(s.signingIn(), moved, &s.creds)
		return nil, moved
	}
	return s.withCatalog(t), nil
}

// withCatalog returns the scope with the URLs in the catalog of a new token, because a service may have moved or be new; mu must be held. A
// service that the catalog lacks keeps its URL, and a catalog that cannot be used changes nothing.
func (s *Session) withCatalog(t *token) *Scope {
	creds := s.creds
	creds.Region = cmp.Or(creds.Region, s.scope.Region)
	next, err := chooseEndpoints(t, &creds)
	if err != nil {
		return s.scope
	}
	for service, url := range s.scope.endpoints {
		next.endpoints[service] = cmp.Or(next.endpoints[service], url)
	}
	return next
}

// renew gets a new token before the current token expires, or when the last new token was for another project. When the renewal
// fails, the current token stays in use for as long as the cloud accepts it. It returns an error while the credentials are for another
// project than before.
func (s *Session) renew(ctx context.Context) error {
	s.mu.Lock()
	due, old := s.moved != nil || !s.clock.Now().Before(s.renewAt), s.token
	s.mu.Unlock()
	if due {
		_ = s.provider.Reauthenticate(ctx, old)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.moved
}

// Do makes one call, or one paged list, with a token and a deadline of one minute. Its error has a class of package fault. After a
// 401 it retries once with a new token, unless a new token has not helped for this kind of request lately (see uncured). It makes no
// call while the credentials are for another project than before.
func (s *Session) Do(ctx context.Context, c Call, fn func(ctx context.Context, api *gophercloud.ServiceClient) error) error {
	scope, err := s.Scope(ctx)
	if err != nil {
		return err
	}
	if err := s.renew(ctx); err != nil {
		return err
	}
	endpoint := scope.Endpoint(c.Service)
	if endpoint == "" {
		return classify(c, s.creds.missing(c.Service, scope.Region), &s.creds)
	}
	ctx, cancel := context.WithTimeout(withService(ctx, c.Service), callTimeout)
	defer cancel()
	api, err := s.client(ctx, c, endpoint)
	if err == nil {
		err = fn(withCaller(ctx, c.By), api)
	}
	s.seeRefusal(err)
	return s.explain(ctx, c, err)
}

// seeRefusal checks whether err means that the cloud refused the token and the token could not be renewed. If so, it records that
// no call can be made with the token.
func (s *Session) seeRefusal(err error) {
	var again *gophercloud.ErrUnableToReauthenticate
	if !errors.As(err, &again) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused = s.failed != nil
}

// client returns a client for one call, which sends that call's microversion.
func (s *Session) client(ctx context.Context, c Call, endpoint string) (*gophercloud.ServiceClient, error) {
	client := &gophercloud.ServiceClient{ProviderClient: s.provider, Endpoint: endpoint, Type: string(c.Service)}
	if c.Version.wanted == "" {
		return client, nil
	}
	newest, err := s.versions.lookUp(ctx, client)
	if err != nil {
		return nil, err
	}
	client.Microversion, err = c.Version.settle(newest)
	return client, err
}
