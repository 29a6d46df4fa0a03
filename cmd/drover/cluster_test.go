package main

import (
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/version"
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

type fakeVersion struct {
	git string
	err error
}

func (f fakeVersion) ServerVersion() (*version.Info, error) {
	return &version.Info{GitVersion: f.git}, f.err
}

func TestWhichVersionsOfTheAPIServerDroverAccepts(t *testing.T) {
	for _, tt := range []struct {
		name   string
		server fakeVersion
		want   string // part of the error; empty means that the version is accepted
	}{
		{"that reports the version v1.30.0 is accepted", fakeVersion{git: "v1.30.0"}, ""},
		{"that reports the version v1.37.1-eks-1 is accepted", fakeVersion{git: "v1.37.1-eks-1"}, ""},
		{"that reports the version v1.29.14 is refused", fakeVersion{git: "v1.29.14"}, "the API server is Kubernetes v1.29.14; drover needs 1.30.0 or newer"},
		{"that reports the version main is refused", fakeVersion{git: "main"}, `reading the API server's version "main"`},
		{"that does not answer is refused", fakeVersion{git: "unknown", err: errors.New("connection refused")}, "asking the API server for its version: connection refused"},
	} {
		t.Run("an API server "+tt.name, func(t *testing.T) {
			err := checkServer(tt.server)
			if (tt.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}
