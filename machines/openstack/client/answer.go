package client

import (
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2"
)

// answer is a parsed error response of the cloud, or the fault of a server in ERROR.
type answer struct {
	service Service
	status  int
	// call is the verb and the collection of the call, and id the resource in its path; empty for a call to a whole collection.
	call requestKind
	id   string
	// text is the message of the response. It is only a summary when the body is not known to come from the cloud, because drover
	// never shows such a body. kind is the error type that Neutron sends with the message.
	text, kind string
	// own is true when the body is an error in OpenStack's format or in that of a vendor's gateway. proof is true when the body has the
	// form in which the called service itself reports that a resource does not exist.
	own, proof bool
	traits     trait
	// pause is how long the answer asks for no further requests; 0 when it does not ask.
	pause time.Duration
}

// statusDecides are the statuses below 500 whose meaning does not depend on the body.
var statusDecides = []int{
	http.StatusUnauthorized, http.StatusMethodNotAllowed, http.StatusNotAcceptable, http.StatusUnsupportedMediaType,
	http.StatusTooManyRequests,
}

// isForeign reports whether the response must have come from something other than the service, so that its status proves nothing.
func (a *answer) isForeign() bool {
	switch {
	case a.status == http.StatusNotFound, a.status == http.StatusGone:
		return !a.proof
	case a.status < 400:
		// The service itself answers neither with a redirect nor with an unexpected success status. A proxy does, for example with a
		// sign-in page.
		return true
	}
	return !a.own && a.status < 500 && !slices.Contains(statusDecides, a.status)
}

