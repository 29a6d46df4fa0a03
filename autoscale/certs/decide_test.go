package certs

import (
	"crypto"
	"crypto/x509"
	"slices"
	"testing"
	"time"
)

// origin is the time at which the first authority of a test is created.
var origin = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func at(years float64) time.Time { return origin.Add(time.Duration(years * float64(year))) }

// made returns an authority that was created the given number of years after origin.
func made(t *testing.T, years float64) authority {
	t.Helper()
	a, err := makeAuthority(at(years))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func withoutKey(a authority) authority { return authority{cert: a.cert, key: crypto.Signer(nil)} }

func TestAuthorityDue(t *testing.T) {
	first, second := made(t, 0), made(t, 10)
	for _, tc := range []struct {
		name string
		all  []authority
		now  time.Time
		want string
	}{
		{"there is none", nil, at(0), "there is no authority that is valid"},
		{"a new authority", []authority{first}, at(0), ""},
		{"one with more than a third of its life left", []authority{first}, at(9.99), ""},
		{"one with a third of its life left", []authority{first}, at(10), "two thirds of the authority's life are over"},
		{"an old one beside a new one", []authority{second, first}, at(12), ""},
		{"one that has ended", []authority{first}, at(15.01), "there is no authority that is valid"},
		{"one that is valid a year from now", []authority{made(t, 1)}, at(0), "there is no authority that is valid"},
		{"one without a key", []authority{withoutKey(first)}, at(1), "there is no authority that is valid"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := authorityDue(living(tc.all, tc.now), tc.now); got != tc.want {
				t.Errorf("due: %q, want %q", got, tc.want)
			}
		})
	}
}

func TestSigner(t *testing.T) {
	first, second, late := made(t, 0), made(t, 10), made(t, 13)
	for _, tc := range []struct {
		name string
		all  []authority
		now  time.Time
		want authority
	}{
		{"the only one, from its first moment", []authority{first}, at(0), first},
		{"the older one while the younger is not trusted for long enough", []authority{first, second}, at(11), first},
		{"the younger one once it is", []authority{second, first}, at(11.1), second},
		{"the younger one at once when the older ends before what it would sign", []authority{first, late}, at(13), late},
		{"the one with a key", []authority{first, withoutKey(second)}, at(12), first},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := signer(living(tc.all, tc.now), tc.now); !got.cert.Equal(tc.want.cert) {
				t.Errorf("signed by the authority of %v, want %v", got.cert.NotBefore, tc.want.cert.NotBefore)
			}
		})
	}
}

func TestDue(t *testing.T) {
	first, other := made(t, 0), made(t, 0)
	server := wanted{usage: x509.ExtKeyUsageServerAuth, commonName: "drover.drover.svc", names: []string{"drover.drover.svc", "10.0.0.1"}, life: serverLife}
	cert, err := server.make(first, server.names, at(0))
	if err != nil {
		t.Fatal(err)
	}
	client := wanted{usage: x509.ExtKeyUsageClientAuth, commonName: ClientName, life: clientLife}
	more, renamed := server, server
	more.names = append(slices.Clone(server.names), "drover.example")
	renamed.commonName = "drover.example"
	for _, tc := range []struct {
		name    string
		wanted  wanted
		have    *leaf
		trusted []authority
		now     time.Time
		want    string
	}{
		{"there is none", server, nil, []authority{first}, at(0), "there is none"},
		{"a new one", server, cert, []authority{first}, at(0), ""},
		{"one with more than a third of its life left", server, cert, []authority{other, first}, at(0.66), ""},
		{"one with less", server, cert, []authority{first}, at(0.67), "two thirds of its life are over"},
		{"one of an authority that is not trusted", server, cert, []authority{other}, at(0), "none of the authorities that are trusted now has signed it"},
		{"one for the other side", client, cert, []authority{first}, at(0), "none of the authorities that are trusted now has signed it"},
		{"one that is valid later: a clock was wrong", server, cert, []authority{first}, at(-1), "it is not valid yet"},
		{"one that lacks a name", more, cert, []authority{first}, at(0), "it lacks the name drover.example"},
		{"one with another common name", renamed, cert, []authority{first}, at(0), "its name is not drover.example"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := tc.wanted.due(tc.have, tc.trusted, tc.now); got != tc.want {
				t.Errorf("due: %q, want %q", got, tc.want)
			}
		})
	}
}

func TestNamesFor(t *testing.T) {
	before, err := wanted{commonName: "a", life: serverLife}.make(made(t, 0), []string{"old.example", "a.example"}, at(0))
	if err != nil {
		t.Fatal(err)
	}
	w := wanted{names: []string{"new.example", "a.example"}}
	for _, tc := range []struct {
		name   string
		before *leaf
		now    time.Time
		want   []string
	}{
		{"there was none", nil, at(0), []string{"a.example", "new.example"}},
		{"names of one that is not old stay, since another replica may want them", before, at(0.1), []string{"a.example", "new.example", "old.example"}},
		{"names of an old one that are no longer wanted are left out", before, at(0.7), []string{"a.example", "new.example"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := w.namesFor(tc.before, tc.now); !slices.Equal(got, tc.want) {
				t.Errorf("names %v, want %v", got, tc.want)
			}
		})
	}
}
