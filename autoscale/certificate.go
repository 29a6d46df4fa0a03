package autoscale

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"net"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

const (
	day  = 24 * time.Hour
	year = 365 * day

	// serverLife is how long the server's certificate is valid, and clientLife how long the autoscaler's is valid. Each is renewed
	// after two thirds of its life. The autoscaler reads its files only when it starts. If it starts just before its certificate
	// is renewed, the certificate that it has read is still valid for a year, the last third of clientLife.
	serverLife = year
	clientLife = 3 * year
	// authorityLife is how long the authority is valid. No certificate outlives it. At its end a new one is made, and autoscalers must be
	// started again.
	authorityLife = 15 * year
	// backdated is how long before its creation a certificate becomes valid, because clocks differ.
	backdated = time.Hour
)

// The keys of the authority in a Secret's data. The private key is in drover's own Secret only. Server and client certificates have the
// keys of a Secret of type kubernetes.io/tls.
const (
	authorityCert = corev1.ServiceAccountRootCAKey
	authorityKey  = "ca.key"
)

// pairIn returns the certificate with its private key in a Secret's data; nil when the data has neither of them.
//
// Errors: the certificate or the key cannot be read, or they do not belong together.
func pairIn(data map[string][]byte, cert, key string) (*tls.Certificate, error) {
	if len(data[cert]) == 0 && len(data[key]) == 0 {
		return nil, nil
	}
	pair, err := tls.X509KeyPair(data[cert], data[key])
	if err != nil {
		return nil, fmt.Errorf("%s and %s: %w", cert, key, err)
	}
	return &pair, nil
}

// put writes a certificate with its private key into a Secret's data.
func put(pair *tls.Certificate, data map[string][]byte, cert, key string) error {
	der, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		return fmt.Errorf("encoding a key: %w", err)
	}
	data[cert], data[key] = encoded(pair), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	return nil
}

// encoded returns the certificate as PEM text.
func encoded(pair *tls.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Leaf.Raw})
}

// wanted describes the certificate that the server or the autoscaler needs.
type wanted struct {
	usage      x509.ExtKeyUsage
	commonName string
	// names are the DNS names and IP addresses in the certificate.
	names []string
	life  time.Duration
}

// keepAuthority brings the authority in the data of drover's own Secret up to date, and returns it with what has changed.
//
// Errors: the stored authority cannot be read. It is not replaced, because that cuts every autoscaler off.
func keepAuthority(data map[string][]byte, now time.Time) (*tls.Certificate, []string, error) {
	have, err := pairIn(data, authorityCert, authorityKey)
	if err != nil || have != nil && now.Before(have.Leaf.NotAfter) {
		return have, nil, err
	}
	made, err := sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: "drover gRPC authority " + now.UTC().Format(time.DateOnly)},
		IsCA:    true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign,
		NotBefore: now.Add(-backdated), NotAfter: now.Add(authorityLife),
	}, nil)
	if err != nil {
		return nil, nil, fmt.Errorf("making an authority: %w", err)
	}
	return made, []string{"a new authority: there is no valid one"}, put(made, data, authorityCert, authorityKey)
}

// keep renews the certificate in a Secret's data when that is due. It returns the current certificate with what has changed.
func (w wanted) keep(data map[string][]byte, authority *tls.Certificate, now time.Time) (*tls.Certificate, []string, error) {
	// A certificate that cannot be read is made again: nobody depends on it.
	have, _ := pairIn(data, corev1.TLSCertKey, corev1.TLSPrivateKeyKey)
	why := w.due(have, authority, now)
	if why == "" {
		return have, nil, nil
	}
	made, err := w.make(authority, w.namesFor(have, now), now)
	if err != nil {
		return nil, nil, fmt.Errorf("making the certificate of %s: %w", w.commonName, err)
	}
	return made, []string{"a new certificate of " + w.commonName + ": " + why}, put(made, data, corev1.TLSCertKey, corev1.TLSPrivateKeyKey)
}

// due returns the reason why the certificate must be renewed; empty when it need not be renewed. A certificate that ends with its
// authority is not renewed before that.
func (w wanted) due(have, authority *tls.Certificate, now time.Time) string {
	switch {
	case have == nil:
		return "there is none that can be read"
	case now.Before(have.Leaf.NotBefore):
		return "it is not valid yet"
	case !slices.Contains(have.Leaf.ExtKeyUsage, w.usage) || have.Leaf.CheckSignatureFrom(authority.Leaf) != nil:
		return "the authority has not signed it"
	case aged(have.Leaf, now) && have.Leaf.NotAfter.Before(authority.Leaf.NotAfter):
		return "two thirds of its life are over"
	case have.Leaf.Subject.CommonName != w.commonName:
		return "its name is not " + w.commonName
	}
	has := namesOf(have.Leaf)
	for _, name := range w.names {
		if !slices.Contains(has, name) {
			return "it lacks the name " + name
		}
	}
	return ""
}

// namesFor returns the names for a new certificate: the names in w, and those of the old certificate before, which is nil when
// there is none. The old names are left out once the old certificate is so old that it must be renewed. Until then they stay,
// because another replica, of another version or with other flags, may want them. Without them, the two replicas would replace
// each other's certificates endlessly.
func (w wanted) namesFor(before *tls.Certificate, now time.Time) []string {
	names := slices.Clone(w.names)
	if before != nil && !aged(before.Leaf, now) {
		names = append(names, namesOf(before.Leaf)...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// make creates a certificate with the given names. The certificate does not outlive its authority.
func (w wanted) make(authority *tls.Certificate, names []string, now time.Time) (*tls.Certificate, error) {
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: w.commonName}, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{w.usage},
		BasicConstraintsValid: true, NotBefore: now.Add(-backdated), NotAfter: now.Add(w.life),
	}
	if authority.Leaf.NotAfter.Before(template.NotAfter) {
		template.NotAfter = authority.Leaf.NotAfter
	}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	return sign(template, authority)
}

// sign creates a private key and a certificate for it. A nil authority means that the certificate signs itself.
func sign(template *x509.Certificate, authority *tls.Certificate) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	if authority == nil {
		authority = &tls.Certificate{Leaf: template, PrivateKey: key}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, authority.Leaf, key.Public(), authority.PrivateKey)
	if err != nil {
		return nil, err
	}
	leaf, err := x509.ParseCertificate(der)
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, err
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