// readAnswer parses an error response of a service.
func readAnswer(of Service, resp gophercloud.ErrUnexpectedResponseCode) *answer {
	a := &answer{service: of, status: resp.Actual, call: requestKind{verb: resp.Method}, pause: pauseAfter(resp.Actual, resp.ResponseHeader)}
	// An action on a server, such as a start, makes nothing.
	makes := resp.Method == http.MethodPost && of != Identity
	if u, err := url.Parse(resp.URL); err == nil {
		a.call.collection, a.id = splitPath(u.Path)
		makes = makes && !strings.HasSuffix(u.Path, "/action")
	}
	a.readJSON(resp.Body)
	if page := glancePage.FindSubmatch(resp.Body); of == Image && page != nil {
		a.own, a.proof, a.text = true, true, string(page[1])
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
	switch {
	case a.isForeign():
		a.traits = notService
		a.text += fmt.Sprintf("; the answer did not come from the %s service", of)
	case a.namesAbsent():
		a.traits = absent
	case makes:
		a.traits = making
	}
	return a
}

// things matches, for each collection, answers about a resource of that collection. Unless both groups are empty, it does not exist.
var things = map[string]*regexp.Regexp{
	"servers": thing("instance|server"), "ports": thing("port"), "floatingips": thing("floating ?ip"), "volumes": thing("volume"),
	"images": thing("image"), "os-keypairs": thing("key ?pair"),
}

func thing(kind string) *regexp.Regexp {
	return says(`^(?:the )?(no |failed to find |could not find )?(?:the )?(?:` + kind + `)(NotFound$|\b.*` + saysAbsent.String() + `)?`)
}

var saysAbsent = regexp.MustCompile(`\b(?:found|exists?)\b`)

// namesAbsent reports whether the answer says that the resource of the call does not exist. A 404 may also mean that a part of the
// resource or something else does not exist, or that a policy hides the resource. Neutron's type says what does not exist. Where there is
// only a text, it begins with the kind of the resource; a text in another language has the resource's ID.
func (a *answer) namesAbsent() bool {
	like := things[a.call.collection]
	if !a.proof || a.status != http.StatusNotFound && a.status != http.StatusGone || a.id == "" || like == nil {
		return false
	}
	words := a.text
	if a.kind != "" {
		words = a.kind
	}
	if named := like.FindStringSubmatch(words); named != nil {
		return named[1]+named[2] != ""
	}
	return strings.Contains(words, a.id) && !saysAbsent.MatchString(words)
}

// row returns the first row of the table that fits. The last row fits everything.
func (a *answer) row() *refusal {
	words := a.text
	if a.kind != "" {
		words = a.kind + ": " + a.text
	}
	first := slices.IndexFunc(refusals, func(r refusal) bool {
		return a.traits&r.needs == r.needs && (r.service == "" || r.service == a.service) &&
			(r.status == 0 || r.status == a.status || r.status == a.status/100) && (r.text == nil || r.text.MatchString(words))
	})
	return &refusals[first]
}

// faultKeys are the keys under which Nova and Cinder write an error.
var faultKeys = []string{
	"badRequest", "unauthorized", "forbidden", "itemNotFound", "badMethod", "conflictingRequest", "overLimit", "badMediaType",
	"notImplemented", "serviceUnavailable", "computeFault", "buildInProgress", "serverCapacityUnavailable",
}

// words are the fields of a JSON object that describes an error.
type words struct {
	Message, Detail, Type, Title string
	Code, Status                 any
}

func (w words) text() string {
	if w.Detail == "" || strings.Contains(w.Message, w.Detail) {
		return w.Message
	}
	return w.Message + " " + w.Detail
}

// readJSON reads the message from a body. Any body without one is not OpenStack's, and changes nothing. The forms are, in this order:
//   - {"itemNotFound": {"message"}} of Nova and Cinder, which proves that a resource does not exist;
//   - {"NeutronError": {"type", "message"}}, or just a message;
//   - {"error": {"code", "title", "message"}} of Keystone. All services use this form for errors about tokens, so that it proves nothing
//     about the resources of another service;
//   - {"code", "title", "message"} of Glance and of the services' common framework, which writes it before the service is called;
//   - {"errors": [{"title", "detail"}]} of the microversion negotiation;
//   - {"error": {"code", "message"}} and {"error_code", "error_msg"} of vendors' clouds. Such an error answers the request as
//     OpenStack's do.
func (a *answer) readJSON(body []byte) {
	var keys map[string]json.RawMessage
	if json.Unmarshal(body, &keys) != nil {
		return
	}
	for key, raw := range keys {
		var w words
		if json.Unmarshal(raw, &w) != nil && (key != "NeutronError" || json.Unmarshal(raw, &w.Message) != nil) {
			continue
		}
		switch {
		case slices.Contains(faultKeys, key):
			a.proof = key == "itemNotFound" && (a.service == Compute || a.service == Volume)
		case key == "NeutronError":
			a.proof = a.service == Network
		case key == "error" && w.Title != "" && w.Code == float64(a.status):
			a.proof = a.service == Identity
		default:
			continue
		}
		a.own, a.text, a.kind = true, w.text(), w.Type
	}
	a.readCommon(keys)
}

// readCommon reads the forms of the services' common framework, of the microversion negotiation and of vendors' clouds. Their keys must be
// written exactly so, also in the case of letters: a page of another program proves nothing.
func (a *answer) readCommon(keys map[string]json.RawMessage) {
	var top, vendor words
	var list []words
	for key, into := range map[string]any{
		"code": &top.Code, "title": &top.Title, "message": &top.Message, "errors": &list, "error_code": &vendor.Code, "error_msg": &vendor.Message,
	} {
		_ = json.Unmarshal(keys[key], into) // a field that is missing or of another type stays empty
	}
	var nested words
	if json.Unmarshal(keys["error"], &nested) == nil && nested.Code != nil {
		vendor = nested
	}
	switch code, _ := top.Code.(string); {
	case strings.HasPrefix(code, strconv.Itoa(a.status)+" ") && top.Title != "" && top.Message != "":
		a.own, a.proof, a.text = true, a.service == Image, strings.ReplaceAll(top.Message, "<br />", " ")
	case len(list) > 0 && list[0].Title != "" && list[0].Status == float64(a.status):
		a.own, a.text = true, list[0].Title+": "+list[0].Detail
	case !a.own && vendor.Code != nil && vendor.Message != "":
		a.own, a.proof, a.text = true, true, fmt.Sprintf("%s (%v)", vendor.Message, vendor.Code)
	}
}

// glancePage matches the HTML pages in which Glance writes an error when it does not write JSON. Pages of proxies look different.
var glancePage = regexp.MustCompile(`^<html>\s*<head>\s*<title>\d{3} [A-Za-z ]+</title>\s*</head>\s*<body>\s*` +
	`<h1>\d{3} [A-Za-z ]+</h1>\s*([^<\s][^<]*)`)

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
