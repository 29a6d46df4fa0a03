package certs

import (
	"bytes"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// The keys in the data of drover's own Secret and of the autoscaler's Secret, in addition to tls.crt and tls.key.
const (
	// authoritiesKey holds the certificates of all trusted authorities, the oldest first.
	authoritiesKey = corev1.ServiceAccountRootCAKey
	// signingKey holds the private keys of the authorities. It exists only in drover's own Secret.
	signingKey = "ca.key"
)

// authoritiesIn returns the authorities in drover's own Secret; none when the Secret is empty.
//
// Errors: the Secret's content cannot be parsed, or no authority has a private key.
func authoritiesIn(data map[string][]byte) ([]authority, error) {
	if len(data[authoritiesKey]) == 0 && len(data[signingKey]) == 0 {
		return nil, nil
	}
	keys, err := keysIn(data[signingKey])
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", signingKey, err)
	}
	var all []authority
	signs := false
	for _, der := range blocks(data[authoritiesKey]) {
		cert, err := x509.ParseCertificate(der)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", authoritiesKey, err)
		}
		a := authority{cert: cert, key: keyOf(cert, keys)}
		signs = signs || a.key != nil
		all = append(all, a)
	}
	if !signs {
		return nil, fmt.Errorf("no key in %s belongs to a certificate in %s", signingKey, authoritiesKey)
	}
	return all, nil
}

// keysIn returns the private keys in a PEM text.
func keysIn(text []byte) ([]crypto.Signer, error) {
	var keys []crypto.Signer
	for _, der := range blocks(text) {
		parsed, err := x509.ParsePKCS8PrivateKey(der)
		if err != nil {
			return nil, err
		}
		key, ok := parsed.(crypto.Signer)
		if !ok {
			return nil, errors.New("a private key is of a type that cannot sign")
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// keyOf returns the private key that belongs to a certificate; nil when none of keys does.
func keyOf(cert *x509.Certificate, keys []crypto.Signer) crypto.Signer {
	for _, key := range keys {
		if public, ok := key.Public().(interface{ Equal(crypto.PublicKey) bool }); ok && public.Equal(cert.PublicKey) {
			return key
		}
	}
	return nil
}

// leafIn returns the certificate that a Secret holds; nil when the Secret holds no readable
// certificate.
func leafIn(data map[string][]byte) *leaf {
	pair, err := tls.X509KeyPair(data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return nil
	}
	key, ok := pair.PrivateKey.(crypto.Signer)
	if !ok {
		return nil
	}
	return &leaf{pair.Leaf, key}
}

// putAuthorities writes the certificates of the authorities into a Secret's data.
func putAuthorities(data map[string][]byte, all []authority) {
	data[authoritiesKey] = certificatesOf(all)
}

// putKeys writes the private keys of the authorities into a Secret's data.
func putKeys(data map[string][]byte, all []authority) error {
	var text bytes.Buffer
	for _, a := range all {
		if a.key == nil {
			continue
		}
		encoded, err := encodeKey(a.key)
		if err != nil {
			return err
		}
		text.Write(encoded)
	}
	data[signingKey] = text.Bytes()
	return nil
}

// putLeaf writes a certificate and its key into a Secret's data.
func putLeaf(data map[string][]byte, l *leaf) error {
	key, err := encodeKey(l.key)
	if err != nil {
		return err
	}
	data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey] = encodeCertificate(l.cert), key
	return nil
}

// certificatesOf returns the certificates of authorities as one PEM text.
func certificatesOf(all []authority) []byte {
	var text bytes.Buffer
	for _, a := range all {
		text.Write(encodeCertificate(a.cert))
	}
	return text.Bytes()
}

func encodeCertificate(cert *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw})
}

func encodeKey(key crypto.Signer) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encoding a key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

// blocks returns the contents of all PEM blocks in text.
func blocks(text []byte) [][]byte {
	var all [][]byte
	for {
		block, rest := pem.Decode(text)
		if block == nil {
			return all
		}
		all, text = append(all, block.Bytes), rest
	}
}
