package openstack

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
)

// defaultDomain is the one that every Keystone has.
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
	// roles by project ID.
	roles map[string][]string
}

type appCredential struct {
	ID, name, secret string
	user             *user
	project          *project
	roles            []string
	// expires is when it ends, and its tokens with it; zero: never.
	expires time.Time
}

type token struct {
	id, method      string
	user            *user
	project         *project
	roles           []string
	issued, expires time.Time
	// ends is when its application credential ends; zero: never.
	ends time.Time
}

// keystoneConfig is what varies among clouds.
type keystoneConfig struct {
	// Regions are the names in the catalog.
	Regions []string
	// TokenTTL is how long a token lives.
	TokenTTL time.Duration
	// UnversionedCompute leaves the version out of the compute URLs in the catalog.
	UnversionedCompute bool
}

// keystone is the identity service of a cloud.
type keystone struct {
	kernel *kernel
	cfg    keystoneConfig

	domains        []domain
	projects       table[*project]
	users          table[*user]
	appCredentials table[*appCredential]
	tokens         map[string]*token
}

// newKeystone returns an identity service without users.
func newKeystone(k *kernel, cfg keystoneConfig) *keystone { return &keystone{kernel: k, cfg: cfg} }

// SetRegions changes the names in the catalog.
func (svc *keystone) SetRegions(names []string) { svc.cfg.Regions = names }

func (svc *keystone) routes(rt *router) {
	rt.put(route{service: serviceIdentity, method: http.MethodPost, path: "/auth/tokens", open: true, handle: svc.issueToken}, "/identity/v3/auth/tokens")
	rt.add(serviceIdentity, http.MethodGet, "/auth/tokens", svc.showToken)
	rt.add(serviceIdentity, http.MethodHead, "/auth/tokens", svc.showToken)
	rt.add(serviceIdentity, http.MethodDelete, "/auth/tokens", svc.revokeToken)
	rt.add(serviceIdentity, http.MethodGet, "/auth/catalog", func(q *request) reply { return ok("catalog", svc.catalog(q, svc.own(q).project)) })
	rt.add(serviceIdentity, http.MethodGet, "/regions", svc.listRegions)
	rt.add(serviceIdentity, http.MethodGet, "/regions/{id}", svc.showRegion)
	rt.add(serviceIdentity, http.MethodPost, "/users/{user}/application_credentials", svc.createAppCredential)
	rt.add(serviceIdentity, http.MethodDelete, "/users/{user}/application_credentials/{id}", svc.deleteAppCredential)
}

// authorize finds the token of a call. It answers 401 when there is none that lives, and 403 to a project that may
// only read.
func (svc *keystone) authorize(q *request, rt route) (reply, bool) {
	if rt.open {
		return reply{}, false
	}
	t, known := svc.tokens[q.Header.Get("X-Auth-Token")]
	if !known || !q.now.Before(t.expires) {
		return q.unauthorized(), true
	}
	q.caller = t.caller()
	if q.service == serviceIdentity {
		return reply{}, false
	}
	if t.project == nil {
		return q.unauthorized(), true
	}
	if q.Method != http.MethodGet && !slices.ContainsFunc(t.roles, writes) {
		return forbiddenByPolicy(q, rt), true
	}
	return reply{}, false
}

func writes(role string) bool { return role == "member" || role == "admin" }

// novaPolicies are the rules that Nova names when it refuses; a call without one is refused all the same.
var novaPolicies = map[string]string{
	"POST /servers":               "os_compute_api:servers:create",
	"DELETE /servers/{id}":        "os_compute_api:servers:delete",
	"PUT /servers/{id}":           "os_compute_api:servers:update",
	"POST /os-server-groups":      "os_compute_api:os-server-groups:create",
	"POST /os-keypairs":           "os_compute_api:os-keypairs:create",
	"POST /servers/{id}/metadata": "os_compute_api:server-metadata:create",
}

