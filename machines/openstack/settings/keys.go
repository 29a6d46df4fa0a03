package settings

import (
	"slices"
	"strings"

	"github.com/drover-project/drover/machines/openstack/client"
)

// Effect is what drover does with a key.
type Effect int

// Carried: the key has the effect that it has for OpenStack's own clients. Named: the key has no effect, and the log and the
// Warnings condition say so. Refused: drover does not start.
const (
	Carried Effect = iota
	Named
	Refused
)

// Key is a row of the table of settings. Dashes in the name of a key are read as underscores. A key is also a variable: OS_ and the
// name in upper case.
type Key struct {
	Name string
	// Aliases are other names of the key, and of its variable.
	Aliases []string
	// Field is the field of a provider spec, and the key of a MachineClass's Secret, with the same meaning; empty when there is none.
	Field string
	// Effect and Says are what drover does with the key, and for a key that is not carried out, why.
	Effect Effect
	Says   string
	// ways are the ways of signing in that use the key. A key with ways may stand in auth or beside it, any other only beside it.
	ways string
	// text is where the value of a text key goes; nil for keys that the reader treats on its own.
	text func(*draft) *string
	// version is the version that drover speaks, of a key that names one.
	version string
	// service and suffix are those of a setting of a single service (see rows).
	service client.Service
	suffix  string
}

// The ways of signing in: by password, by token, and by an application credential with its ID or with its name. Any way uses a key
// of anyWay, and none a key of noWay.
const (
	byPassword = "p"
	byToken    = "t"
	byID       = "a"
	byName     = "n"
	anyWay     = byPassword + byToken + byID + byName
	noWay      = "-"
)

// draft are credentials, and the settings that are only used to complete them.
type draft struct {
	*client.Credentials
	domainName, domainID, defaultName, defaultID, fallback string
	authType                                               string
}

