package certs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"net"
	"time"
)

// makeAuthority creates a self-signed authority.
func makeAuthority(now time.Time) (authority, error) {
	made, err := sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: "drover gRPC authority " + now.UTC().Format(time.DateOnly)},
		IsCA:    true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign,
		NotBefore: now.Add(-backdated), NotAfter: now.Add(authorityLife),
	}, authority{})
	if err != nil {
		return authority{}, fmt.Errorf("making an authority: %w", err)
	}
	return authority(*made), nil
}

// make creates a certificate with the given names. The certificate does not outlive its authority.
func (w wanted) make(by authority, names []string, now time.Time) (*leaf, error) {
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: w.commonName}, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{w.usage},
		BasicConstraintsValid: true, NotBefore: now.Add(-backdated), NotAfter: now.Add(w.life),
	}
	if by.cert.NotAfter.Before(template.NotAfter) {
		template.NotAfter = by.cert.NotAfter
	}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	made, err := sign(template, by)
	if err != nil {
		return nil, fmt.Errorf("making the certificate of %s: %w", w.commonName, err)
	}
	return made, nil
}

// sign creates a private key and a certificate for it. Without an authority the certificate is
// self-signed.
func sign(template *x509.Certificate, by authority) (*leaf, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	if by.cert == nil {
		by = authority{template, key}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, by.cert, key.Public(), by.key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	return &leaf{cert, key}, err
}
