package client

import (
	"encoding/json"
	"testing"
)

func TestDomainOfUserAndProjectAtSignIn(t *testing.T) {
	for name, tc := range map[string]struct {
		c                    Credentials
		user, scope, scopeID string
	}{
		"is domainName for both when only domainName is given":                                               {Credentials{Username: "u", Password: "p", ProjectName: "x", DomainName: "d"}, "d", "d", ""},
		"is userDomainName for the user and projectDomainName for the project when only these two are given": {Credentials{Username: "u", Password: "p", ProjectName: "x", UserDomainName: "d", ProjectDomainName: "e"}, "d", "e", ""},
		"is the default domain when no domain is given":                                                      {Credentials{Username: "u", Password: "p", ProjectName: "x"}, "", "", "default"},
	} {
		t.Run(name, func(t *testing.T) {
			o := authOptions(&tc.c)
			if o.DomainName != tc.user || o.Scope.DomainName != tc.scope || o.Scope.DomainID != tc.scopeID {
				t.Fatalf("got %+v %+v", o, o.Scope)
			}
		})
	}
}

func TestWhatASignInSendsForEachWayOfSigningIn(t *testing.T) {
	for name, tc := range map[string]struct {
		c    Credentials
		want string
	}{
		"a user ID is sent without a domain (F-120)":                                       {Credentials{UserID: "i", Username: "u", UserDomainName: "d", Password: "p", ProjectID: "x"}, `{"auth":{"identity":{"methods":["password"],"password":{"user":{"id":"i","password":"p"}}},"scope":{"project":{"id":"x"}}}}`},
		"a trust is the scope, in place of the project (F-120)":                            {Credentials{UserID: "i", Password: "p", TrustID: "t", ProjectName: "x"}, `{"auth":{"identity":{"methods":["password"],"password":{"user":{"id":"i","password":"p"}}},"scope":{"OS-TRUST:trust":{"id":"t"}}}}`},
		"a token is for the project of the credentials (F-120)":                            {Credentials{Token: "t", ProjectName: "x", ProjectDomainID: "d"}, `{"auth":{"identity":{"methods":["token"],"token":{"id":"t"}},"scope":{"project":{"domain":{"id":"d"},"name":"x"}}}}`},
		"a token without a project keeps its own":                                          {Credentials{Token: "t"}, `{"auth":{"identity":{"methods":["token"],"token":{"id":"t"}}}}`},
		"an application credential by name is sent with the user's ID (F-120)":             {Credentials{ApplicationCredentialName: "n", ApplicationCredentialSecret: "s", UserID: "i"}, `{"auth":{"identity":{"application_credential":{"name":"n","secret":"s","user":{"id":"i"}},"methods":["application_credential"]}}}`},
		"an application credential by ID is sent without user, domain and project (F-120)": {Credentials{ApplicationCredentialID: "a", ApplicationCredentialSecret: "s", Username: "u", ProjectName: "x"}, `{"auth":{"identity":{"application_credential":{"id":"a","secret":"s"},"methods":["application_credential"]}}}`},
	} {
		t.Run(name, func(t *testing.T) {
			o := authOptions(&tc.c)
			scope, err := o.ToTokenV3ScopeMap()
			if err != nil {
				t.Fatal(err)
			}
			body, err := o.ToTokenV3CreateMap(scope)
			if err != nil {
				t.Fatal(err)
			}
			got, err := json.Marshal(body)
			if err != nil || string(got) != tc.want {
				t.Errorf("got %s, %v, want %s", got, err, tc.want)
			}
		})
	}
}

func TestTheErrorOfASignInNamesUserProjectAndDomainsAndNoSecret(t *testing.T) {
	for name, tc := range map[string]struct {
		c    Credentials
		want string
	}{
		"of a user by name":                    {Credentials{Username: "u", Password: "secret", DomainName: "d", ProjectName: "x", ProjectDomainID: "e"}, `as user "u" of domain "d", for project "x" of domain e`},
		"of a user by ID":                      {Credentials{UserID: "u", Password: "secret", ProjectID: "x"}, `as user u, for project x`},
		"of a trust":                           {Credentials{UserID: "u", Password: "secret", TrustID: "t"}, `as user u, for the project of trust t`},
		"of a token":                           {Credentials{Token: "secret", ProjectName: "x"}, `by token, for project "x" of domain default`},
		"of an application credential by ID":   {Credentials{ApplicationCredentialID: "a", ApplicationCredentialSecret: "secret"}, `by application credential a`},
		"of an application credential by name": {Credentials{ApplicationCredentialName: "a", Username: "u", ApplicationCredentialSecret: "secret"}, `by application credential "a" of user "u" of domain default`},
	} {
		t.Run(name+" (F-120)", func(t *testing.T) {
			if got := tc.c.describe(); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
