package certs

import (
	"bytes"
	"time"
)

// ownContent is the content of drover's own Secret after bringOwn has brought the Secret up to date.
type ownContent struct {
	// trusted are the authorities that are valid now, the oldest first.
	trusted []authority
	server  *leaf
}

// bringOwn brings the data of drover's own Secret up to date. It returns the content, and the changes with the reason of each.
// There are no changes when all is up to date.
//
// Errors: the stored authorities cannot be read.
func bringOwn(data map[string][]byte, server wanted, now time.Time) (ownContent, []string, error) {
	var reasons []string
	all, err := authoritiesIn(data)
	if err != nil {
		return ownContent{}, nil, err
	}
	trusted := living(all, now)
	if len(trusted) < len(all) {
		reasons = append(reasons, "an authority that is no longer valid is removed")
	}
	if why := authorityDue(trusted, now); why != "" {
		made, err := makeAuthority(now)
		if err != nil {
			return ownContent{}, nil, err
		}
		trusted = append(trusted, made)
		reasons = append(reasons, "a new authority: "+why)
	}
	if len(reasons) > 0 {
		putAuthorities(data, trusted)
		if err := putKeys(data, trusted); err != nil {
			return ownContent{}, nil, err
		}
	}
	cert, why, err := bringLeaf(data, trusted, server, now)
	if why != "" {
		reasons = append(reasons, "a new server certificate: "+why)
	}
	return ownContent{trusted, cert}, reasons, err
}

// bringAutoscalers brings the data of the autoscaler's Secret up to date. It returns the certificate in the data, and the
// changes with the reason of each.
func bringAutoscalers(data map[string][]byte, trusted []authority, autoscaler wanted, now time.Time) (*leaf, []string, error) {
	var reasons []string
	if !bytes.Equal(data[authoritiesKey], certificatesOf(trusted)) {
		putAuthorities(data, trusted)
		reasons = append(reasons, "the list of trusted authorities")
	}
	cert, why, err := bringLeaf(data, trusted, autoscaler, now)
	if why != "" {
		reasons = append(reasons, "a new autoscaler certificate: "+why)
	}
	return cert, reasons, err
}

// bringLeaf renews the certificate in a Secret's data when that is due. It returns the current certificate, and the reason for
// the renewal; the reason is empty when the certificate was not renewed.
func bringLeaf(data map[string][]byte, trusted []authority, w wanted, now time.Time) (*leaf, string, error) {
	have := leafIn(data)
	why := w.due(have, trusted, now)
	if why == "" {
		return have, "", nil
	}
	made, err := w.make(signer(trusted, now), w.namesFor(have, now), now)
	if err != nil {
		return nil, "", err
	}
	return made, why, putLeaf(data, made)
}
