package openstack

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// refuse answers an error in the style of the service that was called.
func (q *request) refuse(status int, format string, args ...any) reply {
	message := fmt.Sprintf(format, args...)
	switch q.service {
	case serviceCompute, serviceVolume:
		return novaError(status, message)
	case serviceNetwork:
		return neutronError(status, "HTTPBadRequest", "%s", message)
	case serviceImage:
		return glanceError(status, message)
	default:
		return keystoneError(status, "%s", message)
	}
}

// novaFaults are the keys under which Nova and Cinder put an error.
var novaFaults = map[int]string{
	http.StatusBadRequest: "badRequest", http.StatusUnauthorized: "unauthorized", http.StatusForbidden: "forbidden",
	http.StatusNotFound: "itemNotFound", http.StatusConflict: "conflictingRequest",
	http.StatusRequestEntityTooLarge: "overLimit", http.StatusTooManyRequests: "overLimit",
	http.StatusServiceUnavailable: "serviceUnavailable",
}

func novaError(status int, message string) reply {
	key, known := novaFaults[status]
	if !known {
		key = "computeFault"
	}
	return reply{status: status, body: object{{key, object{{"code", status}, {"message", message}}}}}
}

func neutronError(status int, kind, format string, args ...any) reply {
	return reply{status: status, body: object{{"NeutronError", object{
		{"type", kind}, {"message", fmt.Sprintf(format, args...)}, {"detail", ""},
	}}}}
}

func keystoneError(status int, format string, args ...any) reply {
	r := reply{status: status, body: object{{"error", object{
		{"code", status}, {"message", fmt.Sprintf(format, args...)}, {"title", http.StatusText(status)},
	}}}}
	if status == http.StatusUnauthorized {
		r = r.with("WWW-Authenticate", `Keystone uri="identity"`)
	}
	return r
}

func glanceError(status int, message string) reply {
	title := fmt.Sprintf("%d %s", status, http.StatusText(status))
	return reply{status: status, body: "<html>\n <head>\n  <title>" + title + "</title>\n </head>\n <body>\n  <h1>" + title +
		"</h1>\n  " + message + "<br /><br />\n\n\n\n </body>\n</html>"}
}

// unauthorized is what a service says to a token that is none; Glance has words of its own.
func (q *request) unauthorized() reply {
	if q.service != serviceImage {
		return unauthorized()
	}
	return glanceError(http.StatusUnauthorized, "This server could not verify that you are authorized to access the document you requested. "+
		"Either you supplied the wrong credentials (e.g., bad password), or your browser does not understand how to supply the credentials required.").
		with("WWW-Authenticate", `Keystone uri="identity"`)
}

func unauthorized() reply {
	return keystoneError(http.StatusUnauthorized, "The request you have made requires authentication.")
}

// strictDecode refuses keys that the API does not know, as the real ones do.
func strictDecode(body []byte, into any) error {
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

// unknownKey takes the key that no API knows out of strictDecode's error.
func unknownKey(err error) (string, bool) {
	_, name, unknown := strings.Cut(err.Error(), "unknown field ")
	return strings.Trim(name, `"`), unknown
}
