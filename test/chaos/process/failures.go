package process

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/drover-project/drover/test/chaos/calls"
)

// Failures returns all ways in which calls fail.
func Failures() []Failure {
	return slices.Concat(cloudFailures(), kubeFailures(), watchFailures())
}

const (
	// most is the longest time for which a client obeys a Retry-After header.
	most = 5 * time.Minute
	// jsonType is the media type of JSON.
	jsonType = "application/json"
)

func cloudFailures() []Failure {
	once := []Failure{
		{Name: "refused", answer: refuse},
		{Name: "reset before it was carried out", answer: reset},
		{Name: "carried out, answer lost", answer: carriedOut(reset)},
		{Name: "a proxy's 404 page", answer: htmlPage(http.StatusNotFound)},
		{Name: "a proxy's 502 page", answer: htmlPage(http.StatusBadGateway)},
		{Name: "carried out, a proxy's 502 page", answer: carriedOut(htmlPage(http.StatusBadGateway))},
		{Name: "500 without a reason", answer: reply(http.StatusInternalServerError, "")},
		{Name: "409", answer: cloudError(http.StatusConflict)},
		{Name: "429 for 3 s", answer: cloudError(http.StatusTooManyRequests, "Retry-After", "3")},
		{Name: "429 until a date", answer: until(90 * time.Second), Rest: 90 * time.Second},
		{Name: "429 for a day", answer: cloudError(http.StatusTooManyRequests, "Retry-After", "86400"), Rest: most},
		{Name: "body cut off", answer: edited(broken), fits: answersWithBody},
		{Name: "body too long", answer: edited(endless), fits: answersWithBody},
		{Name: "body not JSON", answer: carriedOut(reply(http.StatusOK, "<html>Please sign in</html>", "Content-Type", "text/html")), fits: answersWithBody},
		{Name: "hangs", answer: hang, Rest: time.Minute},
		{Name: "401 once", answer: cloudError(http.StatusUnauthorized)},
	}
	lasting := []Failure{
		{Name: "401 for good", answer: cloudError(http.StatusUnauthorized), scope: wholeCloud, Cause: `HTTP 401`},
		{Name: "the service refuses for good", answer: refuse, scope: sameService, Cause: `connection refused`},
		{Name: "a proxy's 404 page for good", answer: htmlPage(http.StatusNotFound), Cause: `the answer \(text/html\) is not one of OpenStack.s.* \(HTTP 404\)|shows no microversions`},
		{Name: "500 for good", answer: reply(http.StatusInternalServerError, ""), Cause: `HTTP 500`},
		{Name: "409 for good", answer: cloudError(http.StatusConflict), Cause: `HTTP 409`},
		{Name: "hangs for good", answer: hang, scope: wholeCloud, Cause: `no answer in time`},
		{Name: "429 for good", answer: cloudError(http.StatusTooManyRequests, "Retry-After", "86400"), scope: wholeCloud},
		{Name: "the volume never goes", answer: reply(http.StatusOK, `{"volume":{"status":"deleting","attachments":[]}}`, "Content-Type", jsonType), fits: readsVolume, Cause: `volume \S+ is "deleting"`},
	}
	for i := range lasting {
		lasting[i].Lasting = true
	}
	return fitting(inCloud, append(once, lasting...))
}

func kubeFailures() []Failure {
	once := []Failure{
		{Name: "refused", answer: refuse},
		{Name: "reset before it was carried out", answer: reset, fits: takesTurns},
		{Name: "carried out, answer lost", answer: carriedOut(reset), fits: writes},
		{Name: "409", answer: kubeError(http.StatusConflict, "Conflict"), fits: writes},
		{Name: "429 for 5 s", answer: kubeError(http.StatusTooManyRequests, "TooManyRequests", "Retry-After", "5"), fits: takesTurns},
		{Name: "500", answer: kubeError(http.StatusInternalServerError, "InternalError")},
		{Name: "500 without a reason", answer: kubeError(http.StatusInternalServerError, "")},
		{Name: "503", answer: kubeError(http.StatusServiceUnavailable, "ServiceUnavailable")},
		{Name: "carried out, 504", answer: carriedOut(kubeError(http.StatusGatewayTimeout, "Timeout")), fits: writes},
		{Name: "403 once", answer: kubeError(http.StatusForbidden, "Forbidden")},
		{Name: "404 once", answer: kubeError(http.StatusNotFound, "NotFound"), fits: mayBeUnserved},
		{Name: "hangs", answer: pinged, Rest: time.Minute, fits: takesTurns},
	}
	lasting := []Failure{
		{Name: "403 for good", answer: kubeError(http.StatusForbidden, "Forbidden")},
		{Name: "500 without a reason for good", answer: kubeError(http.StatusInternalServerError, "")},
		{Name: "two budgets for good", answer: twoBudgets, fits: evicts, Cause: `more than one PodDisruptionBudget`},
	}
	for i := range lasting {
		lasting[i].Lasting = true
	}
	return fitting(inKube, append(once, lasting...))
}

