package settings

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"maps"
	"slices"
	"strings"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/openstack/client"
)

// decode turns the settings into credentials.
func (r *reader) decode() {
	for _, key := range slices.Sorted(maps.Keys(r.settings)) {
		s, row := r.settings[key], find(key)
		switch {
		case row == nil:
			r.unknown(key, s)
		case row.Effect == Refused:
			r.refuse("%s: is not supported: %s", s.at, plain(row.Says))
		case row.Effect == Named:
			r.note(s.at, "has no effect: "+plain(row.Says))
		case row.version != "":
			if major, _, _ := strings.Cut(strings.TrimPrefix(r.text(s), "v"), "."); major != row.version {
				r.note(s.at, "has no effect: drover speaks version "+row.version)
			}
		case row.text != nil:
			*row.text(&r.draft) = r.text(s)
		case row.service != "":
			r.ofService(row, s)
		default:
			r.other(key, s)
		}
	}
	r.certificates()
	r.signIn()
	r.domains()
	r.endpoint()
}

// unknown names a setting that drover does not know.
func (r *reader) unknown(key string, s setting) {
	prefix := ""
	if strings.HasPrefix(s.at, "OS_") {
		prefix = "OS_"
	}
	why := "has no effect: drover does not use it"
	if alike := hint(key, prefix); alike != "" {
		why += "; " + alike
	}
	r.note(s.at, why)
}

// text returns the text of a setting.
func (r *reader) text(s setting) string {
	text, ok := s.value.(string)
	if !ok {
		r.refuse("%s: is a list or a mapping; use a text", s.at)
	}
	return text
}

// yes and no are the booleans of a setting.
var yes, no = []string{"true", "yes", "on", "y", "1"}, []string{"false", "no", "off", "n", "0"}

// other carries out a key that is not just a text.
func (r *reader) other(key string, s setting) {
	switch key {
	case "interface":
		r.draft.Interfaces = r.interfaces(s)
	case "verify", "insecure":
		on := strings.ToLower(r.text(s))
		switch {
		case slices.Contains(yes, on) == (key == "verify"):
		case slices.Contains(yes, on) || slices.Contains(no, on):
			r.note(s.at, "has no effect: the certificate of the cloud is always verified; set cacert, or --cloud-ca, to its CA certificates")
		case key == "verify":
			r.refuse("%s: is neither true nor false; a file with CA certificates is set with cacert", s.at)
		}
	case "profile":
		if r.name == "" {
			r.refuse("%s: a profile is read from a file clouds-public.yaml beside a clouds.yaml, and there is none; set what it has, such as OS_AUTH_URL", s.at)
		}
	}
}

// interfaces returns the interfaces in the order of preference.
func (r *reader) interfaces(s setting) (all []string) {
	list, ok := s.value.([]any)
	if !ok {
		list = []any{s.value}
	}
	for _, item := range list {
		name, _ := item.(string)
		name = strings.TrimSuffix(name, "URL")
		if !slices.Contains([]string{"public", "internal", "admin"}, name) {
			r.refuse("%s: %v is not an interface; use public, internal or admin", s.at, item)
			continue
		}
		all = append(all, name)
	}
	return all
}

// ofService carries out a setting of a single service.
func (r *reader) ofService(row *Key, s setting) {
	place := r.draft.Places[row.service]
	switch row.suffix {
	case "endpoint_override":
		place.URL = r.url(s)
	case "region_name":
		place.Region = r.text(s)
	case "interface":
		place.Interfaces = r.interfaces(s)
	}
	if r.draft.Places == nil {
		r.draft.Places = map[client.Service]client.Place{}
	}
	r.draft.Places[row.service] = place
}

// url returns the URL in a setting.
func (r *reader) url(s setting) string {
	region, _ := r.settings["region_name"].value.(string)
	text := strings.ReplaceAll(strings.TrimSpace(r.text(s)), "{region_name}", region)
	if client.Location(text) == "" || strings.ContainsAny(text, "{}") {
		r.refuse("%s: %q is not a URL like https://host:port/path", s.at, text)
	}
	return text
}