// Keys is the table of all settings of a cloud that have a name of their own. Those of a single service, such as
// compute_endpoint_override, are in [Suffixes].
var Keys = slices.Concat([]Key{
	{Name: "auth_url", Field: "identityEndpoint", ways: anyWay, Says: "Keystone's URL, with or without `/v3`; `{region_name}` in it is the region", text: func(d *draft) *string { return &d.IdentityEndpoint }},
	{Name: "username", Aliases: []string{"user_name"}, Field: "username", ways: byPassword + byName, Says: "the user", text: func(d *draft) *string { return &d.Username }},
	{Name: "user_id", ways: byPassword + byName, Says: "the user; counts before `username`", text: func(d *draft) *string { return &d.UserID }},
	{Name: "password", Field: "password", ways: byPassword, Says: "the user's password, taken as it is written: `1e10`, `0123`, `yes`", text: func(d *draft) *string { return &d.Password }},
	{Name: "project_name", Aliases: []string{"tenant_name"}, Field: "projectName", ways: byPassword + byToken, Says: "the project in which servers are created", text: func(d *draft) *string { return &d.ProjectName }},
	{Name: "project_id", Aliases: []string{"tenant_id"}, Field: "projectID", ways: byPassword + byToken, Says: "the same; counts before `project_name`", text: func(d *draft) *string { return &d.ProjectID }},
	{Name: "user_domain_name", ways: byPassword + byName, Says: "the user's domain; the ID counts before names", text: func(d *draft) *string { return &d.UserDomainName }},
	{Name: "user_domain_id", ways: byPassword + byName, Says: "the user's domain; the ID counts before names", text: func(d *draft) *string { return &d.UserDomainID }},
	{Name: "project_domain_name", ways: byPassword + byToken, Says: "the project's domain; the ID counts before names", text: func(d *draft) *string { return &d.ProjectDomainName }},
	{Name: "project_domain_id", ways: byPassword + byToken, Says: "the project's domain; the ID counts before names", text: func(d *draft) *string { return &d.ProjectDomainID }},
	{Name: "domain_name", Field: "domainName", ways: byPassword + byName + byToken, Says: "the domain of both that have no own name", text: func(d *draft) *string { return &d.domainName }},
	{Name: "domain_id", ways: byPassword + byName + byToken, Says: "the domain of both that have no own ID", text: func(d *draft) *string { return &d.domainID }},
	{Name: "default_domain_name", ways: byPassword + byName + byToken, Says: "the same, after those two", text: func(d *draft) *string { return &d.defaultName }},
	{Name: "default_domain_id", ways: byPassword + byName + byToken, Says: "the same, after those two", text: func(d *draft) *string { return &d.defaultID }},
	{Name: "default_domain", ways: byPassword + byName + byToken, Says: "ID of the domain when no other key names one; else `default`", text: func(d *draft) *string { return &d.fallback }},
	{Name: "token", Aliases: []string{"auth_token"}, Field: "tokenId", ways: byToken, Says: "signs in by a token; drover cannot renew it", text: func(d *draft) *string { return &d.Token }},
	{Name: "application_credential_id", Field: "applicationCredentialID", ways: byID, Says: "signs in by an application credential, which has its own user and project", text: func(d *draft) *string { return &d.ApplicationCredentialID }},
	{Name: "application_credential_name", Field: "applicationCredentialName", ways: byName, Says: "the same; needs the user", text: func(d *draft) *string { return &d.ApplicationCredentialName }},
	{Name: "application_credential_secret", Field: "applicationCredentialSecret", ways: byID + byName, Says: "its secret", text: func(d *draft) *string { return &d.ApplicationCredentialSecret }},
	{Name: "trust_id", ways: byPassword, Says: "the trust whose project the token is for, in place of the project", text: func(d *draft) *string { return &d.TrustID }},
	{Name: "system_scope", Effect: Refused, ways: noWay, Says: "drover works in one project; remove the key and set `project_name`"},
	{Name: "allow_reauth", Effect: Named, ways: noWay, Says: "drover renews its token"},
}, unused(noWay, "it belongs to a way of signing in that drover does not have",
	"passcode", "auth_methods", "identity_provider", "protocol", "client_id", "client_secret", "access_token", "access_token_endpoint",
	"access_token_type", "discovery_endpoint", "scope", "openid_scope", "endpoint",
), []Key{
	{Name: "auth_type", Aliases: []string{"auth_plugin"}, Says: "the way of signing in: `password`, `v3password`, `token`, `v3token`, `v3applicationcredential`. Any other is refused", text: func(d *draft) *string { return &d.authType }},
	{Name: "region_name", Field: "region", Says: "the region, or a list of regions. The first counts", text: func(d *draft) *string { return &d.Region }},
	{Name: "regions", Says: "a list of regions. The first counts: a name, or `name` and `values`, which override the cloud's. The key counts before `region_name`"},
	{Name: "region", Effect: Named, Says: "the region is `region_name`"},
	{Name: "interface", Aliases: []string{"endpoint_type"}, Says: "`public` (default), `internal` or `admin`, with or without `URL` at its end; of a list, the first that a service has"},
	{Name: "cacert", Says: "file with the CA certificates (PEM); `--cloud-ca` counts before it"},
	{Name: "cert", Says: "file with drover's client certificate (PEM), for the endpoints of this cloud"},
	{Name: "key", Says: "file with its key, unless `cert` has it too"},
	{Name: "verify", Says: "only `true`; `false` has no effect, and is named: the certificate of the cloud is always verified. Set `cacert`"},
	{Name: "insecure", Says: "only `false`; `true` has no effect, and is named, like `verify`"},
	{Name: "profile", Aliases: []string{"cloud"}, Says: "a profile of the file `clouds-public.yaml` beside `clouds.yaml`. Any other is refused"},
}, unused("", "every call has a deadline of 60 s, and drover decides when to repeat one",
	"api_timeout", "timeout", "http_timeout", "connect_retries", "connect_retry_delay", "status_code_retries",
), unused("", "the system chooses the address of an endpoint",
	"force_ipv4", "prefer_ipv6",
), []Key{
	{Name: "auth_version", version: "3", Says: "only version 3; another one is named, and has no effect"},
})

// unused returns rows of keys that have no effect, with the reason. ways is as in Key.
func unused(ways, why string, names ...string) (all []Key) {
	for _, name := range names {
		all = append(all, Key{Name: name, Effect: Named, ways: ways, Says: why})
	}
	return all
}

// Suffix is a row of the table of settings of a single service. The name of the setting is that of the service and the suffix.
type Suffix struct {
	Name string
	// Aliases are other names of the suffix.
	Aliases []string
	Effect  Effect
	// Says is what drover does with the setting of a service that it calls. For another service, the setting is Named.
	Says string
}

