package bootstrap

import (
	"maps"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeletapis "k8s.io/kubelet/pkg/apis"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// NodeLabels are the labels that a node is to bear: those of the machine template's spec.metadata over those that the
// template gives its Machines. What only ties Machines to their set (the selector's keys and the template hash) is left
// out. A nil selector leaves out the hash alone.
func NodeLabels(spec, machine map[string]string, selector *metav1.LabelSelector) map[string]string {
	out := map[string]string{}
	maps.Copy(out, machine)
	if selector != nil {
		for key := range selector.MatchLabels {
			delete(out, key)
		}
		for _, e := range selector.MatchExpressions {
			delete(out, e.Key)
		}
	}
	delete(out, v1alpha1.LabelTemplateHash)
	maps.Copy(out, spec)
	return out
}

// RegistrationLabels are those of the given labels that a kubelet may put on its own Node: all outside the Kubernetes
// domains, and inside them what the NodeRestriction admission plugin and the kubelet's --node-labels allow.
func RegistrationLabels(labels map[string]string) map[string]string {
	out := map[string]string{}
	for key, value := range labels {
		if MayRegister(key) {
			out[key] = value
		}
	}
	return out
}

// MayRegister tells whether a kubelet may put a label with this key on its own Node.
func MayRegister(key string) bool {
	domain, _, namespaced := strings.Cut(key, "/")
	if !namespaced {
		return true
	}
	if within(domain, "kubernetes.io") || within(domain, "k8s.io") {
		return kubeletapis.IsKubeletLabel(key)
	}
	return true
}

func within(domain, parent string) bool {
	return domain == parent || strings.HasSuffix(domain, "."+parent)
}
