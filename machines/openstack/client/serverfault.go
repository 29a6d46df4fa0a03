package client

import (
	"cmp"
	"net/http"
	"regexp"
	"strconv"

	"github.com/drover-project/drover/machines/fault"
)

// innermost matches the reason in the text of a fault. Nova wraps the reason why a build ended, and cuts the text after 255 bytes.
var innermost = regexp.MustCompile(`(?s)^.*(?: aborted| re-scheduled|Last exception): (.+)$`)

// innerStatus matches the HTTP status of a call by which Nova failed, as its clients write it.
var innerStatus = regexp.MustCompile(`\(HTTP (\d{3})\)`)

// readFault returns the fault of a server in ERROR as an answer for the table of refusals. Nova's code is mostly 500, whatever the reason.
// Only a quota (413) and what the template may not ask for (403) always have their own code, which survives a translation of the text.
func readFault(code int, text string) *answer {
	a := &answer{service: Compute, call: requestKind{verb: "BUILD"}, text: text, traits: making | building}
	if code == http.StatusForbidden || code == http.StatusRequestEntityTooLarge {
		a.status = code
	}
	if inner := innerStatus.FindStringSubmatch(text); inner != nil {
		a.status, _ = strconv.Atoi(inner[1])
	}
	return a
}

// faultRow returns the row of the table for a server's fault: by the innermost reason or, if no row knows that, by the whole text.
func faultRow(code int, text string) *refusal {
	if inner := innermost.FindStringSubmatch(text); inner != nil {
		if row := readFault(code, inner[1]).row(); !row.fallback {
			return row
		}
	}
	return readFault(code, text).row()
}

// ServerFault returns the class of a server's fault, by Nova's code and text.
func ServerFault(serverID string, code int, text string) *fault.Error {
	row := faultRow(code, text)
	return fault.New(fault.ClassOf(row.code), row.code, "server %s went to ERROR: %s", serverID, cmp.Or(text, "the cloud reports no reason"))
}
