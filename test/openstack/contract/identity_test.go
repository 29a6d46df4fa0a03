package contract

import (
	"net/http"
	"strings"
	"time"

	openstackclient "github.com/drover-project/drover/machines/openstack/client"
)

// stampForm is the layout of times in Keystone's answers.
const stampForm = "2006-01-02T15:04:05.000000Z"

var signInRows = []row{
	{"the response to a sign-in shows user, project, expiry of the token and the endpoints of the services", nothing, aTokenTells},
	{"a user signs in with a password and the IDs of user and project", nothing, func(b *bench) {
		cl := b.user
		a := signIn(b.T, b.credentials.IdentityEndpoint, doc{
			"identity": doc{"methods": []string{"password"}, "password": doc{"user": doc{"id": cl.user, "password": b.credentials.Password}}},
			"scope":    doc{"project": doc{"id": cl.project}},
		})
		b.want(a, http.StatusCreated)
		b.same("user", a.word("token.user.id"), cl.user)
		b.same("project", a.word("token.project.id"), cl.project)
	}},
	{"a user signs in with an application credential by its ID, or by its name and its user", nothing, applicationCredentials},
	{"a sign-in with a deleted application credential is refused with 404 or 401, and its tokens become invalid", nothing, deletedCredential},
	{"a token expires together with its application credential, and the token's expires_at has no time zone", nothing, endingCredential},
	{"a wrong user, project or password is refused with 401, without saying which of them is wrong", nothing, wrongPassword},
	{"a call that the access rules of an application credential do not list is refused with 401, with a new token as well", nothing, func(b *bench) {
		path := "/users/" + b.user.user + "/application_credentials"
		made := b.want(b.user.post(identity, path, doc{"application_credential": doc{
			"name": b.name(), "secret": "a-secret", "access_rules": []doc{{"service": "image", "method": "GET", "path": "/v2/images"}},
		}}), http.StatusCreated)
		id := made.word("application_credential.id")
		b.discard(identity, path+"/"+id)
		for range 2 {
			a := b.want(signIn(b.T, b.credentials.IdentityEndpoint, byCredential(doc{"id": id, "secret": "a-secret"})), http.StatusCreated)
			limited := clientOf(b.T, b.credentials, a)
			b.want(limited.get(compute, "/servers"), http.StatusUnauthorized, "The request you have made requires authentication.")
			b.want(limited.get(network, "/ports"), http.StatusUnauthorized)
		}
	}},
	{"a revoked or unknown token is refused with 401 by every service", nothing, revokedToken},
	{"a user signs in with a token and gets another token", nothing, func(b *bench) {
		a := signIn(b.T, b.credentials.IdentityEndpoint, doc{
			"identity": doc{"methods": []string{"token"}, "token": doc{"id": b.user.token}},
			"scope":    doc{"project": doc{"id": b.user.project}},
		})
		b.want(a, http.StatusCreated)
		b.same("project", a.word("token.project.id"), b.user.project)
	}},
	{"Nova answers 403 when a user who may only read requests a server", aReader, func(b *bench) {
		reader := newClient(b.T, b.reader)
		b.want(reader.get(compute, "/servers/detail"), http.StatusOK)
		a := reader.post(compute, "/servers", doc{"server": doc{
			"name": b.name(), "flavorRef": b.flavorID(b.flavor), "imageRef": b.imageID(), "networks": []doc{{"port": b.portID()}},
		}}, at("2.37"))
		b.want(a, http.StatusForbidden, "Policy doesn't allow os_compute_api:servers:create to be performed.")
		b.same("code", a.at("forbidden.code"), 403)
	}},
}

func aTokenTells(b *bench) {
	a := b.want(signIn(b.T, b.credentials.IdentityEndpoint, byPassword(b.credentials)), http.StatusCreated)
	if a.header.Get("X-Subject-Token") == "" {
		b.Error("no token in the header")
	}
	issued, err1 := time.Parse(stampForm, a.word("token.issued_at"))
	expires, err2 := time.Parse(stampForm, a.word("token.expires_at"))
	if err1 != nil || err2 != nil || !expires.After(issued) {
		b.Errorf("issued %s, expires %s", a.word("token.issued_at"), a.word("token.expires_at"))
	}
	b.same("project", a.word("token.project.name"), b.credentials.ProjectName)
	b.same("user", a.word("token.user.name"), b.credentials.Username)
	b.same("methods", a.at("token.methods"), "[password]")
	for _, service := range []string{compute, network, image} {
		if !strings.HasPrefix(b.user.endpoints[service], "http") {
			b.Errorf("no public endpoint of %s in region %s", service, b.credentials.Region)
		}
	}
}

// newCredential creates an application credential.
func (b *bench) newCredential(name, secret string) string {
	b.Helper()
	path := "/users/" + b.user.user + "/application_credentials"
	a := b.want(b.user.post(identity, path, doc{"application_credential": doc{"name": name, "secret": secret}}), http.StatusCreated)
	id := a.word("application_credential.id")
	b.discard(identity, path+"/"+id)
	return id
}

