package openstack

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/drover-project/drover/machines/openstack/client"
)

func TestParseValue(t *testing.T) {
	get := func(_ context.Context, r *reference) (string, error) {
		return string(r.Kind) + ":" + r.Key, nil
	}
	for name, tc := range map[string]struct{ raw, want, fails string }{
		"MC-10 a plain string":                      {`"x"`, "x", ""},
		"MC-10 a value":                             {`{"value":"x"}`, "x", ""},
		"MC-10 a Secret":                            {`{"secretKeyRef":{"namespace":"n","name":"s","key":"k"}}`, "Secret:k", ""},
		"MC-10 a ConfigMap":                         {`{"configMapKeyRef":{"namespace":"n","name":"s","key":"k"}}`, "ConfigMap:k", ""},
		"MC-10 Secret comes before ConfigMap":       {`{"value":"x","configMapKeyRef":{"namespace":"n","name":"s","key":"c"},"secretKeyRef":{"namespace":"n","name":"s","key":"k"}}`, "Secret:k", ""},
		"MC-10 ConfigMap comes before value":        {`{"value":"x","configMapKeyRef":{"namespace":"n","name":"s","key":"c"}}`, "ConfigMap:c", ""},
		"an incomplete reference does not count":    {`{"value":"x","secretKeyRef":{"name":"s"}}`, "x", ""},
		"an incomplete reference alone is an error": {`{"secretKeyRef":{"name":"s"}}`, "", "needs namespace, name and key"},
		"an empty reference is unset":               {`{"secretKeyRef":{}}`, "", ""},
		"MC-13 null is unset":                       {`null`, "", ""},
		"MC-13 null inside is unset":                {`{"value":null,"secretKeyRef":null}`, "", ""},
		"a number counts by its text":               {`5`, "5", ""},
		"a boolean counts by its text":              {`true`, "true", ""},
		"quotes and backslashes survive":            {`"a\"b\\c"`, `a"b\c`, ""},
		"an unknown key of a reference is named":    {`{"secretKeyReff":{}}`, "", "did you mean secretKeyRef"},
		"a list is an error":                        {`["x"]`, "", "is a list"},
	} {
		t.Run(name, func(t *testing.T) {
			v, err := parseValue([]byte(tc.raw))
			if tc.fails != "" {
				if err == nil || !strings.Contains(err.Error(), tc.fails) {
					t.Fatalf("got %v, want %q", err, tc.fails)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got, err := v.resolve(t.Context(), get); err != nil || got != tc.want {
				t.Fatalf("got %q, %v, want %q", got, err, tc.want)
			}
		})
	}
}

var errUnreadable = errors.New("unreadable")

// stack makes layers out of documents, the highest first; the last is the configured cloud.
func stack(t *testing.T, documents ...string) layers {
	t.Helper()
	ls := layers{get: func(context.Context, *reference) (string, error) { return "", errUnreadable }}
	for _, d := range documents {
		l, err := readLayer("doc", []byte(d))
		if err != nil {
			t.Fatal(err)
		}
		ls.list = append(ls.list, l)
	}
	return ls
}

const least = `"flavor":"f","image":"i","network":"n"`

func TestReadSpec(t *testing.T) {
	for name, tc := range map[string]struct {
		documents []string
		want      func(*Spec) bool
		fails     string
	}{
		"the least":                                            {[]string{`{` + least + `}`}, func(s *Spec) bool { return s.Flavor == "f" && s.Networks[0] == "n" }, ""},
		"keys without regard to case":                          {[]string{`{"FLAVOR":"f","Image":"i","NetWork":"n"}`}, func(s *Spec) bool { return s.Flavor == "f" }, ""},
		"MC-40 network first, then networks":                   {[]string{`{` + least + `,"networks":["m","n","","o"]}`}, func(s *Spec) bool { return strings.Join(s.Networks, " ") == "n m o" }, ""},
		"networks of a lower layer are not added":              {[]string{`{` + least + `}`, `{"networks":["m"]}`}, func(s *Spec) bool { return strings.Join(s.Networks, " ") == "n" }, ""},
		"a lower network is not put first":                     {[]string{`{"flavor":"f","image":"i","networks":["m"]}`, `{"network":"n"}`}, func(s *Spec) bool { return strings.Join(s.Networks, " ") == "m" }, ""},
		"empty is filled by the next layer":                    {[]string{`{"flavor":"","image":null,"network":{"value":""}}`, `{` + least + `}`}, func(s *Spec) bool { return s.Flavor == "f" && s.Image == "i" && s.Networks[0] == "n" }, ""},
		"tags as a map are metadata":                           {[]string{`{` + least + `,"tags":{"a":"b"}}`}, func(s *Spec) bool { return s.Metadata["a"] == "b" && len(s.Tags) == 0 }, ""},
		"tags as a list are either":                            {[]string{`{` + least + `,"tags":["a=b","c"]}`}, func(s *Spec) bool { return s.Metadata["a"] == "b" && s.Tags[0] == "c" }, ""},
		"serverGroup is serverGroupID":                         {[]string{`{` + least + `,"serverGroup":"g","serverGroupID":"g"}`}, func(s *Spec) bool { return s.ServerGroup == "g" }, ""},
		"MC-9 unless they conflict":                            {[]string{`{` + least + `,"serverGroup":"g","serverGroupID":"h"}`}, nil, "doc.serverGroup: \"g\" conflicts with serverGroupID"},
		"foreign keys have no effect":                          {[]string{`{` + least + `,"trustDevicePath":true,"nodeVolumeAttachLimit":25,"openstackClientTimeout":"15s","openstackComputeClientTimeout":"1s","instanceReadyCheckPeriod":"5s","instanceReadyCheckTimeout":"2m"}`}, func(s *Spec) bool { return s.Flavor == "f" }, ""},
		"booleans":                                             {[]string{`{` + least + `,"configDrive":true,"disablePortSecurity":null}`}, func(s *Spec) bool { return s.ConfigDrive && !s.DisablePortSecurity }, ""},
		"a boolean as a value":                                 {[]string{`{` + least + `,"configDrive":{"value":"true"}}`}, func(s *Spec) bool { return s.ConfigDrive }, ""},
		"a boolean in quotes is an error":                      {[]string{`{` + least + `,"configDrive":"true"}`}, nil, "doc.configDrive: \"true\" is not a boolean"},
		"false above true is false":                            {[]string{`{` + least + `,"configDrive":false}`, `{"configDrive":true}`}, func(s *Spec) bool { return !s.ConfigDrive }, ""},
		"a size as text":                                       {[]string{`{` + least + `,"rootDiskSizeGB":"30"}`}, func(s *Spec) bool { return s.RootDiskSizeGB == 30 }, ""},
		"a negative size":                                      {[]string{`{` + least + `,"rootDiskSizeGB":-1}`}, nil, "rootDiskSizeGB"},
		"a volume type without a volume":                       {[]string{`{` + least + `,"rootDiskVolumeType":"ssd"}`}, nil, "without rootDiskSizeGB"},
		"a strange version":                                    {[]string{`{` + least + `,"computeAPIVersion":"two"}`}, nil, "doc.computeAPIVersion: \"two\" is not a version"},
		"a list that is none":                                  {[]string{`{` + least + `,"securityGroups":"x"}`}, nil, "doc.securityGroups: is no list"},
		"a reference that fails":                               {[]string{`{"flavor":{"secretKeyRef":{"namespace":"n","name":"s","key":"k"}}}`}, nil, "doc.flavor: unreadable"},
		"a subnet alone names its network":                     {[]string{`{"flavor":"f","image":"i","subnet":"s"}`}, func(s *Spec) bool { return s.Subnet == "s" }, ""},
		"MC-40 an empty network is left to the cloud (F-37)":   {[]string{`{"flavor":"f","image":"i","network":"","subnet":"","availabilityZone":"","serverGroup":"","rootDiskVolumeType":""}`}, func(s *Spec) bool { return len(s.Networks) == 0 && s.ServerGroup == "" }, ""},
		"line breaks at the end are no part of a value (F-40)": {[]string{`{"flavor":"f\r\n","image":"i\n","network":"n"}`}, func(s *Spec) bool { return s.Flavor == "f" && s.Image == "i" }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := readSpec(t.Context(), stack(t, tc.documents...))
			switch {
			case tc.fails != "" && (err == nil || !strings.Contains(err.Error(), tc.fails)):
				t.Fatalf("got %v, want %q", err, tc.fails)
			case tc.fails == "" && (err != nil || !tc.want(s)):
				t.Fatalf("got %+v, %v", s, err)
			}
		})
	}
}

func TestReadCredentials(t *testing.T) {
	const cloud = `{"identityEndpoint":"https://keystone:5000/v3","username":"u","password":"env-secret","projectName":"p","domainName":"d","region":"r"}`
	for name, tc := range map[string]struct {
		documents []string
		want      func(*client.Credentials) bool
		fails     string
	}{
		"MC-11 the configured cloud fills all": {[]string{`{}`, cloud}, func(c *client.Credentials) bool {
			return c.Method() == client.ByPassword && c.Password == "env-secret" && c.Region == "r"
		}, ""},
		"MC-11 the spec beats the environment whatever the spelling": {[]string{`{"tenantName":"mine"}`, cloud}, func(c *client.Credentials) bool { return c.ProjectName == "mine" }, ""},
		"MC-11 a project ID above a name":                            {[]string{`{"tenantID":"id"}`, cloud}, func(c *client.Credentials) bool { return c.ProjectID == "id" && c.ProjectName == "" }, ""},
		"MC-11 empty fields fall back":                               {[]string{`{"username":"","password":"","tokenId":"","identityEndpoint":""}`, cloud}, func(c *client.Credentials) bool { return c.Username == "u" }, ""},
		"the same endpoint in another spelling":                      {[]string{`{"identityEndpoint":"HTTPS://KEYSTONE:5000/v3/"}`, cloud}, func(c *client.Credentials) bool { return c.Password == "env-secret" }, ""},
		"MC-12 another endpoint":                                     {[]string{`{"identityEndpoint":"https://evil:5000/v3"}`, cloud}, nil, "has no credentials of its own"},
		"MC-12 another endpoint, own user, their password":           {[]string{`{"identityEndpoint":"https://evil:5000/v3","username":"u"}`, cloud}, nil, "has no credentials of its own"},
		"another endpoint with credentials of its own":               {[]string{`{"identityEndpoint":"https://other/v3","username":"x","password":"y","projectName":"z"}`, cloud}, func(c *client.Credentials) bool { return c.IdentityEndpoint == "https://other/v3" && c.Password == "y" }, ""},
		"own credentials to the configured endpoint": {[]string{`{"username":"x","password":"y"}`, cloud}, func(c *client.Credentials) bool {
			return c.Username == "x" && c.Password == "y" && c.ProjectName == "p"
		}, ""},
		"an application credential above a user": {[]string{`{"applicationCredentialID":"a","applicationCredentialSecret":"s"}`, cloud}, func(c *client.Credentials) bool {
			return c.Method() == client.ByApplicationCredential && c.Password == "" && c.ProjectName == ""
		}, ""},
		"a user above a configured application credential": {[]string{`{"username":"x","password":"y","projectName":"p"}`, `{"identityEndpoint":"https://k","applicationCredentialID":"a","applicationCredentialSecret":"s"}`}, func(c *client.Credentials) bool { return c.Method() == client.ByPassword }, ""},
		"an application credential by name": {[]string{`{"applicationCredentialName":"a","applicationCredentialSecret":"s"}`, cloud}, func(c *client.Credentials) bool {
			return c.ApplicationCredentialName == "a" && c.Username == "u" && c.ApplicationCredentialID == ""
		}, ""},
		"a token": {[]string{`{"tokenId":"t"}`, cloud}, func(c *client.Credentials) bool {
			return c.Method() == client.ByToken && c.Token == "t" && c.Password == ""
		}, ""},
		"nothing at all":            {[]string{`{}`, `{}`}, nil, "identityEndpoint: is missing"},
		"an endpoint alone":         {[]string{`{"identityEndpoint":"https://k"}`, `{}`}, nil, "there are no credentials"},
		"a user without a password": {[]string{`{"identityEndpoint":"https://k","username":"u"}`, `{}`}, nil, "password: is missing"},
		"a user without a project":  {[]string{`{"identityEndpoint":"https://k","username":"u","password":"p"}`, `{}`}, nil, "projectName: is missing"},
		"aliases that conflict":     {[]string{`{"tenantName":"a","projectName":"b"}`, cloud}, nil, "conflicts with projectName"},
	} {
		t.Run(name, func(t *testing.T) {
			var c *client.Credentials
			with, err := readCredentials(t.Context(), stack(t, tc.documents...), credentialRules{configured: &client.Credentials{}, override: true})
			if err == nil {
				c = with.creds
			}
			switch {
			case tc.fails != "" && (err == nil || !strings.Contains(err.Error(), tc.fails)):
				t.Fatalf("got %v, want %q", err, tc.fails)
			case tc.fails != "" && strings.Contains(err.Error(), "env-secret"):
				t.Fatalf("a secret is shown: %v", err)
			case tc.fails == "" && (err != nil || !tc.want(c)):
				t.Fatalf("got %+v, %v", c, err)
			}
		})
	}
}
