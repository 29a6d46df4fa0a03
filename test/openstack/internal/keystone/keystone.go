// Package keystone is the identity service of the simulated cloud: projects, users, application credentials, tokens and the
// catalog. It does not use any other service.
package keystone

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/drover-project/drover/test/openstack/internal/api"
	"github.com/drover-project/drover/test/openstack/internal/kernel"
	"github.com/drover-project/drover/test/openstack/internal/table"
	"github.com/drover-project/drover/test/openstack/internal/wire"
)

// defaultDomain is the domain that every Keystone has.
var defaultDomain = domain{ID: "default", Name: "Default"}

type domain struct{ ID, Name string }

type project struct {
	ID, Name string
	domain   domain
}

type user struct {
	ID, Name, password string
	domain             domain
	defaultProject     *project
	// roles holds the user's roles by project ID.
	roles map[string][]string
}

type appCredential struct {
	ID, name, secret string
	user             *user
	project          *project
	roles            []string
	// expires is when the credential and its tokens expire; zero means never.
	expires time.Time
	// rules are the only calls that the credential's tokens may make; nil means any call.
	rules []AccessRule
}

type token struct {
	id, method      string
	user            *user
	project         *project
	roles           []string
	issued, expires time.Time
	// credential is the application credential that the token was issued for; nil if the user signed in by another
	// method. ends is when the application credential expires; zero means never.
	credential *appCredential
	ends       time.Time
}

// Config holds the settings that vary among clouds.
type Config struct {
	// Regions are the names of the regions in the catalog.
	Regions []string
	// TokenTTL is the lifetime of a token.
	TokenTTL time.Duration
	// UnversionedCompute leaves the version out of the compute URLs in the catalog.
	UnversionedCompute bool
}

// Service is the identity service of a cloud.
type Service struct {
	kernel *kernel.Kernel
	cfg    Config

	domains        []domain
	projects       table.Table[*project]
	users          table.Table[*user]
	appCredentials table.Table[*appCredential]
	tokens         map[string]*token
}

// New returns an identity service without users.
func New(k *kernel.Kernel, cfg Config) *Service { return &Service{kernel: k, cfg: cfg} }

// SetRegions changes the names of the regions in the catalog.
func (svc *Service) SetRegions(names []string) { svc.cfg.Regions = names }

// Routes adds the calls that Keystone answers.
func (svc *Service) Routes(rt *api.Router) {
	rt.Put(api.Route{Service: api.ServiceIdentity, Method: http.MethodPost, Path: "/auth/tokens", Open: true, Handle: svc.issueToken}, "/identity/v3/auth/tokens")
	rt.Add(api.ServiceIdentity, http.MethodGet, "/auth/tokens", svc.showToken)
	rt.Add(api.ServiceIdentity, http.MethodHead, "/auth/tokens", svc.showToken)
	rt.Add(api.ServiceIdentity, http.MethodDelete, "/auth/tokens", svc.revokeToken)
	rt.Add(api.ServiceIdentity, http.MethodGet, "/auth/catalog", func(q *api.Request) api.Reply { return api.Ok("catalog", svc.catalog(q, svc.own(q).project)) })
	rt.Add(api.ServiceIdentity, http.MethodGet, "/regions", svc.listRegions)
	rt.Add(api.ServiceIdentity, http.MethodGet, "/regions/{id}", svc.showRegion)
	rt.Add(api.ServiceIdentity, http.MethodPost, "/users/{user}/application_credentials", svc.createAppCredential)
	rt.Add(api.ServiceIdentity, http.MethodDelete, "/users/{user}/application_credentials/{id}", svc.deleteAppCredential)
}

