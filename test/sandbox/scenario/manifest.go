package scenario

import (
	_ "embed"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

//go:embed nodes.yaml
var nodesManifest []byte

// Deployment returns the manifest of the scenario's node group, for a control plane of that version. A kubelet may
// not be much older than the control plane.
func Deployment(version string) (*v1alpha1.MachineDeployment, error) {
	d := &v1alpha1.MachineDeployment{}
	if err := yaml.UnmarshalStrict(nodesManifest, d); err != nil {
		return nil, fmt.Errorf("reading the MachineDeployment's manifest: %w", err)
	}
	d.Spec.Template.Spec.Versions.Kubelet = strings.TrimPrefix(version, "v")
	return d, nil
}

// Single returns a Machine without an owner, made from a deployment's template.
func Single(d *v1alpha1.MachineDeployment, name string) *v1alpha1.Machine {
	return &v1alpha1.Machine{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Machine"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: d.Namespace},
		Spec:       *d.Spec.Template.Spec.DeepCopy(),
	}
}

// Manifest encodes an object for kubectl, without a status.
func Manifest(object any) ([]byte, error) {
	raw, err := yaml.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("writing a manifest: %w", err)
	}
	var fields map[string]any
	if err := yaml.Unmarshal(raw, &fields); err != nil {
		return nil, fmt.Errorf("writing a manifest: %w", err)
	}
	delete(fields, "status")
	return yaml.Marshal(fields)
}
