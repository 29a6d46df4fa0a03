package certs

import (
	"crypto"
	"crypto/x509"
	"slices"
	"time"
)

const (
	day  = 24 * time.Hour
	year = 365 * day

	// serverLife is how long the server's certificate is valid, and clientLife how long the autoscaler's is valid. Each is renewed
	// after two thirds of its life. The autoscaler reads its files only when it starts. If it starts just before its certificate
	// is renewed, the certificate that it has read is still valid for a year, the last third of clientLife.
	serverLife = year
	clientLife = 3 * year
	// authorityLife is how long an authority is valid. A new authority is created after two thirds of this time.
	authorityLife = 15 * year
	// overlap is how long a new authority is trusted before it signs certificates. It is longer than the year for which an
	// autoscaler may run with the authorities that it read at its start.
	overlap = year + 30*day
	// backdated is how long before its creation a certificate becomes valid, because clocks differ.
	backdated = time.Hour
)

// authority is a certificate authority.
type authority struct {
	cert *x509.Certificate
	// key is the private key; nil for an authority that is trusted but no longer signs.
	key crypto.Signer
}

// leaf is a certificate with its private key.
type leaf struct {
	cert *x509.Certificate
	key  crypto.Signer
}

// wanted describes the certificate that the server or the autoscaler needs.
type wanted struct {
	usage      x509.ExtKeyUsage
	commonName string
	// names are the DNS names and IP addresses in the certificate.
	names []string
	life  time.Duration
}

// living returns those of the given authorities that are valid now, the oldest first.
func living(all []authority, now time.Time) []authority {
	valid := slices.DeleteFunc(slices.Clone(all), func(a authority) bool {
		return now.Before(a.cert.NotBefore) || now.After(a.cert.NotAfter)
	})
	slices.SortStableFunc(valid, func(a, b authority) int { return a.cert.NotBefore.Compare(b.cert.NotBefore) })
	return valid
}

// authorityDue returns the reason why a new authority must be created; empty when none must be created. valid are the
// authorities that are valid now, the oldest first.
func authorityDue(valid []authority, now time.Time) string {
	signing := slices.DeleteFunc(slices.Clone(valid), func(a authority) bool { return a.key == nil })
	switch {
	case len(signing) == 0:
		return "there is no valid authority"
	case aged(signing[len(signing)-1].cert, now):
		return "two thirds of the authority's life are over"
	}
	return ""
}

// signer returns the authority that signs new certificates: the oldest one, until a younger one has been trusted for the time
// overlap. When an authority would expire before a new client certificate, signer takes the next younger one. valid are the
// authorities that are valid now, the oldest first. At least one of them has a private key.
func signer(valid []authority, now time.Time) authority {
	var chosen authority
	for _, a := range valid {
		if a.key == nil {
			continue
		}
		trusted := !now.Before(a.cert.NotBefore.Add(backdated + overlap))
		if chosen.cert == nil || chosen.cert.NotAfter.Before(now.Add(clientLife)) || trusted {
			chosen = a
		}
	}
	return chosen
}

// due returns the reason why the certificate must be renewed; empty when it need not be renewed. trusted are the authorities
// that are valid now.
func (w wanted) due(have *leaf, trusted []authority, now time.Time) string {
	switch {
	case have == nil:
		return "there is none"
	case now.Before(have.cert.NotBefore):
		return "it is not valid yet"
	case !w.signedByOne(have.cert, trusted):
		return "no trusted authority has signed it"
	case aged(have.cert, now):
		return "two thirds of its life are over"
	case have.cert.Subject.CommonName != w.commonName:
		return "its name is not " + w.commonName
	}
	has := namesOf(have.cert)
	for _, name := range w.names {
		if !slices.Contains(has, name) {
			return "it lacks the name " + name
		}
	}
	return ""
}

// signedByOne reports whether one of the trusted authorities has signed the certificate, and the certificate has the key usage in
// w (server or client).
func (w wanted) signedByOne(cert *x509.Certificate, trusted []authority) bool {
	return slices.Contains(cert.ExtKeyUsage, w.usage) && slices.ContainsFunc(trusted, func(a authority) bool {
		return cert.CheckSignatureFrom(a.cert) == nil
	})
}

// namesFor returns the names for a new certificate: the names in w, and those of the old certificate before, which is nil when
// there is none. The old names are left out once the old certificate is so old that it must be renewed. Until then they stay,
// because another replica, of another version or with other flags, may want them. Without them, the two replicas would replace
// each other's certificates endlessly.
func (w wanted) namesFor(before *leaf, now time.Time) []string {
	names := slices.Clone(w.names)
	if before != nil && !aged(before.cert, now) {
		names = append(names, namesOf(before.cert)...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// aged reports whether two thirds of a certificate's life have passed.
func aged(cert *x509.Certificate, now time.Time) bool {
	life := cert.NotAfter.Sub(cert.NotBefore)
	return !now.Before(cert.NotBefore.Add(life / 3 * 2))
}

// namesOf returns the DNS names and IP addresses of a certificate.
func namesOf(cert *x509.Certificate) []string {
	names := slices.Clone(cert.DNSNames)
	for _, ip := range cert.IPAddresses {
		names = append(names, ip.String())
	}
	return names
}
