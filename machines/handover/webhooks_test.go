package handover

import (
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// hook returns machine-controller's webhook.
func hook(change ...func(*admissionv1.MutatingWebhook)) *admissionv1.MutatingWebhookConfiguration {
	w := admissionv1.MutatingWebhook{
		Name: "machinedeployments.machine-controller.kubermatic.io", FailurePolicy: ptr.To(admissionv1.Fail),
		ClientConfig: admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{Namespace: "kube-system", Name: "machine-controller-webhook"}},
		Rules: []admissionv1.RuleWithOperations{{
			Operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Update},
			Rule:       admissionv1.Rule{APIGroups: []string{"cluster.k8s.io"}, APIVersions: []string{"v1alpha1"}, Resources: []string{"machinedeployments"}},
		}},
	}
	for _, c := range change {
		c(&w)
	}
	return &admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "machinedeployments.machine-controller.kubermatic.io"}, Webhooks: []admissionv1.MutatingWebhook{w}}
}

var (
	service   = &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "machine-controller-webhook"}}
	endpoints = func(ready bool) *discoveryv1.EndpointSlice {
		return &discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "w", Labels: map[string]string{discoveryv1.LabelServiceName: "machine-controller-webhook"}},
			Endpoints:  []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.1"}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(ready)}}},
		}
	}
)

func TestWhichAdmissionWebhooksHaveNobodyToAnswer(t *testing.T) {
	for name, tt := range map[string]struct {
		objects []client.Object
		found   int
		why     string
	}{
		"a webhook is reported when its Service does not exist":                 {[]client.Object{hook()}, 1, "does not exist"},
		"a webhook is reported when its Service has no endpoint":                {[]client.Object{hook(), service}, 1, "no ready endpoint"},
		"a webhook is reported when the endpoints of its Service are not ready": {[]client.Object{hook(), service, endpoints(false)}, 1, "no ready endpoint"},
		"a webhook whose Service has a ready endpoint is not reported":          {[]client.Object{hook(), service, endpoints(true)}, 1, ""},
		"a webhook with a URL instead of a Service is not reported": {[]client.Object{hook(func(w *admissionv1.MutatingWebhook) {
			w.ClientConfig = admissionv1.WebhookClientConfig{URL: ptr.To("https://x")}
		})}, 1, ""},
		"a webhook for another API group than drover's is not reported": {[]client.Object{hook(func(w *admissionv1.MutatingWebhook) { w.Rules[0].APIGroups = []string{"apps"} })}, 0, ""},
		"a webhook for all API groups and resources is reported when its Service does not exist": {[]client.Object{hook(func(w *admissionv1.MutatingWebhook) {
			w.Rules[0].APIGroups, w.Rules[0].Resources = []string{"*"}, []string{"*"}
		})}, 1, "does not exist"},
		"a webhook only for objects of kind Cluster in drover's API group is not reported":                         {[]client.Object{hook(func(w *admissionv1.MutatingWebhook) { w.Rules[0].Resources = []string{"clusters"} })}, 0, ""},
		"a webhook without a failure policy is reported like one with policy Fail when its Service does not exist": {[]client.Object{hook(func(w *admissionv1.MutatingWebhook) { w.FailurePolicy = nil })}, 1, "does not exist"},
	} {
		t.Run(name, func(t *testing.T) {
			c := fake.NewClientBuilder().WithObjects(tt.objects...).Build()
			all, err := Read(t.Context(), c)
			if err != nil || len(all) != tt.found {
				t.Fatalf("found %v, %v; want %d", all, err, tt.found)
			}
			for _, w := range all {
				why, err := Dead(t.Context(), c, w)
				if err != nil || !strings.Contains(why, tt.why) || (why == "") != (tt.why == "") || !w.Refuses {
					t.Errorf("%+v is dead because %q, %v; want %q", w, why, err, tt.why)
				}
			}
		})
	}
}