// Authorize finds the token of a call. It answers 401 when there is no valid token, and 403 to a caller that may only read.
func (svc *Service) Authorize(q *api.Request, rt api.Route) (api.Reply, bool) {
	if rt.Open {
		return api.Reply{}, false
	}
	t, known := svc.tokens[q.Header.Get("X-Auth-Token")]
	if !known || !q.Now.Before(t.expires) {
		return q.Unauthorized(), true
	}
	if !t.permits(q.Service, q.Method, q.URL.Path) {
		return q.Unauthorized(), true
	}
	q.Caller = t.caller()
	if q.Service == api.ServiceIdentity {
		return api.Reply{}, false
	}
	if t.project == nil {
		return q.Unauthorized(), true
	}
	if q.Method != http.MethodGet && !slices.ContainsFunc(t.roles, writes) {
		return forbiddenByPolicy(q, rt), true
	}
	return api.Reply{}, false
}

// permits reports whether the access rules of the token's application credential permit a call. As in the services' middleware, a call
// that they do not permit is answered as if the token were invalid.
func (t *token) permits(service, method, path string) bool {
	if t.credential == nil || t.credential.rules == nil {
		return true
	}
	return slices.ContainsFunc(t.credential.rules, func(r AccessRule) bool {
		return strings.HasPrefix(r.Service, service) && r.Method == method && r.matches(path)
	})
}

func writes(role string) bool { return role == "member" || role == "admin" }

// novaPolicies maps a call to the policy rule that Nova names when it refuses the call. When Nova refuses any other call,
// the answer names no rule.
var novaPolicies = map[string]string{
	"POST /servers":               "os_compute_api:servers:create",
	"DELETE /servers/{id}":        "os_compute_api:servers:delete",
	"PUT /servers/{id}":           "os_compute_api:servers:update",
	"POST /os-server-groups":      "os_compute_api:os-server-groups:create",
	"POST /os-keypairs":           "os_compute_api:os-keypairs:create",
	"POST /servers/{id}/metadata": "os_compute_api:server-metadata:create",
}

func forbiddenByPolicy(q *api.Request, rt api.Route) api.Reply {
	if q.Service == api.ServiceNetwork {
		kind := strings.TrimSuffix(api.Split(rt.Path)[0], "s")
		return api.NeutronError(http.StatusForbidden, "PolicyNotAuthorized", "rule:create_%s is disallowed by policy", kind)
	}
	rule := novaPolicies[rt.Method+" "+rt.Path]
	if rule == "" {
		rule = "this action"
	}
	return q.Refuse(http.StatusForbidden, "Policy doesn't allow %s to be performed.", rule)
}

type domainRef struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

type userRef struct {
	ID       string     `json:"id"`
	Name     string     `json:"name"`
	Password string     `json:"password"`
	Domain   *domainRef `json:"domain"`
}

type projectRef struct {
	ID     string     `json:"id"`
	Name   string     `json:"name"`
	Domain *domainRef `json:"domain"`
}

type authRequest struct {
	Auth struct {
		Identity struct {
			Methods  []string `json:"methods"`
			Password *struct {
				User userRef `json:"user"`
			} `json:"password"`
			Token *struct {
				ID string `json:"id"`
			} `json:"token"`
			AppCredential *struct {
				ID     string   `json:"id"`
				Name   string   `json:"name"`
				Secret string   `json:"secret"`
				User   *userRef `json:"user"`
			} `json:"application_credential"`
		} `json:"identity"`
		Scope json.RawMessage `json:"scope"`
	} `json:"auth"`
}

func (svc *Service) issueToken(q *api.Request) api.Reply {
	var in authRequest
	if err := json.Unmarshal(q.Body, &in); err != nil {
		return api.KeystoneError(http.StatusBadRequest, "Malformed authentication request: %s", err)
	}
	t, refused := svc.authenticate(q, &in)
	if refused.Status != 0 {
		return refused
	}
	t.id = "gAAAAA" + strings.ReplaceAll(svc.kernel.NewID()+svc.kernel.NewID()+svc.kernel.NewID(), "-", "")
	t.issued, t.expires = q.Now, q.Now.Add(svc.cfg.TokenTTL)
	if !t.ends.IsZero() && t.ends.Before(t.expires) {
		t.expires = t.ends
	}
	if svc.tokens == nil {
		svc.tokens = map[string]*token{}
	}
	maps.DeleteFunc(svc.tokens, func(_ string, old *token) bool { return !q.Now.Before(old.expires) })
	svc.tokens[t.id] = t
	return api.Reply{Status: http.StatusCreated, Body: wire.Object{{"token", svc.tokenView(q, t)}}}.With("X-Subject-Token", t.id)
}

