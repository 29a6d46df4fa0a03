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

// answer is a refusal as the cloud gave it.
type answer struct {
	service Service
	status  int
	// text is the message, kind the type of error that Neutron names beside it. The text is summed up when it is not known to
	// be OpenStack's: a page of something else is never shown.
	text, kind string
	// own: the body is an error as OpenStack writes them. proof: it is the one with which this service says that a thing is not
	// there.
	own, proof bool
}

// proxyStatuses are those with which proxies answer for themselves. Below 500, they are OpenStack's word only with its own body.
var proxyStatuses = []int{
	http.StatusBadRequest, http.StatusMethodNotAllowed, http.StatusRequestTimeout, http.StatusConflict,
	http.StatusRequestEntityTooLarge, http.StatusRequestURITooLong, http.StatusRequestHeaderFieldsTooLarge,
}

// isForeign reports whether something else than the service must have answered, so that nothing follows from the status.
func (a answer) isForeign() bool {
	switch {
	case a.status == http.StatusNotFound, a.status == http.StatusGone:
		return !a.proof
	case a.status < 400:
		// A redirect; or a success that is not the one with which the service answers this call, such as a sign-in page.
		return true
	}
	return !a.own && slices.Contains(proxyStatuses, a.status)
}

// readAnswer reads a refusal of a service.
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
		a.text = "answered " + strings.TrimSpace(http.StatusText(a.status)+" without a text")
	default:
		a.text = fmt.Sprintf("answered %d with %s that is not OpenStack's", a.status, mediaType(resp.ResponseHeader))
	}
	if a.isForeign() {
		a.text += fmt.Sprintf("; something else than the %s service answered", of)
	}
	return a
}

// faultKeys are the keys under which Nova and Cinder put an error.
var faultKeys = []string{
	"badRequest", "unauthorized", "forbidden", "itemNotFound", "badMethod", "conflictingRequest", "overLimit", "badMediaType",
	"notImplemented", "serviceUnavailable", "computeFault", "buildInProgress", "serverCapacityUnavailable",
}

// readJSON takes the message out of a body: {"itemNotFound": {"message"}} of Nova and Cinder, {"NeutronError": {"type", "message"}},
// {"error": {"code", "title", "message"}} of Keystone, {"code", "title", "message"} of Glance and of the services' framework, and
// {"errors": [{"title", "detail"}]} of the negotiation of microversions. Anything else is not OpenStack's.
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

// neutronKey is the key under which Neutron puts an error: an object, or the message alone.
const neutronKey = "NeutronError"

// words are what the services write about an error.
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

// author returns the service that writes an error in this form, Nova for Cinder too; empty when none does. Keystone's form is also
// what the other services write about a token, so it proves nothing about their things.
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

// readFramework reads the errors that the services' framework writes, before or instead of a service.
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

// glancePage is how Glance writes an error when it does not write JSON. Proxies write other pages.
var glancePage = regexp.MustCompile(`^<html>\s*<head>\s*<title>\d{3} [A-Za-z ]+</title>\s*</head>\s*<body>\s*<h1>\d{3} [A-Za-z ]+</h1>\s*[^<\s]`)

// mediaTypes are those that are shown: the header is the sender's text, as the body is.
var mediaTypes = []string{"text/html", "text/plain", "text/xml", "application/json", "application/xml"}

// mediaType returns the media type of an answer, for people.
func mediaType(header http.Header) string {
	kind, _, err := mime.ParseMediaType(header.Get("Content-Type"))
	if err != nil || !slices.Contains(mediaTypes, kind) {
		return "a text of no known type"
	}
	return kind
}