func byCredential(fields doc) doc {
	return doc{"identity": doc{"methods": []string{"application_credential"}, "application_credential": fields}}
}

func (b *bench) byCredentialName(name, secret string) doc {
	return byCredential(doc{"name": name, "secret": secret, "user": doc{
		"name": b.credentials.Username, "domain": domain(b.credentials, b.credentials.UserDomainName),
	}})
}

func applicationCredentials(b *bench) {
	name, endpoint := b.name(), b.credentials.IdentityEndpoint
	id := b.newCredential(name, "a-secret")
	for _, auth := range []doc{byCredential(doc{"id": id, "secret": "a-secret"}), b.byCredentialName(name, "a-secret")} {
		a := b.want(signIn(b.T, endpoint, auth), http.StatusCreated)
		b.same("project", a.word("token.project.id"), b.user.project)
		b.want(clientOf(b.T, b.credentials, a).get(compute, "/servers"), http.StatusOK)
	}
	b.want(signIn(b.T, endpoint, byCredential(doc{"id": id, "secret": "another"})), http.StatusUnauthorized)
	b.want(signIn(b.T, endpoint, b.byCredentialName(name, "another")), http.StatusUnauthorized)
}

func deletedCredential(b *bench) {
	name, endpoint := b.name(), b.credentials.IdentityEndpoint
	id := b.newCredential(name, "a-secret")
	token := b.want(signIn(b.T, endpoint, byCredential(doc{"id": id, "secret": "a-secret"})), http.StatusCreated)
	b.want(b.user.delete(identity, "/users/"+b.user.user+"/application_credentials/"+id), http.StatusNoContent)
	b.want(signIn(b.T, endpoint, byCredential(doc{"id": id, "secret": "a-secret"})), http.StatusNotFound, "Could not find Application Credential: "+id+".")
	b.oneOf(signIn(b.T, endpoint, b.byCredentialName(name, "a-secret")), http.StatusUnauthorized, http.StatusNotFound)
	b.want(clientOf(b.T, b.credentials, token).get(compute, "/servers"), http.StatusUnauthorized)
}

func endingCredential(b *bench) {
	ends := time.Now().Add(8 * time.Second).UTC().Truncate(time.Second)
	path := "/users/" + b.user.user + "/application_credentials"
	made := b.want(b.user.post(identity, path, doc{"application_credential": doc{
		"name": b.name(), "secret": "a-secret", "expires_at": ends.Format(stampForm),
	}}), http.StatusCreated)
	id := made.word("application_credential.id")
	b.discard(identity, path+"/"+id)
	auth := byCredential(doc{"id": id, "secret": "a-secret"})
	a := b.want(signIn(b.T, b.credentials.IdentityEndpoint, auth), http.StatusCreated)
	b.same("expires_at", a.word("token.expires_at"), ends.Format("2006-01-02T15:04:05"))
	d, _ := b.drover(openstackclient.Credentials{
		IdentityEndpoint: b.credentials.IdentityEndpoint, Region: b.credentials.Region, ApplicationCredentialID: id, ApplicationCredentialSecret: "a-secret",
	})
	b.instance(d, b.machine(b.fields(nil)))
	b.until("it has ended", func() bool {
		return signIn(b.T, b.credentials.IdentityEndpoint, auth).status == http.StatusUnauthorized
	})
	b.want(clientOf(b.T, b.credentials, a).get(compute, "/servers"), http.StatusUnauthorized)
}

func wrongPassword(b *bench) {
	wrong, unknown, elsewhere := b.credentials, b.credentials, b.credentials
	wrong.Password, unknown.Username, elsewhere.ProjectName = "wrong", b.name(), b.name()
	for _, c := range []doc{byPassword(wrong), byPassword(unknown), byPassword(elsewhere)} {
		a := b.want(signIn(b.T, b.credentials.IdentityEndpoint, c), http.StatusUnauthorized, "The request you have made requires authentication.")
		b.same("code", a.at("error.code"), 401)
	}
}

func revokedToken(b *bench) {
	fresh := newClient(b.T, b.credentials)
	revoke := request{method: http.MethodDelete, url: b.user.keystone + "/auth/tokens", token: b.user.token, header: doc{"X-Subject-Token": fresh.token}}
	b.want(send(b.T, revoke), http.StatusNoContent)
	never := *fresh
	never.token = "gAAAAAnever"
	for service, path := range map[string]string{compute: "/servers", network: "/ports", image: "/images"} {
		for _, c := range []*client{fresh, &never} {
			a := b.want(c.get(service, path), http.StatusUnauthorized)
			if !strings.HasPrefix(a.header.Get("WWW-Authenticate"), "Keystone uri=") {
				b.Errorf("%s: WWW-Authenticate is %q", service, a.header.Get("WWW-Authenticate"))
			}
			words := "The request you have made requires authentication."
			if service == image {
				words = "This server could not verify that you are authorized to access the document you requested."
			}
			b.same(service+" says "+words, strings.Contains(a.text, words), true)
		}
	}
}
