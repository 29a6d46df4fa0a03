package handover

import (
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// Webhook is an admission webhook that intercepts writes of drover's kinds.
type Webhook struct {
	// Kind and Configuration identify the object that contains the webhook. Name is the webhook's own name.
	Kind, Configuration, Name string
	// Resources names the kinds that the webhook intercepts, as in "machines, machinedeployments".
	Resources string
	// Service is the Service of the webhook; empty when the webhook has a URL instead, which is then in the field URL.
	Service types.NamespacedName
	URL     string
	// Refuses is true when the API server refuses a write while the webhook does not answer.
	Refuses bool
}

// String returns a description of the webhook.
func (w Webhook) String() string {
	return fmt.Sprintf("webhook %s of %s %s", w.Name, w.Kind, w.Configuration)
}

// kinds lists the resources whose webhooks matter to drover.
var kinds = []string{"machines", "machinesets", "machinedeployments"}

// webhooks returns the admission webhooks that intercept writes of Machines, sets or deployments.
func webhooks(mutating []admissionv1.MutatingWebhookConfiguration, validating []admissionv1.ValidatingWebhookConfiguration) (all []Webhook) {
	for i := range mutating {
		for _, w := range mutating[i].Webhooks {
			all = add(all, Webhook{Kind: "MutatingWebhookConfiguration", Configuration: mutating[i].Name, Name: w.Name}, w.Rules, w.ClientConfig, w.FailurePolicy)
		}
	}
	for i := range validating {
		for _, w := range validating[i].Webhooks {
			all = add(all, Webhook{Kind: "ValidatingWebhookConfiguration", Configuration: validating[i].Name, Name: w.Name}, w.Rules, w.ClientConfig, w.FailurePolicy)
		}
	}
	return all
}

// add appends the webhook when its rules intercept one of drover's kinds.
func add(all []Webhook, w Webhook, rules []admissionv1.RuleWithOperations, at admissionv1.WebhookClientConfig, policy *admissionv1.FailurePolicyType) []Webhook {
	var resources []string
	for _, kind := range kinds {
		if slices.ContainsFunc(rules, func(r admissionv1.RuleWithOperations) bool { return intercepts(r, kind) }) {
			resources = append(resources, kind)
		}
	}
	if len(resources) == 0 {
		return all
	}
	w.Resources = strings.Join(resources, ", ")
	w.Refuses = policy == nil || *policy == admissionv1.Fail
	switch {
	case at.Service != nil:
		w.Service = types.NamespacedName{Namespace: at.Service.Namespace, Name: at.Service.Name}
	case at.URL != nil:
		w.URL = *at.URL
	}
	return append(all, w)
}

// intercepts reports whether a rule covers a resource of drover's group. A rule for all groups or for all resources also covers drover's
// kinds.
func intercepts(r admissionv1.RuleWithOperations, resource string) bool {
	has := func(list []string, text string) bool {
		return slices.Contains(list, text) || slices.Contains(list, "*")
	}
	written := slices.ContainsFunc(r.Operations, func(o admissionv1.OperationType) bool { return o != admissionv1.Connect })
	return written && has(r.APIGroups, v1alpha1.GroupVersion.Group) && (has(r.Resources, resource) || slices.Contains(r.Resources, "*/*"))
}

// Remedy returns the command that removes the webhook's configuration.
func (w Webhook) Remedy() string {
	return fmt.Sprintf("kubectl delete %s %s", strings.ToLower(w.Kind), w.Configuration)
}
