package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/drover-project/drover/machines/fault"
)

// unanswered returns the error for a request without a response, or with a response that could not be read.
func unanswered(c Call, err error) *fault.Error {
	var network net.Error
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &network) && network.Timeout():
		return fault.New(fault.Transient, fault.CodeCloudUnavailable,
			"%s: no answer in time: %s has %s for the connection, %s for the TLS handshake, %s for the response headers and %s for the whole call",
			c.Doing, hostIn(err), dialTimeout, tlsTimeout, headTimeout, callTimeout)
	case errors.Is(err, context.Canceled):
		return fault.New(fault.Transient, fault.CodeCloudUnavailable, "%s: canceled because drover is stopping", c.Doing)
	case unreadable(err):
		return foreign("%s: the response is not one of an OpenStack service", c.Doing)
	}
	text, known := reason(err)
	if !known {
		return foreign("%s: %s does not speak HTTP", c.Doing, hostIn(err))
	}
	return fault.New(fault.Transient, fault.CodeCloudUnavailable, "%s: %s", c.Doing, text)
}

// hostIn returns the host of a failed request.
func hostIn(err error) string {
	var request *url.Error
	if errors.As(err, &request) {
		if u, parseErr := url.Parse(request.URL); parseErr == nil && u.Host != "" {
			return u.Host
		}
	}
	return "the endpoint"
}

// unreadable reports whether err means that a response could not be decoded. The text of such an error quotes the response, so it
// must not be shown.
func unreadable(err error) bool {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	var stamp *time.ParseError
	return errors.As(err, &syntax) || errors.As(err, &kind) || errors.As(err, &stamp)
}

// reason returns why a request failed. The error texts of the HTTP and TLS libraries may quote what the server sent. reason
// returns only texts without such a quotation; for other errors, known is false.
func reason(err error) (text string, known bool) {
	var request *url.Error
	var dns *net.DNSError
	var operation *net.OpError
	var verification *tls.CertificateVerificationError
	switch {
	case errors.As(err, &dns):
		return fmt.Sprintf("looking up %s: %s", dns.Name, dns.Err), true
	case errors.Is(err, http.ErrSchemeMismatch):
		return hostIn(err) + " speaks HTTP, not HTTPS", true
	case errors.As(err, &verification):
		return fmt.Sprintf("the certificate of %s %s", hostIn(err), certificate(err)), true
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return hostIn(err) + " closed the connection before its answer was complete", true
	case errors.As(err, &operation):
		return fault.Repeated(operation.Error()), true
	case errors.As(err, &request):
		return "", false
	}
	return err.Error(), true
}

// certificate returns what is wrong with a server's certificate, without quoting from it.
func certificate(err error) string {
	var authority x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &authority):
		return "is signed by an unknown authority; set its CA with --cloud-ca"
	case errors.As(err, &name):
		return "is for another name"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "has expired or is not valid yet"
	}
	return "is not valid"
}
