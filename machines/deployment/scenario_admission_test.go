//go:build cluster

package deployment_test

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/drover-project/drover/deploy"
	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/ownership"
	"github.com/drover-project/drover/machines/rollout"
)

// admits makes the API server apply a JSON patch to each new MachineSet of a group, and waits until it does. It uses a webhook,
// because Kubernetes before 1.36 does not serve MutatingAdmissionPolicies by default.
func (h *harness) admits(group, patch string, follows func(*v1alpha1.MachineSet) bool) {
	h.t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review admissionv1.AdmissionReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true, PatchType: new(admissionv1.PatchTypeJSONPatch), Patch: []byte(patch)}
		_ = json.NewEncoder(w).Encode(review)
	}))
	h.t.Cleanup(server.Close)
	webhook := registrationv1.MutatingWebhook{
		Name:                    group + ".drover.example",
		AdmissionReviewVersions: []string{"v1"},
		SideEffects:             new(registrationv1.SideEffectClassNone),
		ClientConfig: registrationv1.WebhookClientConfig{
			URL:      &server.URL,
			CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
		},
		Rules: []registrationv1.RuleWithOperations{{
			Operations: []registrationv1.OperationType{registrationv1.Create},
			Rule:       registrationv1.Rule{APIGroups: []string{v1alpha1.GroupVersion.Group}, APIVersions: []string{v1alpha1.GroupVersion.Version}, Resources: []string{"machinesets"}},
		}},
		MatchConditions: []registrationv1.MatchCondition{{Name: "group", Expression: fmt.Sprintf("object.metadata.name.startsWith('%s-')", group)}},
	}
	if err := h.client.Create(h.t.Context(), &registrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: group}, Webhooks: []registrationv1.MutatingWebhook{webhook}}); err != nil {
		h.t.Fatal(err)
	}
	labels := map[string]string{"probe": group}
	h.eventually("the webhook of "+group, func() (string, bool) {
		probe := &v1alpha1.MachineSet{ObjectMeta: metav1.ObjectMeta{Name: group + "-probe-" + rand.String(5), Namespace: "default", Labels: labels}}
		probe.Spec.Replicas, probe.Spec.Selector.MatchLabels, probe.Spec.Template.Metadata.Labels = size(0), labels, labels
		if err := h.client.Create(h.t.Context(), probe); err != nil {
			return err.Error(), false
		}
		if err := h.client.Delete(h.t.Context(), probe); err != nil {
			h.t.Fatal(err)
		}
		return fmt.Sprint(probe.Labels, probe.Spec.Template.Metadata), follows(probe)
	})
}

// made returns how many sets and Machines exist that were made for a deployment.
func (h *harness) made(deployment string) (sets, machines int) {
	h.t.Helper()
	all, _ := h.all()
	for i := range all {
		if v1alpha1.IsSetNameOf(deployment, all[i].Name) {
			sets++
		}
	}
	var list v1alpha1.MachineList
	if err := h.client.List(h.t.Context(), &list); err != nil {
		h.t.Fatal(err)
	}
	for i := range list.Items {
		if v1alpha1.IsSetNameOf(deployment, v1alpha1.BaseOf(list.Items[i].Name)) {
			machines++
		}
	}
	return sets, machines
}

// within checks for 12 s that a deployment has at most so many sets and Machines.
func (h *harness) within(deployment string, sets, machines int) {
	h.t.Helper()
	for end := time.Now().Add(12 * time.Second); time.Now().Before(end); {
		if s, m := h.made(deployment); s > sets || m > machines {
			h.t.Fatalf("%s has %d sets and %d Machines, want at most %d and %d", deployment, s, m, sets, machines)
		}
	}
}

// hashed returns a deployment like one that a person has copied from a set.
func hashed(name string) *v1alpha1.MachineDeployment {
	d := group(name, size(2))
	d.Spec.Selector.MatchLabels[v1alpha1.LabelTemplateHash] = "5d9f7c8b6"
	d.Spec.Template.Metadata.Labels = map[string]string{"group": name, v1alpha1.LabelTemplateHash: "5d9f7c8b6"}
	return d
}

func TestADeploymentWhoseSetsAreNotStoredAsDroverWritesThemOnARealControlPlane(t *testing.T) {
	h := newHarness(t)
	t.Run("a stored deployment whose selector names machine-template-hash creates nothing (F-106)", func(t *testing.T) {
		h := h.on(t)
		h.create(hashed("copied"))
		h.within("copied", 0, 0)
		if c := h.condition("copied", v1alpha1.ConditionProgressing); c.Reason != rollout.ReasonInvalid {
			t.Errorf("the condition is %+v", c)
		}
	})
	t.Run("a webhook that gives the sets other labels: at most replicas and surge, three sets, and an Event (F-107)", func(t *testing.T) {
		h := h.on(t)
		h.admits("relabelled", `[{"op":"add","path":"/metadata/labels/group","value":"platform"}]`, func(s *v1alpha1.MachineSet) bool { return s.Labels["group"] == "platform" })
		h.create(group("relabelled", size(2)))
		h.within("relabelled", 3, 3)
		if c := h.condition("relabelled", v1alpha1.ConditionDegraded); c.Reason != rollout.ReasonSetsLost {
			t.Errorf("the condition is %+v", c)
		}
		h.tells("relabelled", ownership.ReasonStoredDifferently, rollout.ReasonSetsLost)
	})
	t.Run("a webhook that annotates the template of the sets: one set, no replaced Machine, and an Event (F-107)", func(t *testing.T) {
		h := h.on(t)
		h.admits("annotated", `[{"op":"add","path":"/spec/template/metadata/annotations","value":{"team":"platform"}}]`,
			func(s *v1alpha1.MachineSet) bool { return s.Spec.Template.Metadata.Annotations["team"] == "platform" })
		h.create(group("annotated", size(2)))
		h.settled("annotated", 2)
		h.within("annotated", 1, 2)
		h.tells("annotated", ownership.ReasonStoredDifferently)
	})
	t.Run("the admission policies refuse a deployment whose selector names machine-template-hash (F-106)", func(t *testing.T) {
		h := h.on(t)
		if err := deploy.Apply(t.Context(), h.client, "policies"); err != nil {
			t.Fatal(err)
		}
		h.eventually("the policies to be followed", func() (string, bool) {
			err := h.client.Create(t.Context(), hashed("refused"))
			if err == nil {
				_ = h.client.Delete(t.Context(), hashed("refused"))
			}
			return fmt.Sprint(err), apierrors.IsInvalid(err) && strings.Contains(err.Error(), "spec.selector.matchLabels names the label machine-template-hash")
		})
	})
}

// tells waits until Events with the given reasons exist about a deployment.
func (h *harness) tells(deployment string, reasons ...string) {
	h.t.Helper()
	for _, reason := range reasons {
		h.eventually("an Event "+reason, func() (string, bool) {
			out, err := h.kube.Kubectl(h.t.Context(), "get", "events", "-A", "-o", "jsonpath={range .items[*]}{.involvedObject.name} {.reason}{\"\\n\"}{end}")
			return fmt.Sprint(string(out), err), strings.Contains(string(out), deployment+" "+reason)
		})
	}
}
