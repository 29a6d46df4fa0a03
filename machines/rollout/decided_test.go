package rollout

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// setOf returns a set of a deployment with a size and the annotation of what was decided; without the annotation for "".
func setOf(size int32, annotation string) *v1alpha1.MachineSet {
	set := &v1alpha1.MachineSet{ObjectMeta: metav1.ObjectMeta{Name: "pool-1", OwnerReferences: []metav1.OwnerReference{
		*metav1.NewControllerRef(&v1alpha1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Name: "pool"}}, v1alpha1.MachineDeploymentKind)}}}
	set.Spec.Replicas = &size
	if annotation != "" {
		set.Annotations = map[string]string{v1alpha1.AnnotationDecided: annotation}
	}
	return set
}

func TestTheSizeThatADeploymentDecidedForASet(t *testing.T) {
	for _, tt := range []struct {
		name         string
		stored       int32
		annotation   string
		living, want int32
	}{
		{"without a record it is the stored size (F-162)", 5, "", 2, 5},
		{"a record that cannot be read counts as none (F-162)", 5, "3", 2, 5},
		{"it is the recorded one after a client has lowered the size (F-162)", 0, "3.x", 3, 3},
		{"it is the recorded one after a client has raised the size (F-162)", 9, "3.x", 3, 3},
		{"it is the recorded one when a Machine is missing and a client has raised the size (F-162)", 9, "3.x", 2, 3},
		{"it is the stored size after an earlier version, which does not record it, has lowered the size and its set has followed (F-162)", 2, "5.x", 2, 2},
		{"it is the stored size after an earlier version has raised the size and its set has followed (F-162)", 8, "5.x", 8, 8},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := decidedSize(setOf(tt.stored, tt.annotation), tt.living); got != tt.want {
				t.Errorf("decidedSize() = %d, want %d", got, tt.want)
			}
		})
	}
}

func TestATemplateThatIsStoredDifferentlyIsRecordedWithTheDecidedSize(t *testing.T) {
	for annotation, want := range map[string]string{"": "0.", "3.x": "3."} {
		t.Run(fmt.Sprintf("the size of another client is not recorded in place of %q (F-162)", annotation), func(t *testing.T) {
			set := setOf(0, annotation)
			if err := Decide(set); err != nil || !strings.HasPrefix(set.Annotations[v1alpha1.AnnotationDecided], want) || UndecidedTemplate(set) != "" {
				t.Errorf("the annotations are %v, error %v", set.Annotations, err)
			}
		})
	}
}

func TestWhatASetOfADeploymentDoesNotFollow(t *testing.T) {
	missing := setOf(0, "3.x")
	missing.Spec.Replicas = nil
	bare := setOf(0, "3.x")
	bare.OwnerReferences = nil
	foreign := setOf(0, "3.x")
	foreign.OwnerReferences[0].Kind = "Other"
	for name, tt := range map[string]struct {
		set  *v1alpha1.MachineSet
		want string // empty: the set follows its size
	}{
		"a size without a record":               {setOf(3, ""), "MachineDeployment pool has not confirmed"},
		"a size that differs from the record":   {setOf(0, "3.x"), "spec.replicas is 0, and MachineDeployment pool decided 3"},
		"a missing size":                        {missing, "spec.replicas is missing, and MachineDeployment pool decided 3"},
		"nothing: the size is the recorded one": {setOf(3, "3.x"), ""},
		"nothing: it belongs to no deployment":  {bare, ""},
		"nothing: it belongs to another kind":   {foreign, ""},
	} {
		t.Run(fmt.Sprintf("%s (F-162)", name), func(t *testing.T) {
			if why, _ := UndecidedSize(tt.set); (why == "") != (tt.want == "") || !strings.Contains(why, tt.want) {
				t.Errorf("UndecidedSize() = %q, want %q", why, tt.want)
			}
		})
	}
}