func (svc *Service) authenticate(q *api.Request, in *authRequest) (*token, api.Reply) {
	id := in.Auth.Identity
	if len(id.Methods) != 1 {
		return nil, api.KeystoneError(http.StatusBadRequest, "Exactly one authentication method is supported, got %v.", id.Methods)
	}
	switch method := id.Methods[0]; {
	case method == "password" && id.Password != nil:
		u := svc.findUser(id.Password.User)
		if u == nil || u.password != id.Password.User.Password {
			return nil, api.Unauthorized()
		}
		return svc.scope(&token{method: method, user: u}, in.Auth.Scope)
	case method == "token" && id.Token != nil:
		old, known := svc.tokens[id.Token.ID]
		if !known || !q.Now.Before(old.expires) {
			return nil, api.Unauthorized()
		}
		return svc.scope(&token{method: method, user: old.user}, in.Auth.Scope)
	case method == "application_credential" && id.AppCredential != nil:
		return svc.byAppCredential(q, in)
	default:
		return nil, api.Unauthorized()
	}
}

// byAppCredential signs in with an application credential. It answers 404 to an unknown ID and 401 to a wrong secret. The token has
// the scope of the credential.
func (svc *Service) byAppCredential(q *api.Request, in *authRequest) (*token, api.Reply) {
	ref := in.Auth.Identity.AppCredential
	var found *appCredential
	if ref.ID != "" {
		found, _ = svc.appCredentials.Get(ref.ID)
		if found == nil {
			return nil, api.KeystoneError(http.StatusNotFound, "Could not find Application Credential: %s.", ref.ID)
		}
	} else if ref.User != nil {
		u := svc.findUser(*ref.User)
		for _, a := range svc.appCredentials.All() {
			if a.user == u && a.name == ref.Name {
				found = a
			}
		}
	}
	if found == nil || found.secret != ref.Secret || len(in.Auth.Scope) > 0 {
		return nil, api.Unauthorized()
	}
	if !found.expires.IsZero() && !q.Now.Before(found.expires) {
		return nil, api.Unauthorized()
	}
	return &token{
		method: "application_credential", user: found.user, project: found.project, roles: found.roles, credential: found, ends: found.expires,
	}, api.Reply{}
}

// scope sets the token's project: the requested project, or else the user's default project, or else none.
func (svc *Service) scope(t *token, raw json.RawMessage) (*token, api.Reply) {
	t.project = t.user.defaultProject
	var asked struct {
		Project *projectRef `json:"project"`
		Domain  *domainRef  `json:"domain"`
	}
	if len(raw) > 0 && string(raw) != `"unscoped"` {
		if err := json.Unmarshal(raw, &asked); err != nil {
			return nil, api.KeystoneError(http.StatusBadRequest, "Malformed scope: %s", err)
		}
	}
	switch {
	case asked.Domain != nil || string(raw) == `"unscoped"`:
		t.project = nil
	case asked.Project != nil:
		if t.project = svc.findProject(*asked.Project); t.project == nil {
			return nil, api.Unauthorized()
		}
	}
	if t.project == nil {
		return t, api.Reply{}
	}
	if t.roles = t.user.roles[t.project.ID]; len(t.roles) == 0 {
		return nil, api.Unauthorized()
	}
	return t, api.Reply{}
}

