package handover

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// hook is machine-controller's webhook.
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
	return &admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "machine-controller.kubermatic.io"}, Webhooks: []admissionv1.MutatingWebhook{w}}
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

func TestWebhooksThatNobodyAnswers(t *testing.T) {
	for name, tt := range map[string]struct {
		objects []client.Object
		found   int
		why     string
	}{
		"a webhook whose Service does not exist is dead": {[]client.Object{hook()}, 1, "does not exist"},
		"one whose Service has no endpoint too":          {[]client.Object{hook(), service}, 1, "no ready endpoint"},
		"one whose endpoints are not ready too":          {[]client.Object{hook(), service, endpoints(false)}, 1, "no ready endpoint"},
		"one that is answered is not":                    {[]client.Object{hook(), service, endpoints(true)}, 1, ""},
		"one with a URL is not tried": {[]client.Object{hook(func(w *admissionv1.MutatingWebhook) {
			w.ClientConfig = admissionv1.WebhookClientConfig{URL: ptr.To("https://x")}
		})}, 1, ""},
		"one of another group does not matter": {[]client.Object{hook(func(w *admissionv1.MutatingWebhook) { w.Rules[0].APIGroups = []string{"apps"} })}, 0, ""},
		"one for all groups and resources does": {[]client.Object{hook(func(w *admissionv1.MutatingWebhook) {
			w.Rules[0].APIGroups, w.Rules[0].Resources = []string{"*"}, []string{"*"}
		})}, 1, "does not exist"},
		"one for another resource of the group does not matter":   {[]client.Object{hook(func(w *admissionv1.MutatingWebhook) { w.Rules[0].Resources = []string{"clusters"} })}, 0, ""},
		"one without a failure policy refuses, as the API server": {[]client.Object{hook(func(w *admissionv1.MutatingWebhook) { w.FailurePolicy = nil })}, 1, "does not exist"},
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

func TestADeadWebhookIsReportedOnce(t *testing.T) {
	recorder := events.NewFakeRecorder(9)
	c := fake.NewClientBuilder().WithObjects(hook()).Build()
	w, err := NewWatch(WatchOptions{Reader: c, Events: recorder, Clock: clocktesting.NewFakeClock(time.Time{}), Registry: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	w.look(t.Context())
	w.look(t.Context())
	if n := testutil.ToFloat64(w.metric); n != 1 || len(recorder.Events) != 1 {
		t.Fatalf("the metric is %v, and there are %d Events", n, len(recorder.Events))
	}
	if text := <-recorder.Events; !strings.Contains(text, "kubectl delete mutatingwebhookconfiguration machine-controller.kubermatic.io") {
		t.Errorf("the Event is %q", text)
	}
	if err := c.Delete(t.Context(), hook()); err != nil {
		t.Fatal(err)
	}
	w.look(context.Background())
	if n := testutil.ToFloat64(w.metric); n != 0 {
		t.Errorf("the metric is %v once the webhook is gone", n)
	}
}

func TestStandingBy(t *testing.T) {
	recorder := events.NewFakeRecorder(9)
	s, err := NewStandby("kube-system", "machine-controller", logr.Discard(), nil)
	if err != nil {
		t.Fatal(err)
	}
	renewed := func(second int) *resourcelock.LeaderElectionRecord {
		return &resourcelock.LeaderElectionRecord{HolderIdentity: "mc", RenewTime: metav1.Unix(int64(second), 0)}
	}
	s.Seen(renewed(1))
	s.RecordTo(recorder)
	s.Seen(renewed(1))
	if n := testutil.ToFloat64(s.metric); n != 1 || len(recorder.Events) != 0 {
		t.Errorf("a lease that nobody renews: the metric is %v, and there are %d Events; want 1 and none", n, len(recorder.Events))
	}
	s.Seen(renewed(2))
	s.Seen(renewed(3))
	if len(recorder.Events) != 1 {
		t.Errorf("a lease that is renewed: there are %d Events, want 1", len(recorder.Events))
	}
	s.Seen(nil)
	if n := testutil.ToFloat64(s.metric); n != 0 {
		t.Errorf("the metric is %v once the lease is free", n)
	}
}

func TestTheEventNamesTheProgramThatLeads(t *testing.T) {
	for holder, want := range map[string]struct{ reason, text, not string }{
		"machine-controller_1": {"MachineControllerRuns", "stop machine-controller (kubectl -n kube-system", "namespace"},
		Holder("elsewhere"):    {"AnotherDroverRuns", "the drover in namespace elsewhere leads", "stop machine-controller"},
	} {
		recorder := events.NewFakeRecorder(9)
		s, err := NewStandby("kube-system", "machine-controller", logr.Discard(), nil)
		if err != nil {
			t.Fatal(err)
		}
		s.RecordTo(recorder)
		for second := range int64(2) {
			s.Seen(&resourcelock.LeaderElectionRecord{HolderIdentity: holder, RenewTime: metav1.Unix(second, 0)})
		}
		if text := <-recorder.Events; !strings.Contains(text, want.reason) || !strings.Contains(text, want.text) || strings.Contains(text, want.not) {
			t.Errorf("%s leads, and the Event is %q", holder, text)
		}
	}
}

func TestParseLease(t *testing.T) {
	for text, want := range map[string]struct {
		named, ok bool
	}{
		"kube-system/machine-controller": {true, true}, "": {false, true}, "machine-controller": {false, false}, "/x": {false, false}, "x/": {false, false}, "a/b/c": {false, false},
	} {
		if _, _, named, err := ParseLease(text); named != want.named || (err == nil) != want.ok {
			t.Errorf("%q: named is %v, the error %v", text, named, err)
		}
	}
}
