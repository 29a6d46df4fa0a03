package kinds

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// inPlace returns the state of drover's CRDs after an installation, with the given changes.
func inPlace(change map[string]func(*metav1.PartialObjectMetadata)) definitions {
	all := definitions{}
	for name, crd := range installed().objects {
		if c := change[name]; c != nil {
			c(crd)
		}
		if crd.UID != missing {
			all[name] = crd
		}
	}
	return all
}

// missing is the UID with which a test marks a CRD that does not exist.
const missing = "missing"

func TestWhetherCRDsBlockTheDeletionOfMachines(t *testing.T) {
	deleting, allowed := startDeletion, allow
	allowedDeleting := func(o *metav1.PartialObjectMetadata) { startDeletion(o); allow(o) }
	missing := func(o *metav1.PartialObjectMetadata) { o.UID = missing }
	for _, tt := range []struct {
		name   string
		change map[string]func(*metav1.PartialObjectMetadata)
		says   []string
	}{
		{"allows deletions while all CRDs are in place (F-42)", nil, nil},
		{"allows deletions when a CRD has the annotation allow-deletion and is not being deleted (F-42)", map[string]func(*metav1.PartialObjectMetadata){machines: allowed}, nil},
		{"blocks deletions while the CRD of Machines is being deleted (F-42)", map[string]func(*metav1.PartialObjectMetadata){machines: deleting},
			[]string{"machines.cluster.k8s.io is being deleted", "kubectl annotate crd machines.cluster.k8s.io drover-project.github.io/allow-deletion=true", "docs/operations.md"}},
		{"allows deletions when the CRD of Machines is being deleted and has the annotation allow-deletion (F-42)", map[string]func(*metav1.PartialObjectMetadata){machines: allowedDeleting}, nil},
		{"blocks deletions while the CRD of sets is being deleted (F-42)", map[string]func(*metav1.PartialObjectMetadata){sets: deleting}, []string{"kubectl annotate crd machinesets.cluster.k8s.io drover"}},
		{"blocks deletions while the CRD of deployments is being deleted (F-42)", map[string]func(*metav1.PartialObjectMetadata){deployments: deleting}, []string{deployments}},
		{"blocks deletions while the CRD of kind Cluster in drover's API group is being deleted (F-42)", map[string]func(*metav1.PartialObjectMetadata){"clusters.cluster.k8s.io": deleting}, []string{"clusters.cluster.k8s.io"}},
		{"blocks deletions while one of two CRDs that are being deleted lacks the annotation allow-deletion (F-42)", map[string]func(*metav1.PartialObjectMetadata){machines: allowedDeleting, sets: deleting},
			[]string{"machinesets.cluster.k8s.io is being deleted.", "kubectl annotate crd machinesets.cluster.k8s.io drover"}},
		{"blocks deletions while the CRD of sets is missing, because the deletion of that CRD may have caused them (F-42)", map[string]func(*metav1.PartialObjectMetadata){sets: missing},
			[]string{"machinesets.cluster.k8s.io is missing", "kubectl annotate crd machines.cluster.k8s.io drover"}},
		{"allows deletions while the CRDs of sets and deployments are missing when the CRD of Machines has the annotation allow-deletion (F-42)", map[string]func(*metav1.PartialObjectMetadata){sets: missing, deployments: missing, machines: allowedDeleting}, nil},
		{"blocks deletions while several CRDs are missing or being deleted, with a message that names each CRD to annotate only once (F-42)", map[string]func(*metav1.PartialObjectMetadata){sets: missing, deployments: missing, machines: deleting},
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
}