func (svc *Service) findUser(ref userRef) *user {
	for _, u := range svc.users.All() {
		if ref.ID != "" && u.ID == ref.ID {
			return u
		}
		if ref.ID == "" && u.Name == ref.Name && u.domain.is(ref.Domain) {
			return u
		}
	}
	return nil
}

func (svc *Service) findProject(ref projectRef) *project {
	for _, p := range svc.projects.All() {
		if ref.ID != "" && p.ID == ref.ID {
			return p
		}
		if ref.ID == "" && p.Name == ref.Name && p.domain.is(ref.Domain) {
			return p
		}
	}
	return nil
}

func (d domain) is(ref *domainRef) bool {
	return ref != nil && (ref.ID == d.ID || (ref.ID == "" && ref.Name == d.Name))
}

func (d domain) view() wire.Object { return wire.Object{{"id", d.ID}, {"name", d.Name}} }

// caller returns the party that the token was issued to.
func (t *token) caller() api.Caller {
	c := api.Caller{User: t.user.ID, Admin: slices.Contains(t.roles, "admin")}
	if t.project != nil {
		c.Project, c.ProjectName = t.project.ID, t.project.Name
	}
	return c
}

// own returns the token with which a call is made, from the header X-Auth-Token.
func (svc *Service) own(q *api.Request) *token { return svc.tokens[q.Header.Get("X-Auth-Token")] }

// end returns the expiry time of a token in Keystone's format. The format differs when the token expires together with its application
// credential.
func (t *token) end() string {
	if t.expires.Equal(t.ends) {
		return t.ends.UTC().Format("2006-01-02T15:04:05")
	}
	return t.expires.UTC().Format("2006-01-02T15:04:05.000000Z")
}

func (svc *Service) tokenView(q *api.Request, t *token) wire.Object {
	o := wire.Object{
		{"methods", []string{t.method}},
		{"user", wire.Object{{"id", t.user.ID}, {"name", t.user.Name}, {"domain", t.user.domain.view()}, {"password_expires_at", nil}}},
		{"audit_ids", []string{t.id[len(t.id)-16:]}},
		{"issued_at", t.issued.UTC().Format("2006-01-02T15:04:05.000000Z")},
		{"expires_at", t.end()},
	}
	if t.project == nil {
		return o
	}
	roles := make([]wire.Object, 0, len(t.roles))
	for _, r := range t.roles {
		roles = append(roles, wire.Object{{"id", "role-" + r}, {"name", r}})
	}
	return append(o,
		wire.Member{"project", wire.Object{{"id", t.project.ID}, {"name", t.project.Name}, {"domain", t.project.domain.view()}}},
		wire.Member{"is_domain", false}, wire.Member{"roles", roles}, wire.Member{"catalog", svc.catalog(q, t.project)})
}

// catalog lists every service once per region and interface.
func (svc *Service) catalog(q *api.Request, p *project) []wire.Object {
	if p == nil {
		return []wire.Object{}
	}
	entries := []struct{ kind, name, path string }{
		{"identity", "keystone", "/identity"},
		{"compute", "nova", "/compute/v2.1"},
		{"network", "neutron", "/network"},
		{"image", "glance", "/image"},
		{"volumev3", "cinderv3", "/volume/v3/" + p.ID},
	}
	if svc.cfg.UnversionedCompute {
		entries[1].path = "/compute"
	}
	out := make([]wire.Object, 0, len(entries))
	for _, e := range entries {
		var endpoints []wire.Object
		for _, region := range svc.cfg.Regions {
			for _, face := range []string{"public", "internal", "admin"} {
				endpoints = append(endpoints, wire.Object{
					{"id", fmt.Sprintf("%s-%s-%s", e.name, region, face)}, {"interface", face},
					{"region", region}, {"region_id", region}, {"url", q.Base + e.path},
				})
			}
		}
		out = append(out, wire.Object{{"id", "service-" + e.name}, {"type", e.kind}, {"name", e.name}, {"endpoints", endpoints}})
	}
	return out
}
