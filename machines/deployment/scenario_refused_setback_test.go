package deployment_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// refusing answers each JSON patch of a MachineSet with 403, as an admission webhook does that refuses the template in it.
type refusing struct{ http.RoundTripper }

// RoundTrip sends a request, or refuses it.
func (r refusing) RoundTrip(q *http.Request) (*http.Response, error) {
	if q.Method != http.MethodPatch || !strings.Contains(q.URL.Path, "/machinesets/") || q.Header.Get("Content-Type") != string(types.JSONPatchType) {
		return r.RoundTripper.RoundTrip(q)
	}
	body := `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"the webhook refuses this template"}`
	return &http.Response{
		StatusCode: http.StatusForbidden, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)), Request: q,
	}, nil
}

func TestASetWhoseTemplateCannotBeSetBack(t *testing.T) {
	t.Run("still follows the size of its deployment (F-162)", func(t *testing.T) {
		over := func(next http.RoundTripper) http.RoundTripper { return refusing{next} }
		inFlipOver(t, func(string) time.Duration { return 0 }, over, func(h *harness) {
			h.by("kubectl-edit", h.setOf("flip"), `{"spec":{"template":{"spec":{"versions":{"kubelet":"1.36.0"}}}}}`)
			time.Sleep(time.Minute)
			h.patch("flip", `{"spec":{"replicas":1}}`)
			time.Sleep(5 * time.Minute)
			if n, v := len(h.machines("flip")), h.setOf("flip").Spec.Template.Spec.Versions.Kubelet; n != 1 || v != "1.36.0" {
				t.Errorf("there are %d Machines, want 1; the template has the version %s, want that of the client", n, v)
			}
		})
	})
}