func watchFailures() []Failure {
	return fitting(calls.IsWatch, []Failure{
		{Name: "refused", answer: refuse},
		{Name: "410", answer: kubeError(http.StatusGone, "Expired")},
		{Name: "429 for 5 s", answer: kubeError(http.StatusTooManyRequests, "TooManyRequests", "Retry-After", "5")},
		{Name: "500", answer: kubeError(http.StatusInternalServerError, "InternalError")},
		{Name: "403 once", answer: kubeError(http.StatusForbidden, "Forbidden")},
		{Name: "cut", answer: cut},
		{Name: "hangs", answer: pinged, Rest: time.Minute},
	})
}

// fitting restricts failures to the calls for which fits returns true.
func fitting(fits func(string) bool, failures []Failure) []Failure {
	for i, f := range failures {
		failures[i].fits = func(name string) bool { return fits(name) && (f.fits == nil || f.fits(name)) }
	}
	return failures
}

// readsVolume and evicts report whether the named call reads a volume, or evicts a pod.
func readsVolume(name string) bool {
	return strings.HasPrefix(name, "cloud GET /volume/") && strings.HasSuffix(name, "/volumes/{id}")
}

func evicts(name string) bool { return name == "kube POST pods/eviction" }

// twoBudgets returns the API server's response to the eviction of a pod that two PodDisruptionBudgets select.
func twoBudgets(c call) (*http.Response, error) {
	return reply(http.StatusInternalServerError, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":500,`+
		`"message":"This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."}`, "Content-Type", jsonType)(c)
}

// takesTurns reports whether virtual time may pass during the named call. It may not pass during discovery: controller-runtime
// holds a lock then, and goroutines that wait for a lock are not idle for testing/synctest.
func takesTurns(name string) bool { return !calls.IsDiscoveryName(name) }

// mayBeUnserved reports whether the API server may answer the named call with 404 although the object exists. A starting API
// server does not serve custom resources yet.
func mayBeUnserved(name string) bool {
	return strings.Contains(name, " machine") || strings.HasSuffix(name, " clusters")
}

func writes(name string) bool {
	return !strings.HasPrefix(name, "kube GET ") && !strings.HasPrefix(name, "kube LIST ")
}

// cloudError returns a response with an error in the format of the called OpenStack service.
func cloudError(status int, header ...string) func(call) (*http.Response, error) {
	return func(c call) (*http.Response, error) {
		text := http.StatusText(status) + " (asked for by a test)"
		form := fmt.Sprintf(`{"error":{"code":%d,"title":%q,"message":%q}}`, status, http.StatusText(status), text)
		switch {
		case status == http.StatusUnauthorized:
		case strings.Contains(c.name, " /network/"):
			form = fmt.Sprintf(`{"NeutronError":{"type":"AskedForByATest","message":%q,"detail":""}}`, text)
		case strings.Contains(c.name, " /compute/"), strings.Contains(c.name, " /volume/"):
			form = fmt.Sprintf(`{"conflictingRequest":{"code":%d,"message":%q}}`, status, text)
		}
		return reply(status, form, append([]string{"Content-Type", jsonType}, header...)...)(c)
	}
}

// until returns a 429 response whose Retry-After header is a date.
func until(d time.Duration) func(call) (*http.Response, error) {
	return func(c call) (*http.Response, error) {
		return cloudError(http.StatusTooManyRequests, "Retry-After", time.Now().Add(d).UTC().Format(http.TimeFormat))(c)
	}
}

// kubeError returns a response with a Kubernetes Status.
func kubeError(status int, reason string, header ...string) func(call) (*http.Response, error) {
	body := fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"asked for by a test","reason":%q,"code":%d}`, reason, status)
	return reply(status, body, append([]string{"Content-Type", jsonType}, header...)...)
}
