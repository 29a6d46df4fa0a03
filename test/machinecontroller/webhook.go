package machinecontroller

import (
	"encoding/json"
	"fmt"
	"maps"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// WebhookName is the name of the webhook configuration in the manifest of machine-controller, and also of the first webhook in it.
const WebhookName = "machinedeployments.machine-controller.kubermatic.io"

// Webhook returns the webhook configuration with which machine-controller is installed. Its webhooks point at a Service in kube-system.
func Webhook() *admissionv1.MutatingWebhookConfiguration {
	w := &admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: WebhookName}}
	for _, resource := range []string{"machinedeployments", "machines"} {
		w.Webhooks = append(w.Webhooks, admissionv1.MutatingWebhook{
			Name: resource + ".machine-controller.kubermatic.io", FailurePolicy: ptr.To(admissionv1.Fail),
			SideEffects: ptr.To(admissionv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1", "v1beta1"},
			ClientConfig: admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{
				Namespace: metav1.NamespaceSystem, Name: "machine-controller-webhook", Path: ptr.To("/" + resource),
			}},
			Rules: []admissionv1.RuleWithOperations{{
				Operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Update},
				Rule:       admissionv1.Rule{APIGroups: []string{group}, APIVersions: []string{"v1alpha1"}, Resources: []string{resource}},
			}},
		})
	}
	return w
}

// unsetFields are the fields that machine-controller's webhook writes although nobody has set them, each with its value.
var unsetFields = map[string]any{
	"applicationCredentialID": "", "applicationCredentialSecret": "", "projectName": "", "projectID": "", "tenantID": "", "tokenId": "",
	"instanceReadyCheckPeriod": "", "instanceReadyCheckTimeout": "", "computeAPIVersion": "", "floatingIpPool": "", "availabilityZone": "",
	"subnet": "", "network": "", "region": "", "rootDiskVolumeType": "", "serverGroup": "", "trustDevicePath": nil, "rootDiskSizeGB": nil,
	"nodeVolumeAttachLimit": nil, "configDrive": nil, "disablePortSecurity": nil,
}

// Defaulted returns a provider spec as machine-controller's webhook stores it: with null and empty fields.
func Defaulted(providerSpec json.RawMessage) (json.RawMessage, error) {
	document := map[string]any{"sshPublicKeys": nil, "caPublicKey": ""}
	if err := json.Unmarshal(providerSpec, &document); err != nil {
		return nil, fmt.Errorf("reading the provider spec: %w", err)
	}
	fields := maps.Clone(unsetFields)
	if given, ok := document["cloudProviderSpec"].(map[string]any); ok {
		maps.Copy(fields, given)
	}
	document["cloudProviderSpec"] = fields
	return json.Marshal(document)
}

const (
	externalNote = "v1.kubelet-flags.machine-controller.kubermatic.io/ExternalCloudProvider"
	systemLabel  = "v1.machine-controller.kubermatic.io/operating-system"
)

// admitted adds to a new Machine what machine-controller's webhook adds to it.
func admitted(m *Machine) {
	m.ObjectMeta, m.Spec.ObjectMeta = *m.DeepCopy(), *m.Spec.DeepCopy()
	metav1.SetMetaDataAnnotation(&m.ObjectMeta, externalNote, "true")
	metav1.SetMetaDataLabel(&m.Spec.ObjectMeta, systemLabel, "ubuntu")
}
