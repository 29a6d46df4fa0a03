package openstack

import (
	"net/http"
	"strings"
)

// subject is the token that a call is about.
func (svc *keystone) subject(q *request) (*token, bool) {
	t, known := svc.tokens[q.Header.Get("X-Subject-Token")]
	return t, known && q.now.Before(t.expires)
}

func (svc *keystone) showToken(q *request) reply {
	t, known := svc.subject(q)
	if !known {
		return keystoneError(http.StatusNotFound, "Could not find token.")
	}
	return ok("token", svc.tokenView(q, t)).with("X-Subject-Token", t.id)
}

func (svc *keystone) revokeToken(q *request) reply {
	t, known := svc.subject(q)
	if !known {
		return keystoneError(http.StatusNotFound, "Could not find token.")
	}
	delete(svc.tokens, t.id)
	return empty(http.StatusNoContent)
}

// RevokeTokens makes every token that was given out so far invalid.
func (svc *keystone) RevokeTokens() {
	svc.tokens = nil
}

func regionView(q *request, name string) object {
	return object{
		{"id", name}, {"description", ""}, {"parent_region_id", nil},
		{"links", object{{"self", q.base + "/identity/v3/regions/" + name}}},
	}
}

func (svc *keystone) listRegions(q *request) reply {
	list := make([]object, 0, len(svc.cfg.Regions))
	for _, r := range svc.cfg.Regions {
		list = append(list, regionView(q, r))
	}
	links := object{{"self", q.base + "/identity/v3/regions"}, {"previous", nil}, {"next", nil}}
	return reply{status: http.StatusOK, body: object{{"regions", list}, {"links", links}}}
}

func (svc *keystone) showRegion(q *request) reply {
	for _, r := range svc.cfg.Regions {
		if r == q.PathValue("id") {
			return ok("region", regionView(q, r))
		}
	}
	return keystoneError(http.StatusNotFound, "Could not find region: %s.", q.PathValue("id"))
}

func (svc *keystone) createAppCredential(q *request) reply {
	var in struct {
		Credential struct {
			Name         string   `json:"name"`
			Secret       string   `json:"secret"`
			Description  string   `json:"description"`
			ExpiresAt    string   `json:"expires_at"`
			Roles        []object `json:"-"`
			Unrestricted bool     `json:"unrestricted"`
		} `json:"application_credential"`
	}
	if bad, decoded := q.decode(&in); !decoded {
		return bad
	}
	own := svc.own(q)
	if own.user.ID != q.PathValue("user") || own.project == nil || own.method == "application_credential" {
		return keystoneError(http.StatusForbidden, "You are not authorized to perform the requested action: identity:create_application_credential.")
	}
	a := &appCredential{
		ID: strings.ReplaceAll(svc.kernel.newID(), "-", ""), name: in.Credential.Name, secret: in.Credential.Secret,
		user: own.user, project: own.project, roles: own.roles,
	}
	var ends any
	if text := in.Credential.ExpiresAt; text != "" {
		t, valid := parseISO(strings.TrimSuffix(text, "Z"))
		if !valid {
			return keystoneError(http.StatusBadRequest, "Invalid input for field 'expires_at': %s", text)
		}
		a.expires, ends = t, t.Format("2006-01-02T15:04:05.000000")
	}
	if a.secret == "" {
		a.secret = svc.kernel.newID()
	}
	svc.appCredentials.put(a.ID, a)
	return reply{status: http.StatusCreated, body: object{{"application_credential", object{
		{"id", a.ID}, {"name", a.name}, {"secret", a.secret}, {"project_id", a.project.ID},
		{"description", in.Credential.Description}, {"expires_at", ends}, {"unrestricted", in.Credential.Unrestricted},
	}}}}
}

func (svc *keystone) deleteAppCredential(q *request) reply {
	a, known := svc.appCredentials.get(q.PathValue("id"))
	if !known || a.user.ID != q.PathValue("user") {
		return keystoneError(http.StatusNotFound, "Could not find Application Credential: %s.", q.PathValue("id"))
	}
	svc.removeAppCredential(a)
	return empty(http.StatusNoContent)
}

// RevokeAppCredential deletes an application credential and the tokens that were issued for it. An ID that is not there
// changes nothing.
func (svc *keystone) RevokeAppCredential(id string) {
	if a, known := svc.appCredentials.get(id); known {
		svc.removeAppCredential(a)
	}
}

// removeAppCredential deletes an application credential and every token that was issued for it. The caller holds the lock.
func (svc *keystone) removeAppCredential(a *appCredential) {
	svc.appCredentials.remove(a.ID)
	for id, t := range svc.tokens {
		if t.method == "application_credential" && t.user == a.user && t.project == a.project {
			delete(svc.tokens, id)
		}
	}
}