func forbiddenByPolicy(q *request, rt route) reply {
	if q.service == serviceNetwork {
		kind := strings.TrimSuffix(split(rt.path)[0], "s")
		return neutronError(http.StatusForbidden, "PolicyNotAuthorized", "rule:create_%s is disallowed by policy", kind)
	}
	rule := novaPolicies[rt.method+" "+rt.path]
	if rule == "" {
		rule = "this action"
	}
	return q.refuse(http.StatusForbidden, "Policy doesn't allow %s to be performed.", rule)
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

func (svc *keystone) issueToken(q *request) reply {
	var in authRequest
	if err := json.Unmarshal(q.body, &in); err != nil {
		return keystoneError(http.StatusBadRequest, "Malformed authentication request: %s", err)
	}
	t, refused := svc.authenticate(q, &in)
	if refused.status != 0 {
		return refused
	}
	t.id = "gAAAAA" + strings.ReplaceAll(svc.kernel.newID()+svc.kernel.newID()+svc.kernel.newID(), "-", "")
	t.issued, t.expires = q.now, q.now.Add(svc.cfg.TokenTTL)
	if !t.ends.IsZero() && t.ends.Before(t.expires) {
		t.expires = t.ends
	}
	if svc.tokens == nil {
		svc.tokens = map[string]*token{}
	}
	maps.DeleteFunc(svc.tokens, func(_ string, old *token) bool { return !q.now.Before(old.expires) })
	svc.tokens[t.id] = t
	return reply{status: http.StatusCreated, body: object{{"token", svc.tokenView(q, t)}}}.with("X-Subject-Token", t.id)
}

func (svc *keystone) authenticate(q *request, in *authRequest) (*token, reply) {
	id := in.Auth.Identity
	if len(id.Methods) != 1 {
		return nil, keystoneError(http.StatusBadRequest, "Exactly one authentication method is supported, got %v.", id.Methods)
	}
	switch method := id.Methods[0]; {
	case method == "password" && id.Password != nil:
		u := svc.findUser(id.Password.User)
		if u == nil || u.password != id.Password.User.Password {
			return nil, unauthorized()
		}
		return svc.scope(&token{method: method, user: u}, in.Auth.Scope)
	case method == "token" && id.Token != nil:
		old, known := svc.tokens[id.Token.ID]
		if !known || !q.now.Before(old.expires) {
			return nil, unauthorized()
		}
		return svc.scope(&token{method: method, user: old.user}, in.Auth.Scope)
	case method == "application_credential" && id.AppCredential != nil:
		return svc.byAppCredential(q, in)
	default:
		return nil, unauthorized()
	}
}

// byAppCredential: one that is named by an ID that is not there is 404, a wrong secret 401; the scope is the
// credential's own.
func (svc *keystone) byAppCredential(q *request, in *authRequest) (*token, reply) {
	ref := in.Auth.Identity.AppCredential
	var found *appCredential
	if ref.ID != "" {
		found, _ = svc.appCredentials.get(ref.ID)
		if found == nil {
			return nil, keystoneError(http.StatusNotFound, "Could not find Application Credential: %s.", ref.ID)
		}
	} else if ref.User != nil {
		u := svc.findUser(*ref.User)
		for _, a := range svc.appCredentials.all() {
			if a.user == u && a.name == ref.Name {
				found = a
			}
		}
	}
	if found == nil || found.secret != ref.Secret || len(in.Auth.Scope) > 0 {
		return nil, unauthorized()
	}
	if !found.expires.IsZero() && !q.now.Before(found.expires) {
		return nil, unauthorized()
	}
	return &token{
		method: "application_credential", user: found.user, project: found.project, roles: found.roles, ends: found.expires,
	}, reply{}
}

// scope gives a token its project: the one asked for, else the user's default, else none.
func (svc *keystone) scope(t *token, raw json.RawMessage) (*token, reply) {
	t.project = t.user.defaultProject
	var asked struct {
		Project *projectRef `json:"project"`
		Domain  *domainRef  `json:"domain"`
	}
	if len(raw) > 0 && string(raw) != `"unscoped"` {
		if err := json.Unmarshal(raw, &asked); err != nil {
			return nil, keystoneError(http.StatusBadRequest, "Malformed scope: %s", err)
		}
	}
	switch {
	case asked.Domain != nil || string(raw) == `"unscoped"`:
		t.project = nil
	case asked.Project != nil:
		if t.project = svc.findProject(*asked.Project); t.project == nil {
			return nil, unauthorized()
		}
	}
	if t.project == nil {
		return t, reply{}
	}
	if t.roles = t.user.roles[t.project.ID]; len(t.roles) == 0 {
		return nil, unauthorized()
	}
	return t, reply{}
}

func (svc *keystone) findUser(ref userRef) *user {
	for _, u := range svc.users.all() {
		if ref.ID != "" && u.ID == ref.ID {
			return u
		}
		if ref.ID == "" && u.Name == ref.Name && u.domain.is(ref.Domain) {
			return u
		}
	}
	return nil
}

func (svc *keystone) findProject(ref projectRef) *project {
	for _, p := range svc.projects.all() {
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

func (d domain) view() object { return object{{"id", d.ID}, {"name", d.Name}} }

// caller returns the party that the token was issued to.
func (t *token) caller() caller {
	c := caller{user: t.user.ID}
	if t.project != nil {
		c.project, c.projectName = t.project.ID, t.project.Name
	}
	return c
}

// own returns the token that a call came with.
func (svc *keystone) own(q *request) *token { return svc.tokens[q.Header.Get("X-Auth-Token")] }

// end is how Keystone writes when a token ends: in another form when it is its application credential that ends.
func (t *token) end() string {
	if t.expires.Equal(t.ends) {
		return t.ends.UTC().Format("2006-01-02T15:04:05")
	}
	return t.expires.UTC().Format("2006-01-02T15:04:05.000000Z")
}

func (svc *keystone) tokenView(q *request, t *token) object {
	o := object{
		{"methods", []string{t.method}},
		{"user", object{{"id", t.user.ID}, {"name", t.user.Name}, {"domain", t.user.domain.view()}, {"password_expires_at", nil}}},
		{"audit_ids", []string{t.id[len(t.id)-16:]}},
		{"issued_at", t.issued.UTC().Format("2006-01-02T15:04:05.000000Z")},
		{"expires_at", t.end()},
	}
	if t.project == nil {
		return o
	}
	roles := make([]object, 0, len(t.roles))
	for _, r := range t.roles {
		roles = append(roles, object{{"id", "role-" + r}, {"name", r}})
	}
	return append(o,
		member{"project", object{{"id", t.project.ID}, {"name", t.project.Name}, {"domain", t.project.domain.view()}}},
		member{"is_domain", false}, member{"roles", roles}, member{"catalog", svc.catalog(q, t.project)})
}

// catalog lists every service once per region and interface.
func (svc *keystone) catalog(q *request, p *project) []object {
	if p == nil {
		return []object{}
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
	out := make([]object, 0, len(entries))
	for _, e := range entries {
		var endpoints []object
		for _, region := range svc.cfg.Regions {
			for _, face := range []string{"public", "internal", "admin"} {
				endpoints = append(endpoints, object{
					{"id", fmt.Sprintf("%s-%s-%s", e.name, region, face)}, {"interface", face},
					{"region", region}, {"region_id", region}, {"url", q.base + e.path},
				})
			}
		}
		out = append(out, object{{"id", "service-" + e.name}, {"type", e.kind}, {"name", e.name}, {"endpoints", endpoints}})
	}
	return out
}
