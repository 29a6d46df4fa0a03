package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/drover-project/drover/test/openstack/internal/wire"
)

// Refuse returns an error in the style of the service that was called.
func (q *Request) Refuse(status int, format string, args ...any) Reply {
	message := fmt.Sprintf(format, args...)
	switch q.Service {
	case ServiceCompute, ServiceVolume:
		return NovaError(status, message)
	case ServiceNetwork:
		return NeutronError(status, "HTTPBadRequest", "%s", message)
	case ServiceImage:
		return GlanceError(status, message)
	default:
		return KeystoneError(status, "%s", message)
	}
}

// novaFaults are the keys under which Nova and Cinder write an error.
var novaFaults = map[int]string{
	http.StatusBadRequest: "badRequest", http.StatusUnauthorized: "unauthorized", http.StatusForbidden: "forbidden",
	http.StatusNotFound: "itemNotFound", http.StatusConflict: "conflictingRequest",
	http.StatusRequestEntityTooLarge: "overLimit", http.StatusTooManyRequests: "overLimit",
	http.StatusServiceUnavailable: "serviceUnavailable",
}

// NovaError returns an error as Nova and Cinder write it.
func NovaError(status int, message string) Reply {
	key, known := novaFaults[status]
	if !known {
		key = "computeFault"
	}
	return Reply{Status: status, Body: wire.Object{{key, wire.Object{{"code", status}, {"message", message}}}}}
}

// NeutronError returns an error as Neutron writes it; kind is its type.
func NeutronError(status int, kind, format string, args ...any) Reply {
	return Reply{Status: status, Body: wire.Object{{"NeutronError", wire.Object{
		{"type", kind}, {"message", fmt.Sprintf(format, args...)}, {"detail", ""},
	}}}}
}

// KeystoneError returns an error as Keystone writes it.
func KeystoneError(status int, format string, args ...any) Reply {
	r := Reply{Status: status, Body: wire.Object{{"error", wire.Object{
		{"code", status}, {"message", fmt.Sprintf(format, args...)}, {"title", http.StatusText(status)},
	}}}}
	if status == http.StatusUnauthorized {
		r = r.With("WWW-Authenticate", `Keystone uri="identity"`)
	}
	return r
}

// GlanceError returns an error as Glance writes it.
func GlanceError(status int, message string) Reply {
	title := fmt.Sprintf("%d %s", status, http.StatusText(status))
	return Reply{Status: status, Body: "<html>\n <head>\n  <title>" + title + "</title>\n </head>\n <body>\n  <h1>" + title +
		"</h1>\n  " + message + "<br /><br />\n\n\n\n </body>\n</html>"}
}

// Unauthorized returns a service's answer to an invalid token. Glance's text differs from the
// others'.
func (q *Request) Unauthorized() Reply {
	if q.Service != ServiceImage {
		return Unauthorized()
	}
	return GlanceError(http.StatusUnauthorized, "This server could not verify that you are authorized to access the document you requested. "+
		"Either you supplied the wrong credentials (e.g., bad password), or your browser does not understand how to supply the credentials required.").
		With("WWW-Authenticate", `Keystone uri="identity"`)
}

// Unauthorized returns the answer to a call without a valid token.
func Unauthorized() Reply {
	return KeystoneError(http.StatusUnauthorized, "The request you have made requires authentication.")
}

// StrictDecode returns an error for keys that the API does not know, as the real APIs do.
func StrictDecode(body []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("more than one JSON value")
	}
	return nil
}

// UnknownKey returns the unknown key in an error of StrictDecode.
func UnknownKey(err error) (string, bool) {
	_, name, unknown := strings.Cut(err.Error(), "unknown field ")
	return strings.Trim(name, `"`), unknown
}