// certificates reads the CA bundle, and the client's certificate with its key.
func (r *reader) certificates() {
	if ca, ok := r.settings["cacert"]; ok {
		r.draft.CACert = r.fileOf(ca)
		if len(r.draft.CACert) > 0 && !x509.NewCertPool().AppendCertsFromPEM(r.draft.CACert) {
			r.refuse("%s %v: the file holds no certificate; use a PEM file", ca.at, ca.value)
		}
	}
	cert, ok := r.settings["cert"]
	key, has := r.settings["key"]
	switch {
	case !ok && has:
		r.note(key.at, "has no effect without cert")
	case ok:
		r.draft.ClientCert = r.fileOf(cert)
		r.draft.ClientKey = r.draft.ClientCert
		if has {
			r.draft.ClientKey = r.fileOf(key)
		}
		if _, err := tls.X509KeyPair(r.draft.ClientCert, r.draft.ClientKey); err != nil && len(r.wrong) == 0 {
			r.refuse("%s: %v; use PEM files of a certificate and its key", cert.at, err)
		}
	}
}

// signIn chooses the way of signing in, takes away the settings that it does not use, and requires the others.
func (r *reader) signIn() {
	d := &r.draft
	method := d.Method()
	if d.authType != "" {
		var ok bool
		if method, ok = methods[d.authType]; !ok {
			r.refuse("%s: %s. Nothing is sent", r.settings["auth_type"].at, otherWay(d.authType))
			return
		}
	}
	way := map[client.Method]string{client.ByPassword: byPassword, client.ByToken: byToken, client.ByApplicationCredential: byID}[method]
	if way == byID && d.ApplicationCredentialID == "" {
		way = byName
	}
	r.require(way, method)
	for _, row := range Keys {
		if s, set := r.settings[row.Name]; set && way != "" && row.text != nil && row.ways != "" && !strings.Contains(row.ways, way) {
			*row.text(d) = ""
			r.note(s.at, "has no effect, because drover signs in by "+string(method))
		}
	}
}

// needs are the settings without which a way of signing in does not work. Of each list, one is enough.
var needs = map[string][][]string{
	byToken:    {{"token"}},
	byPassword: {{"password"}, {"username", "user_id"}},
	byID:       {{"application_credential_secret"}},
	byName:     {{"application_credential_secret"}, {"application_credential_id", "application_credential_name"}, {"username", "user_id"}},
}

// require refuses settings that lack what a way of signing in needs.
func (r *reader) require(way string, method client.Method) {
	for _, need := range needs[way] {
		if !slices.ContainsFunc(need, func(key string) bool { return *find(key).text(&r.draft) != "" }) {
			if _, set := r.settings[need[0]]; !set {
				r.refuse("%s is missing, which a sign-in by %s needs; set it", r.called(need[0]), method)
			}
			return
		}
	}
}

// otherWay describes what to do about a value of auth_type that drover does not carry out.
func otherWay(authType string) string {
	if !slices.Contains(otherMethods, authType) {
		if alike := v1alpha1.Nearest(authType, slices.Sorted(maps.Keys(methods)), 1); len(alike) > 0 {
			return authType + " is not a way of signing in; did you mean " + alike[0] + "?"
		}
	}
	return "drover cannot sign in by " + authType + "; create an application credential and use v3applicationcredential, or use password or token"
}

// domains sets the domains of user and project. As for OpenStack's own clients, an ID counts before a name.
func (r *reader) domains() {
	d := &r.draft
	settle := func(id, name *string) {
		*id, *name = cmp.Or(*id, d.domainID, d.defaultID), cmp.Or(*name, d.domainName, d.defaultName)
		if *id == "" && *name == "" {
			*id = d.fallback
		}
		if *id != "" {
			*name = ""
		}
	}
	if d.Username != "" || d.ApplicationCredentialName != "" {
		settle(&d.UserDomainID, &d.UserDomainName)
	}
	if d.ProjectName != "" {
		settle(&d.ProjectDomainID, &d.ProjectDomainName)
	}
}

// endpoint requires Keystone's URL when anything of the cloud is set.
func (r *reader) endpoint() {
	d := &r.draft
	set, ok := r.settings["auth_url"]
	switch {
	case ok:
		d.IdentityEndpoint = r.url(set)
		if d.Method() == client.ByNothing && len(r.wrong) == 0 {
			r.note(set.at, "there is no user beside it: only Machines with credentials of their own get servers")
		}
	case r.name != "", d.Method() != client.ByNothing:
		r.refuse("%s is missing; set Keystone's URL", r.called("auth_url"))
	}
}

// called returns the name of a key, or of its variable, for messages.
func (r *reader) called(key string) string {
	if r.name == "" {
		return "OS_" + strings.ToUpper(key)
	}
	return "auth." + key
}

// plain returns a text of the table for messages.
func plain(text string) string { return strings.ReplaceAll(text, "`", "") }
