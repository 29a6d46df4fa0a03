package keystone

import (
	"net/http"
	"strings"

	"github.com/drover-project/drover/test/openstack/internal/api"
	"github.com/drover-project/drover/test/openstack/internal/wire"
)

// subject returns the token that a call shows or revokes, from the header X-Subject-Token.
func (svc *Service) subject(q *api.Request) (*token, bool) {
	t, known := svc.tokens[q.Header.Get("X-Subject-Token")]
	return t, known && q.Now.Before(t.expires)
}

func (svc *Service) showToken(q *api.Request) api.Reply {
	t, known := svc.subject(q)
	if !known {
		return api.KeystoneError(http.StatusNotFound, "Could not find token.")
	}
	return api.Ok("token", svc.tokenView(q, t)).With("X-Subject-Token", t.id)
}

func (svc *Service) revokeToken(q *api.Request) api.Reply {
	t, known := svc.subject(q)
	if !known {
		return api.KeystoneError(http.StatusNotFound, "Could not find token.")
	}
	delete(svc.tokens, t.id)
	return api.Empty(http.StatusNoContent)
}

// RevokeTokens invalidates every token issued so far.
func (svc *Service) RevokeTokens() {
	svc.tokens = nil
}

func regionView(q *api.Request, name string) wire.Object {
	return wire.Object{
		{"id", name}, {"description", ""}, {"parent_region_id", nil},
		{"links", wire.Object{{"self", q.Base + "/identity/v3/regions/" + name}}},
	}
}

func (svc *Service) listRegions(q *api.Request) api.Reply {
	list := make([]wire.Object, 0, len(svc.cfg.Regions))
	for _, r := range svc.cfg.Regions {
		list = append(list, regionView(q, r))
	}
	links := wire.Object{{"self", q.Base + "/identity/v3/regions"}, {"previous", nil}, {"next", nil}}
	return api.Reply{Status: http.StatusOK, Body: wire.Object{{"regions", list}, {"links", links}}}
}

func (svc *Service) showRegion(q *api.Request) api.Reply {
	for _, r := range svc.cfg.Regions {
		if r == q.PathValue("id") {
			return api.Ok("region", regionView(q, r))
		}
	}
	return api.KeystoneError(http.StatusNotFound, "Could not find region: %s.", q.PathValue("id"))
}

func (svc *Service) createAppCredential(q *api.Request) api.Reply {
	var in struct {
		Credential struct {
			Name         string        `json:"name"`
			Secret       string        `json:"secret"`
			Description  string        `json:"description"`
			ExpiresAt    string        `json:"expires_at"`
			Roles        []wire.Object `json:"-"`
			Unrestricted bool          `json:"unrestricted"`
			Rules        []AccessRule  `json:"access_rules"`
		} `json:"application_credential"`
	}
	if bad, decoded := q.Decode(&in); !decoded {
		return bad
	}
	own := svc.own(q)
	if own.user.ID != q.PathValue("user") || own.project == nil || own.method == "application_credential" {
		return api.KeystoneError(http.StatusForbidden, "You are not authorized to perform the requested action: identity:create_application_credential.")
	}
	a := &appCredential{
		ID: strings.ReplaceAll(svc.kernel.NewID(), "-", ""), name: in.Credential.Name, secret: in.Credential.Secret,
		user: own.user, project: own.project, roles: own.roles, rules: in.Credential.Rules,
	}
	var ends any
	if text := in.Credential.ExpiresAt; text != "" {
		t, valid := wire.ParseISO(strings.TrimSuffix(text, "Z"))
		if !valid {
			return api.KeystoneError(http.StatusBadRequest, "Invalid input for field 'expires_at': %s", text)
		}
		a.expires, ends = t, t.Format("2006-01-02T15:04:05.000000")
	}
	if a.secret == "" {
		a.secret = svc.kernel.NewID()
	}
	svc.appCredentials.Put(a.ID, a)
	return api.Reply{Status: http.StatusCreated, Body: wire.Object{{"application_credential", wire.Object{
		{"id", a.ID}, {"name", a.name}, {"secret", a.secret}, {"project_id", a.project.ID},
		{"description", in.Credential.Description}, {"expires_at", ends}, {"unrestricted", in.Credential.Unrestricted},
	}}}}
}

func (svc *Service) deleteAppCredential(q *api.Request) api.Reply {
	a, known := svc.appCredentials.Get(q.PathValue("id"))
	if !known || a.user.ID != q.PathValue("user") {
		return api.KeystoneError(http.StatusNotFound, "Could not find Application Credential: %s.", q.PathValue("id"))
	}
	svc.removeAppCredential(a)
	return api.Empty(http.StatusNoContent)
}

// RevokeAppCredential deletes an application credential and the tokens that were issued for it. An unknown ID changes nothing.
func (svc *Service) RevokeAppCredential(id string) {
	if a, known := svc.appCredentials.Get(id); known {
		svc.removeAppCredential(a)
	}
}

// removeAppCredential deletes an application credential and every token that was issued for it. The caller holds the lock.
func (svc *Service) removeAppCredential(a *appCredential) {
	svc.appCredentials.Remove(a.ID)
	for id, t := range svc.tokens {
		if t.credential == a {
			delete(svc.tokens, id)
		}
	}
}
