package client

import (
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
