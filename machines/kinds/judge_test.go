package kinds

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// inPlace returns the state of drover's CRDs after an installation, with the given changes.
func inPlace(change map[string]func(*definition)) []definition {
	var all []definition
	for _, name := range Names {
		d := definition{name: name}
		if c := change[name]; c != nil {
			c(&d)
		}
		all = append(all, d)
	}
	return all
}

func TestWhetherCRDsBlockTheDeletionOfMachines(t *testing.T) {
	deleting := func(d *definition) { d.deleting = true }
	allowedDeleting := func(d *definition) { d.deleting, d.allowed = true, true }
	allowed := func(d *definition) { d.allowed = true }
	missing := func(d *definition) { d.missing = true }
	for _, tt := range []struct {
		name   string
		change map[string]func(*definition)
		says   []string
	}{
		{"allows deletions while all CRDs are in place (F-42)", nil, nil},
		{"allows deletions when a CRD has the annotation allow-deletion and is not being deleted (F-42)", map[string]func(*definition){machines: allowed}, nil},
		{"blocks deletions while the CRD of Machines is being deleted (F-42)", map[string]func(*definition){machines: deleting},
			[]string{"being deleted: machines.cluster.k8s.io", "kubectl annotate crd machines.cluster.k8s.io drover-project.github.io/allow-deletion=true", "docs/operations.md"}},
		{"allows deletions when the CRD of Machines is being deleted and has the annotation allow-deletion (F-42)", map[string]func(*definition){machines: allowedDeleting}, nil},
		{"blocks deletions while the CRD of sets is being deleted (F-42)", map[string]func(*definition){sets: deleting}, []string{"kubectl annotate crd machinesets.cluster.k8s.io drover"}},
		{"blocks deletions while the CRD of deployments is being deleted (F-42)", map[string]func(*definition){deployments: deleting}, []string{deployments}},
		{"blocks deletions while the CRD of kind Cluster in drover's API group is being deleted (F-42)", map[string]func(*definition){"clusters.cluster.k8s.io": deleting}, []string{"clusters.cluster.k8s.io"}},
		{"blocks deletions while one of two CRDs that are being deleted lacks the annotation allow-deletion (F-42)", map[string]func(*definition){machines: allowedDeleting, sets: deleting},
			[]string{"being deleted: machinesets.cluster.k8s.io.", "kubectl annotate crd machinesets.cluster.k8s.io drover"}},
		{"blocks deletions while the CRD of sets is missing, because the deletion of that CRD may have caused them (F-42)", map[string]func(*definition){sets: missing},
			[]string{"missing: machinesets.cluster.k8s.io", "kubectl annotate crd machines.cluster.k8s.io drover"}},
		{"allows deletions while the CRDs of sets and deployments are missing when the CRD of Machines has the annotation allow-deletion (F-42)", map[string]func(*definition){sets: missing, deployments: missing, machines: allowedDeleting}, nil},
		{"blocks deletions while several CRDs are missing or being deleted, with a message that names each CRD to annotate only once (F-42)", map[string]func(*definition){sets: missing, deployments: missing, machines: deleting},
			[]string{"kubectl annotate crd machines.cluster.k8s.io drover"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := judge(inPlace(tt.change))
			if (got == "") != (len(tt.says) == 0) {
				t.Errorf("got %q", got)
			}
			for _, want := range tt.says {
				if !strings.Contains(got, want) {
					t.Errorf("judge() = %q, want it to contain %q", got, want)
				}
			}
		})
	}
	t.Run("a CRD with empty metadata counts neither as being deleted, which blocks deletions, nor as annotated with allow-deletion (F-42)", func(t *testing.T) {
		if d := definitionOf(&metav1.PartialObjectMetadata{}); d.allowed || d.deleting {
			t.Errorf("got %+v", d)
		}
	})
}
