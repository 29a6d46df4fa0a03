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

func TestWhenDroverMakesANewCertificateAuthority(t *testing.T) {
	first, second := made(t, 0), made(t, 10)
	for _, tc := range []struct {
		name string
		all  []authority
		now  time.Time
		want string
	}{
		{"a new authority is made when none exists", nil, at(0), "there is no valid authority"},
		{"no new authority is made right after the only authority was made", []authority{first}, at(0), ""},
		{"no new authority is made while the only authority has more than a third of its life left", []authority{first}, at(9.99), ""},
		{"a new authority is made when exactly a third of the life of the only authority is left", []authority{first}, at(10), "two thirds of the authority's life are over"},
		{"no new authority is made when the old authority already has a successor", []authority{second, first}, at(12), ""},
		{"a new authority is made when the only authority has expired", []authority{first}, at(15.01), "there is no valid authority"},
		{"a new authority is made when the only authority is not valid before next year", []authority{made(t, 1)}, at(0), "there is no valid authority"},
		{"a new authority is made when the private key of the only authority is missing", []authority{withoutKey(first)}, at(1), "there is no valid authority"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := authorityDue(living(tc.all, tc.now), tc.now); got != tc.want {
				t.Errorf("due: %q, want %q", got, tc.want)
			}
		})
	}
}

func TestWhichCertificateAuthoritySignsCertificates(t *testing.T) {
	first, second, late := made(t, 0), made(t, 10), made(t, 13)
	for _, tc := range []struct {
		name string
		all  []authority
		now  time.Time
		want authority
	}{
		{"a single authority signs from the moment of its creation", []authority{first}, at(0), first},
		{"the older of two authorities signs until the younger is 395 days old, because a running autoscaler may not trust it yet", []authority{first, second}, at(11), first},
		{"the younger of two authorities signs once it is 395 days old, because by then every autoscaler trusts it", []authority{second, first}, at(11.1), second},
		{"the younger of two authorities signs at once when the new certificate would outlive the older authority", []authority{first, late}, at(13), late},
		{"an older authority with a private key signs when the younger authority has no private key", []authority{first, withoutKey(second)}, at(12), first},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := signer(living(tc.all, tc.now), tc.now); !got.cert.Equal(tc.want.cert) {
				t.Errorf("signed by the authority of %v, want %v", got.cert.NotBefore, tc.want.cert.NotBefore)
			}
		})
	}
}

func TestWhenACertificateIsDueForRenewal(t *testing.T) {
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
		{"a certificate that does not exist yet is due", server, nil, []authority{first}, at(0), "there is none"},
		{"a new certificate is not due", server, cert, []authority{first}, at(0), ""},
		{"a certificate with more than a third of its life left is not due", server, cert, []authority{other, first}, at(0.66), ""},
		{"a certificate with less than a third of its life left is due", server, cert, []authority{first}, at(0.67), "two thirds of its life are over"},
		{"a certificate that no trusted authority has signed is due", server, cert, []authority{other}, at(0), "no trusted authority has signed it"},
		{"a client certificate is due when the Secret contains a server certificate in its place", client, cert, []authority{first}, at(0), "no trusted authority has signed it"},
		{"a certificate that is not valid yet is due", server, cert, []authority{first}, at(-1), "it is not valid yet"},
		{"a certificate that lacks a wanted name is due", more, cert, []authority{first}, at(0), "it lacks the name drover.example"},
		{"a certificate whose common name is not the wanted name is due", renamed, cert, []authority{first}, at(0), "its name is not drover.example"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := tc.wanted.due(tc.have, tc.trusted, tc.now); got != tc.want {
				t.Errorf("due: %q, want %q", got, tc.want)
			}
		})
	}
}

func TestWhichNamesANewCertificateHas(t *testing.T) {
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
		{"the first certificate has the names that this replica requires", nil, at(0), []string{"a.example", "new.example"}},
		{"a certificate replaced early for a missing name passes its names to its successor, because another replica may require them", before, at(0.1), []string{"a.example", "new.example", "old.example"}},
		{"the successor of a certificate that is due for renewal has only the names that this replica requires", before, at(0.7), []string{"a.example", "new.example"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := w.namesFor(tc.before, tc.now); !slices.Equal(got, tc.want) {
				t.Errorf("names %v, want %v", got, tc.want)
			}
		})
	}
}
