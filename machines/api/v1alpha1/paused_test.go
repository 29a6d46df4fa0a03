package v1alpha1_test

import (
	"testing"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

func TestAnyValueOfThePausedAnnotationPausesAnObject(t *testing.T) {
	for _, row := range []struct {
		name        string
		annotations map[string]string
		want        bool
	}{
		{"an object without the annotation is not paused (F-27)", map[string]string{"cluster.k8s.io/machine": ""}, false},
		{"an empty value pauses the object (F-27)", map[string]string{v1alpha1.AnnotationPaused: ""}, true},
		{"the value false pauses the object (F-27)", map[string]string{v1alpha1.AnnotationPaused: "false"}, true},
		{"an annotation with Cluster API's key pauses the object (F-27)", map[string]string{v1alpha1.AnnotationPausedCAPI: "true"}, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			if got := v1alpha1.Paused(row.annotations); got != row.want {
				t.Errorf("Paused() = %v, want %v", got, row.want)
			}
		})
	}
}
