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
		{Name: "fails with a refused connection", answer: refuse},
		{Name: "is reset before it is carried out", answer: reset},
		{Name: "is carried out and its answer is lost", answer: carriedOut(reset)},
		{Name: "is answered with a proxy's 404 page", answer: htmlPage(http.StatusNotFound)},
		{Name: "is answered with a proxy's 502 page", answer: htmlPage(http.StatusBadGateway)},
		{Name: "is carried out and answered with a proxy's 502 page", answer: carriedOut(htmlPage(http.StatusBadGateway))},
		{Name: "is answered with 500 and no reason", answer: reply(http.StatusInternalServerError, "")},
		{Name: "is answered with 409", answer: cloudError(http.StatusConflict)},
		{Name: "is answered with 429 and a Retry-After of 3 s", answer: cloudError(http.StatusTooManyRequests, "Retry-After", "3")},
		{Name: "is answered with 429 and a date in Retry-After", answer: until(90 * time.Second), Rest: 90 * time.Second},
		{Name: "is answered with 429 and a Retry-After of a day", answer: cloudError(http.StatusTooManyRequests, "Retry-After", "86400"), Rest: most},
		{Name: "is answered with a body that is cut off", answer: edited(broken), fits: answersWithBody},
		{Name: "is answered with a body that never ends", answer: edited(endless), fits: answersWithBody},
		{Name: "is answered with a body that is not JSON", answer: carriedOut(reply(http.StatusOK, "<html>Please sign in</html>", "Content-Type", "text/html")), fits: answersWithBody},
		{Name: "gets no answer", answer: hang, Rest: time.Minute},
		{Name: "is answered with 401 once", answer: cloudError(http.StatusUnauthorized)},
	}
	lasting := []Failure{
		{Name: "and all later calls to the cloud are answered with 401", answer: cloudError(http.StatusUnauthorized), scope: wholeCloud, Cause: `HTTP 401`},
		{Name: "and all later calls to the same service fail with a refused connection", answer: refuse, scope: sameService, Cause: `connection refused`},
		{Name: "and all later calls of the same kind are answered with a proxy's 404 page", answer: htmlPage(http.StatusNotFound), Cause: `the answer \(text/html\) is not one of OpenStack.s.* \(HTTP 404\)|shows no microversions`},
		{Name: "and all later calls of the same kind are answered with 500", answer: reply(http.StatusInternalServerError, ""), Cause: `HTTP 500`},
		{Name: "and all later calls of the same kind are answered with 409", answer: cloudError(http.StatusConflict), Cause: `HTTP 409`},
		{Name: "and all later calls to the cloud get no answer", answer: hang, scope: wholeCloud, Cause: `no answer in time`},
		{Name: "and all later calls to the cloud are answered with 429", answer: cloudError(http.StatusTooManyRequests, "Retry-After", "86400"), scope: wholeCloud},
		{Name: "and all later calls of the same kind show that the volume is still being deleted", answer: reply(http.StatusOK, `{"volume":{"status":"deleting","attachments":[]}}`, "Content-Type", jsonType), fits: readsVolume, Cause: `volume \S+ is "deleting"`},
	}
	for i := range lasting {
		lasting[i].Lasting = true
	}
	return fitting(inCloud, append(once, lasting...))
}

func kubeFailures() []Failure {
	once := []Failure{
		{Name: "fails with a refused connection", answer: refuse},
		{Name: "is reset before it is carried out", answer: reset, fits: takesTurns},
		{Name: "is carried out and its answer is lost", answer: carriedOut(reset), fits: writes},
		{Name: "is answered with 409", answer: kubeError(http.StatusConflict, "Conflict"), fits: writes},
		{Name: "is answered with 429 and a Retry-After of 5 s", answer: kubeError(http.StatusTooManyRequests, "TooManyRequests", "Retry-After", "5"), fits: takesTurns},
		{Name: "is answered with 500", answer: kubeError(http.StatusInternalServerError, "InternalError")},
		{Name: "is answered with 500 and no reason", answer: kubeError(http.StatusInternalServerError, "")},
		{Name: "is answered with 503", answer: kubeError(http.StatusServiceUnavailable, "ServiceUnavailable")},
		{Name: "is carried out and answered with 504", answer: carriedOut(kubeError(http.StatusGatewayTimeout, "Timeout")), fits: writes},
		{Name: "is answered with 403 once", answer: kubeError(http.StatusForbidden, "Forbidden")},
		{Name: "is answered with 404 once", answer: kubeError(http.StatusNotFound, "NotFound"), fits: mayBeUnserved},
		{Name: "gets no answer", answer: pinged, Rest: time.Minute, fits: takesTurns},
	}
	lasting := []Failure{
		{Name: "and all later calls of the same kind are answered with 403", answer: kubeError(http.StatusForbidden, "Forbidden")},
		{Name: "and all later calls of the same kind are answered with 500 and no reason", answer: kubeError(http.StatusInternalServerError, "")},
		{Name: "and all later calls of the same kind are refused because two PodDisruptionBudgets select the pod", answer: twoBudgets, fits: evicts, Cause: `more than one PodDisruptionBudget`},
	}
	for i := range lasting {
		lasting[i].Lasting = true
	}
	return fitting(inKube, append(once, lasting...))
}

func watchFailures() []Failure {
	return fitting(calls.IsWatch, []Failure{
		{Name: "fails with a refused connection", answer: refuse},
		{Name: "is answered with 410", answer: kubeError(http.StatusGone, "Expired")},
		{Name: "is answered with 429 and a Retry-After of 5 s", answer: kubeError(http.StatusTooManyRequests, "TooManyRequests", "Retry-After", "5")},
		{Name: "is answered with 500", answer: kubeError(http.StatusInternalServerError, "InternalError")},
		{Name: "is answered with 403 once", answer: kubeError(http.StatusForbidden, "Forbidden")},
		{Name: "is cut off while it runs", answer: cut},
		{Name: "gets no answer", answer: pinged, Rest: time.Minute},
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
