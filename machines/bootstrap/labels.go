package bootstrap

import (
	"encoding/json"
	"maps"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	kubeletapis "k8s.io/kubelet/pkg/apis"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// NodeLabels returns the labels of the Nodes of Machines with this spec: the Machine's labels and the label of the operating system,
// overridden by the labels of spec.metadata. It leaves out labels that only connect Machines to their set: the selector's keys and the
// template hash. When selector is nil, it leaves out only the hash. It also leaves out the labels with
// which drover itself describes a single Node.
func NodeLabels(spec *v1alpha1.MachineSpec, machine map[string]string, selector *metav1.LabelSelector) map[string]string {
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
	if system := operatingSystem(spec); system != "" && len(validation.IsValidLabelValue(system)) == 0 {
		out[v1alpha1.LabelOperatingSystem] = system
	}
	maps.Copy(out, spec.Metadata.Labels)
	for _, key := range []string{v1alpha1.LabelOwnedBy, v1alpha1.LabelPhysicalHost, v1alpha1.LabelGPU} {
		delete(out, key)
	}
	return out
}

// operatingSystem returns the operatingSystem in the provider spec itself, and ignores a MachineClass. It returns "" when the provider
// spec names no operating system. It also returns "" when the provider spec cannot be read, which the cloud provider reports.
func operatingSystem(spec *v1alpha1.MachineSpec) string {
	source, err := spec.Provider()
	if err != nil || source.Value == nil {
		return ""
	}
	// encoding/json matches keys regardless of case, as v1alpha1.ParseProviderConfig does.
	var config struct {
		OperatingSystem string `json:"operatingSystem"`
	}
	if err := json.Unmarshal(source.Value.Raw, &config); err != nil {
		return ""
	}
	return config.OperatingSystem
}

// RegistrationLabels returns those of the given labels that a kubelet may put on its own Node. Labels outside the Kubernetes
// domains are always allowed. A label inside these domains must be allowed by the NodeRestriction admission plugin and by the
// kubelet's --node-labels.
func RegistrationLabels(labels map[string]string) map[string]string {
	out := maps.Clone(labels)
	maps.DeleteFunc(out, func(key, _ string) bool { return !MayRegister(key) })
	return out
}

// MayRegister reports whether a kubelet may put a label with this key on its own Node.
func MayRegister(key string) bool {
	domain, _, namespaced := strings.Cut("."+key, "/")
	reserved := namespaced && (strings.HasSuffix(domain, ".kubernetes.io") || strings.HasSuffix(domain, ".k8s.io"))
	return !reserved || kubeletapis.IsKubeletLabel(key)
}
