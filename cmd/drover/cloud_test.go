package main

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

func TestOnlyTheAnnotationValueYesConfirmsThatManyServersWereDeleted(t *testing.T) {
	for word, want := range map[string]bool{"yes": true, "no": false, "": false} {
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Namespace: "drover", Name: clusterIDConfigMap, Annotations: map[string]string{"drover-project.github.io/collect": word},
		}}
		got, err := mayCollect(fake.NewClientBuilder().WithObjects(cm).Build(), "drover")(t.Context())
		if err != nil || got != want {
			t.Errorf("%q: got %v, %v", word, got, err)
		}
	}
	if _, err := mayCollect(fake.NewClientBuilder().Build(), "drover")(t.Context()); err == nil {
		t.Error("a missing ConfigMap confirms nothing")
	}
}
