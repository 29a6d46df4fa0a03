package main

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

func TestWhichClusterIDDroverUsesAndStores(t *testing.T) {
	system := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: "uid-of-kube-system"}}
	stored := func(data map[string]string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "drover", Name: clusterIDConfigMap}, Data: data}
	}
	for _, tt := range []struct {
		name    string
		objects []client.Object
		flag    string
		want    string
		wantErr string
	}{
		{"the first start without the flag --cluster-id stores the UID of the namespace kube-system", []client.Object{system}, "", "uid-of-kube-system", ""},
		{"the first start with --cluster-id stores the value of the flag", []client.Object{system}, "prod", "prod", ""},
		{"a later start without --cluster-id uses the stored ID", []client.Object{system, stored(map[string]string{clusterIDKey: "prod"})}, "", "prod", ""},
		{"a later start accepts a --cluster-id that equals the stored ID", []client.Object{system, stored(map[string]string{clusterIDKey: "prod"})}, "prod", "prod", ""},
		{"a later start is refused when --cluster-id differs from the stored ID", []client.Object{system, stored(map[string]string{clusterIDKey: "prod"})}, "test", "", `"test" differs from "prod"`},
		{"a start is refused when the stored ConfigMap lacks the cluster ID", []client.Object{system, stored(nil)}, "", "", "has no key clusterID"},
		{"the first start fails when the namespace kube-system is missing", nil, "", "", "reading namespace kube-system"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := fake.NewClientBuilder().WithObjects(tt.objects...).Build()
			got, err := clusterID(context.Background(), c, "drover", tt.flag)
			if got != tt.want {
				t.Errorf("id %q, want %q", got, tt.want)
			}
			if (tt.wantErr == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), tt.wantErr) {
				t.Fatalf("error %v, want %q", err, tt.wantErr)
			}
			if err != nil {
				return
			}
			var cm corev1.ConfigMap
			if err := c.Get(context.Background(), client.ObjectKey{Namespace: "drover", Name: clusterIDConfigMap}, &cm); err != nil {
				t.Fatal(err)
			}
			if cm.Data[clusterIDKey] != tt.want {
				t.Errorf("stored %q, want %q", cm.Data[clusterIDKey], tt.want)
			}
		})
	}
}

func TestAStoredClusterIDIsNotWrittenAgain(t *testing.T) {
	t.Run("a later start of drover reads the stored cluster ID and creates nothing (F-57)", func(t *testing.T) {
		creates := 0
		c := interceptor.NewClient(fake.NewClientBuilder().WithObjects(
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: "u"}},
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "drover", Name: clusterIDConfigMap}, Data: map[string]string{clusterIDKey: "u"}},
		).Build(), interceptor.Funcs{
			Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
				creates++
				return c.Create(ctx, o, opts...)
			},
		})
		if id, err := clusterID(t.Context(), c, "drover", ""); err != nil || id != "u" || creates != 0 {
			t.Errorf("id %q, error %v, %d creates", id, err, creates)
		}
	})
}
