package client

import (
	"testing"
)

func TestAuthOptionsHaveADomainForTheUserAndOneForTheProject(t *testing.T) {
	for name, tc := range map[string]struct {
		c                    Credentials
		user, scope, scopeID string
	}{
		"uses one domain for user and project":                  {Credentials{Username: "u", Password: "p", ProjectName: "x", DomainName: "d"}, "d", "d", ""},
		"uses a domain of the user and a domain of the project": {Credentials{Username: "u", Password: "p", ProjectName: "x", UserDomainName: "d", ProjectDomainName: "e"}, "d", "e", ""},
		"uses the default domain when none is given":            {Credentials{Username: "u", Password: "p", ProjectName: "x"}, "", "", "default"},
	} {
		t.Run(name, func(t *testing.T) {
			o := authOptions(&tc.c)
			if o.DomainName != tc.user || o.Scope.DomainName != tc.scope || o.Scope.DomainID != tc.scopeID {
				t.Fatalf("got %+v %+v", o, o.Scope)
			}
		})
	}
}
