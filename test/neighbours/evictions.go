package neighbours

import (
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// EvictionWebhook is a webhook that the API server asks before each eviction. At first it allows all of them at once.
type EvictionWebhook struct {
	server *httptest.Server

	mu      sync.Mutex
	takes   time.Duration
	refusal map[string]string
	slowest time.Duration
}

// NewEvictionWebhook starts a webhook. The caller closes it.
func NewEvictionWebhook() *EvictionWebhook {
	w := &EvictionWebhook{refusal: map[string]string{}}
	w.server = httptest.NewTLSServer(w)
	return w
}

// Close ends the webhook.
func (w *EvictionWebhook) Close() { w.server.Close() }

// Takes sets how long the webhook takes for each answer.
func (w *EvictionWebhook) Takes(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.takes = d
}

// Refuse makes the webhook refuse the evictions of a pod with a message. An empty message ends that.
func (w *EvictionWebhook) Refuse(pod, message string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refusal[pod] = message
}

// Slowest returns the longest time for which a client has waited for an answer of the webhook.
func (w *EvictionWebhook) Slowest() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.slowest
}

// Configuration returns the configuration with which the API server asks the webhook. Its timeout is the longest that Kubernetes allows.
func (w *EvictionWebhook) Configuration() *registrationv1.ValidatingWebhookConfiguration {
	return &registrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "evictions"},
		Webhooks: []registrationv1.ValidatingWebhook{{
			Name: "evictions.example.com", AdmissionReviewVersions: []string{"v1"}, SideEffects: ptr.To(registrationv1.SideEffectClassNone),
			FailurePolicy: ptr.To(registrationv1.Fail), TimeoutSeconds: ptr.To(int32(30)),
			ClientConfig: registrationv1.WebhookClientConfig{
				URL:      &w.server.URL,
				CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: w.server.Certificate().Raw}),
			},
			Rules: []registrationv1.RuleWithOperations{{
				Operations: []registrationv1.OperationType{registrationv1.Create},
				Rule:       registrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods/eviction"}},
			}},
		}},
	}
}

// ServeHTTP implements http.Handler.
func (w *EvictionWebhook) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	var review admissionv1.AdmissionReview
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil || review.Request == nil {
		http.Error(out, "The body is not an AdmissionReview.", http.StatusBadRequest)
		return
	}
	began := time.Now()
	w.mu.Lock()
	takes, message := w.takes, w.refusal[review.Request.Name]
	w.mu.Unlock()
	timer := time.NewTimer(takes)
	defer timer.Stop()
	select {
	case <-r.Context().Done():
		return
	case <-timer.C:
	}
	w.mu.Lock()
	w.slowest = max(w.slowest, time.Since(began))
	w.mu.Unlock()
	review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: message == ""}
	if message != "" {
		review.Response.Result = &metav1.Status{Message: message, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden}
	}
	_ = json.NewEncoder(out).Encode(review)
}
