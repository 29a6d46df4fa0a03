package handover

import (
	"context"
	"fmt"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Read returns the admission webhooks of a cluster that intercept writes of drover's kinds.
func Read(ctx context.Context, c client.Reader) ([]Webhook, error) {
	mutating, validating := &admissionv1.MutatingWebhookConfigurationList{}, &admissionv1.ValidatingWebhookConfigurationList{}
	if err := c.List(ctx, mutating); err != nil {
		return nil, fmt.Errorf("listing mutating webhooks: %w", err)
	}
	if err := c.List(ctx, validating); err != nil {
		return nil, fmt.Errorf("listing validating webhooks: %w", err)
	}
	return webhooks(mutating.Items, validating.Items), nil
}

// Dead returns why a webhook does not answer: its Service does not exist, or the Service has no ready endpoint. It returns "" when the
// Service has a ready endpoint. It also returns "" for a webhook with a URL, because drover does not try the URL. It returns an error when
// the Service or its endpoints cannot be read.
func Dead(ctx context.Context, c client.Reader, w Webhook) (why string, err error) {
	if w.Service.Name == "" {
		return "", nil
	}
	switch err := c.Get(ctx, w.Service, &corev1.Service{}); {
	case apierrors.IsNotFound(err):
		return fmt.Sprintf("its Service %s does not exist", w.Service), nil
	case err != nil:
		return "", fmt.Errorf("reading Service %s of %s: %w", w.Service, w, err)
	}
	ready, err := hasEndpoint(ctx, c, w.Service)
	if err != nil || ready {
		return "", err
	}
	return fmt.Sprintf("its Service %s has no ready endpoint", w.Service), nil
}

// hasEndpoint reports whether a Service has a ready endpoint.
func hasEndpoint(ctx context.Context, c client.Reader, service types.NamespacedName) (bool, error) {
	var slices discoveryv1.EndpointSliceList
	err := c.List(ctx, &slices, client.InNamespace(service.Namespace), client.MatchingLabels{discoveryv1.LabelServiceName: service.Name})
	if err != nil {
		return false, fmt.Errorf("listing the endpoints of Service %s: %w", service, err)
	}
	for i := range slices.Items {
		for _, e := range slices.Items[i].Endpoints {
			if ptr.Deref(e.Conditions.Ready, true) {
				return true, nil
			}
		}
	}
	return false, nil
}
