package autoscale

import (
	"crypto/tls"
	"crypto/x509"
	"maps"
	"slices"
	"testing"
	"time"
)

// origin is the time at which the first authority of a test is created.
var origin = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func at(years float64) time.Time { return origin.Add(time.Duration(years * float64(year))) }

// made returns an authority that was created the given number of years after origin.
func made(t *testing.T, years float64) *tls.Certificate {
	t.Helper()
	a, _, err := keepAuthority(map[string][]byte{}, at(years))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestWhenDroverMakesANewCertificateAuthority(t *testing.T) {
	data := map[string][]byte{}
	first, _, err := keepAuthority(data, at(0))
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name string
		now  time.Time
		made bool
	}{
		{"no new authority is made right after the authority was made", at(0), false},
		{"no new authority is made shortly before the end of the authority, because no running autoscaler would trust it", at(14.99), false},
		{"no new authority is made while the clock is behind", at(-1), false},
		{"a new authority is made when the authority has ended", at(15), true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, changes, err := keepAuthority(maps.Clone(data), tc.now)
			if err != nil || got.Leaf.Equal(first.Leaf) == tc.made || len(changes) > 0 != tc.made {
				t.Errorf("a new authority: %v, changes %v, error %v; want a new one: %v", !got.Leaf.Equal(first.Leaf), changes, err, tc.made)
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
	last, err := server.make(first, server.names, at(14.5))
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
		have    *tls.Certificate
		trusted *tls.Certificate
		now     time.Time
		want    string
	}{
		{"a certificate that does not exist yet is due", server, nil, first, at(0), "there is none that can be read"},
		{"a new certificate is not due", server, cert, first, at(0), ""},
		{"a certificate with more than a third of its life left is not due", server, cert, first, at(0.66), ""},
		{"a certificate with less than a third of its life left is due", server, cert, first, at(0.67), "two thirds of its life are over"},
		{"a certificate that another authority has signed is due", server, cert, other, at(0), "the authority has not signed it"},
		{"a client certificate is due when the Secret contains a server certificate in its place", client, cert, first, at(0), "the authority has not signed it"},
		{"a certificate that is not valid yet is due", server, cert, first, at(-1), "it is not valid yet"},
		{"a certificate that ends with its authority is not renewed again and again", server, last, first, at(14.9), ""},
		{"a certificate that lacks a wanted name is due", more, cert, first, at(0), "it lacks the name drover.example"},
		{"a certificate whose common name is not the wanted name is due", renamed, cert, first, at(0), "its name is not drover.example"},
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
		before *tls.Certificate
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