// Suffixes is the table of the settings of a single service.
var Suffixes = []Suffix{
	{Name: "endpoint_override", Aliases: []string{"endpoint"}, Says: "the service's URL in the configured region, in place of the catalog's; not for `identity`, whose URL is `auth_url`"},
	{Name: "region_name", Says: "the service's region in the catalog, in place of `region_name`"},
	{Name: "interface", Aliases: []string{"endpoint_type"}, Says: "the service's interface, in place of `interface`"},
	{Name: "service_type", Effect: Refused, Says: "drover finds services by their official types; remove the key, or set the service's `endpoint_override`"},
	{Name: "service_name", Effect: Refused, Says: "drover finds services by their official types; remove the key, or set the service's `endpoint_override`"},
	{Name: "api_version", Says: "only the version that drover speaks (identity 3, compute 2, network 2, image 2, block_storage 3); another one is named, and has no effect"},
}

// rows are the rows of Keys and, for each service that drover calls, those of Suffixes.
var rows = append(slices.Clone(Keys), rowsOfServices()...)

func rowsOfServices() (all []Key) {
	for _, s := range services {
		for _, f := range Suffixes {
			row := Key{Name: s.names[0] + "_" + f.Name, Effect: f.Effect, Says: f.Says, service: s.service, suffix: f.Name}
			if f.Name == "api_version" {
				row.version = s.version
			}
			for _, name := range s.names {
				for _, suffix := range append([]string{f.Name}, f.Aliases...) {
					row.Aliases = append(row.Aliases, name+"_"+suffix)
				}
			}
			if s.service != client.Identity || f.Name == "api_version" {
				all = append(all, row)
			}
		}
	}
	return all
}

// services are the services that drover calls, by their names in settings, with the version that it speaks.
var services = []struct {
	names   []string
	service client.Service
	version string
}{
	{[]string{"compute"}, client.Compute, "2"},
	{[]string{"network"}, client.Network, "2"},
	{[]string{"image"}, client.Image, "2"},
	{[]string{"block_storage", "block_store", "volumev3", "volumev2", "volume"}, client.Volume, "3"},
	{[]string{"identity"}, client.Identity, "3"},
}

// methods are the values of auth_type that drover carries out.
var methods = map[string]client.Method{
	"password": client.ByPassword, "v3password": client.ByPassword, "token": client.ByToken, "v3token": client.ByToken,
	"v3applicationcredential": client.ByApplicationCredential,
}

// otherMethods are the values of auth_type that keystoneauth has, and drover has not.
var otherMethods = []string{
	"none", "None", "http_basic", "admin_token", "token_endpoint", "v2password", "v2token", "v3oidcclientcredentials", "v3oidcpassword",
	"v3oidcdeviceauthz", "v3oidcauthcode", "v3oidcaccesstoken", "v3oauth1", "v3kerberos", "v3totp", "v3fedkerb", "v3tokenlessauth",
	"v3adfspassword", "v3samlpassword", "v3multifactor", "v3oauth2clientcredential", "v3oauth2mtlsclientcredential",
}

// Texts returns where the fields of a provider spec are in credentials. There domainName is the domain of user and project.
func Texts(c *client.Credentials) map[string]*string {
	all, d := map[string]*string{}, &draft{Credentials: c}
	for i := range Keys {
		if Keys[i].Field != "" && Keys[i].text != nil {
			all[Keys[i].Field] = Keys[i].text(d)
		}
	}
	all["domainName"] = &c.DomainName
	return all
}

// FieldOf returns the field of a provider spec for a key of a Secret: the field itself, or a key or variable of the table; empty when
// there is none.
func FieldOf(key string) string {
	name := normal(key)
	if variable, is := strings.CutPrefix(key, "OS_"); is {
		name = strings.ToLower(variable)
	}
	row := find(name)
	switch {
	case key == "authURL":
		return "identityEndpoint"
	case key == "tenantName", key == "tenantID", NameOf(key) != "":
		return key
	case row != nil:
		return row.Field
	}
	return ""
}

// NameOf returns the name of the setting for a field of a provider spec; empty when there is none.
func NameOf(field string) string {
	for i := range Keys {
		if field != "" && Keys[i].Field == field {
			return Keys[i].Name
		}
	}
	return ""
}

// normal returns a key as the tables write it.
func normal(key string) string { return strings.ReplaceAll(key, "-", "_") }

// find returns the row of a key; nil when there is none.
func find(key string) *Key {
	at := slices.IndexFunc(rows, func(k Key) bool { return k.Name == key || slices.Contains(k.Aliases, key) })
	if at < 0 {
		return nil
	}
	return &rows[at]
}
