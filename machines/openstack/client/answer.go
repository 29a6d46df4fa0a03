package client

import (
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
)

// answer is a parsed error response of the cloud.
type answer struct {
	service Service
	status  int
	// text is the message of the response. It is only a summary when the body is not known to come from OpenStack, because drover
	// never shows such a body. kind is the error type that Neutron sends with the message.
	text, kind string
	// own is true when the body is an error in OpenStack's format. proof is true when the body has the form in which the called
	// service itself reports that a resource does not exist.
	own, proof bool
}

// proxyStatuses are the status codes below 500 that proxies generate themselves. A response with such a status counts as
// OpenStack's only if it has an OpenStack body.
var proxyStatuses = []int{
	http.StatusBadRequest, http.StatusMethodNotAllowed, http.StatusRequestTimeout, http.StatusConflict,
	http.StatusRequestEntityTooLarge, http.StatusRequestURITooLong, http.StatusRequestHeaderFieldsTooLarge,
}

// isForeign reports whether the response must have come from something other than the service, so that its status proves nothing.
func (a answer) isForeign() bool {
	switch {
	case a.status == http.StatusNotFound, a.status == http.StatusGone:
		return !a.proof
	case a.status < 400:
		// The service itself answers neither with a redirect nor with an unexpected success status. A proxy does, for example with a
		// sign-in page.
		return true
	}
	return !a.own && slices.Contains(proxyStatuses, a.status)
}

// readAnswer parses an error response of a service.
func readAnswer(of Service, resp gophercloud.ErrUnexpectedResponseCode) answer {
	a := answer{service: of, status: resp.Actual}
	var body map[string]json.RawMessage
	if json.Unmarshal(resp.Body, &body) == nil {
		a.readJSON(body)
	}
	if of == Image && glancePage.Match(resp.Body) {
		a.own, a.proof, a.text = true, a.status == http.StatusNotFound, http.StatusText(a.status)
	}
	switch {
	case a.own && a.text == "":
		a.text = http.StatusText(a.status)
	case a.own:
	case len(resp.Body) == 0:
		a.text = "the answer is " + strings.TrimSpace(http.StatusText(a.status)+" without a message")
	default:
		a.text = fmt.Sprintf("the answer (%s) is not one of OpenStack's", mediaType(resp.ResponseHeader))
	}
	if a.isForeign() {
		a.text += fmt.Sprintf("; the answer did not come from the %s service", of)
	}
	return a
}

// faultKeys are the keys under which Nova and Cinder write an error.
var faultKeys = []string{
	"badRequest", "unauthorized", "forbidden", "itemNotFound", "badMethod", "conflictingRequest", "overLimit", "badMediaType",
	"notImplemented", "serviceUnavailable", "computeFault", "buildInProgress", "serverCapacityUnavailable",
}

// readJSON reads the message from a body: {"itemNotFound": {"message"}} of Nova and Cinder, {"NeutronError": {"type", "message"}},
// {"error": {"code", "title", "message"}} of Keystone, {"code", "title", "message"} of Glance and of the services' common
// framework, and {"errors": [{"title", "detail"}]} of the microversion negotiation. Any other body is not OpenStack's.
func (a *answer) readJSON(body map[string]json.RawMessage) {
	for key, raw := range body {
		var w words
		if json.Unmarshal(raw, &w) != nil && (key != neutronKey || json.Unmarshal(raw, &w.Message) != nil) {
			continue
		}
		author := a.author(key, w)
		if author == "" {
			continue
		}
		a.own, a.text, a.kind = true, w.text(), w.Type
		switch a.service {
		case Compute, Volume:
			a.proof = key == "itemNotFound"
		default:
			a.proof = author == a.service
		}
	}
	a.readFramework(body)
}

// neutronKey is the key under which Neutron writes an error: an object, or just the message.
const neutronKey = "NeutronError"

// words are the fields of a JSON object that describes an error.
type words struct {
	Message, Detail, Type, Title string
	Code                         json.RawMessage
}

func (w words) text() string {
	if w.Detail == "" || strings.Contains(w.Message, w.Detail) {
		return w.Message
	}
	return w.Message + " " + w.Detail
}

// author returns the service that writes errors in this form, with Compute for both Nova and Cinder. It returns an empty string
// when no service writes this form. All services use Keystone's form for errors about tokens, so this form does not prove that
// another service's resource does not exist.
func (a *answer) author(key string, w words) Service {
	switch {
	case key == neutronKey:
		return Network
	case slices.Contains(faultKeys, key):
		return Compute
	case key == "error" && w.Title != "" && string(w.Code) == strconv.Itoa(a.status):
		return Identity
	}
	return ""
}

// readFramework reads the errors that the services' common framework writes before the service itself is called.
func (a *answer) readFramework(body map[string]json.RawMessage) {
	var code, title, message string
	for key, into := range map[string]*string{"code": &code, "title": &title, "message": &message} {
		if json.Unmarshal(body[key], into) != nil {
			break
		}
	}
	if strings.HasPrefix(code, fmt.Sprint(a.status)+" ") && title != "" && message != "" {
		a.own, a.text = true, strings.ReplaceAll(message, "<br />", " ")
		a.proof = a.service == Image
	}
	var list []struct {
		Status        int
		Title, Detail string
	}
	if json.Unmarshal(body["errors"], &list) == nil && len(list) > 0 && list[0].Status == a.status && list[0].Title != "" {
		a.own, a.text = true, list[0].Title+": "+list[0].Detail
	}
}

// glancePage matches the HTML pages in which Glance writes an error when it does not write JSON. Pages of proxies look different.
var glancePage = regexp.MustCompile(`^<html>\s*<head>\s*<title>\d{3} [A-Za-z ]+</title>\s*</head>\s*<body>\s*<h1>\d{3} [A-Za-z ]+</h1>\s*[^<\s]`)

// mediaTypes are the media types that messages may show. Any other value of the header could be text chosen by an untrusted sender.
var mediaTypes = []string{"text/html", "text/plain", "text/xml", "application/json", "application/xml"}

// mediaType returns the media type of a response, for messages.
func mediaType(header http.Header) string {
	kind, _, err := mime.ParseMediaType(header.Get("Content-Type"))
	if err != nil || !slices.Contains(mediaTypes, kind) {
		return "unknown type"
	}
	return kind
}
