package main

import (
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/drover-project/drover/machines/openstack"
)

func TestHoldsOfTheMassDeletionGuardAreStored(t *testing.T) {
	t.Run("stored holds are read back only for their own project and region (F-16)", func(t *testing.T) {
		h := holds{client: fake.NewClientBuilder().Build(), namespace: "drover"}
		if got, err := h.Load(t.Context(), openstack.HoldsKey{Project: "p1", Region: "Region One"}); err != nil || len(got.Servers)+len(got.Lost) != 0 {
			t.Fatalf("before anything is stored: %+v, %v", got, err)
		}
		first := openstack.Held{Servers: []string{"a", "b"}, Lost: map[string]time.Time{"c": time.Unix(1000, 0).UTC()}}
		second := openstack.Held{Servers: []string{"d"}}
		for region, held := range map[string]openstack.Held{"Region One": first, "west": second} {
			if err := h.Store(t.Context(), openstack.HoldsKey{Project: "p1", Region: region}, held); err != nil {
				t.Fatal(err)
			}
		}
		for region, want := range map[string]openstack.Held{"Region One": first, "west": second} {
			if got, err := h.Load(t.Context(), openstack.HoldsKey{Project: "p1", Region: region}); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%s: got %+v, %v", region, got, err)
			}
		}
	})
	t.Run("the holds of two projects that have the same ID in two Keystones are stored in two ConfigMaps (F-15)", func(t *testing.T) {
		h := holds{client: fake.NewClientBuilder().Build(), namespace: "drover"}
		own := openstack.HoldsKey{Endpoint: "https://keystone.example:5000", Project: "p1", Region: "west"}
		other := own
		other.Endpoint = "https://keystone.attacker.example:5000"
		if err := h.Store(t.Context(), other, openstack.Held{Servers: []string{"a"}}); err != nil {
			t.Fatal(err)
		}
		if holdsName(own) == holdsName(other) {
			t.Errorf("both are in ConfigMap %s, which one of them can fill", holdsName(own))
		}
		if got, err := h.Load(t.Context(), own); err != nil || len(got.Servers) != 0 {
			t.Errorf("got %+v, %v", got, err)
		}
	})
	t.Run("when stored holds cannot be parsed, the error asks for the deletion of the ConfigMap's key that contains them (F-16)", func(t *testing.T) {
		broken := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "drover", Name: holdsName(openstack.HoldsKey{Project: "p1", Region: "west"})}, Data: map[string]string{holdsKey(openstack.HoldsKey{Project: "p1", Region: "west"}): "no JSON"}}
		h := holds{client: fake.NewClientBuilder().WithObjects(broken).Build(), namespace: "drover"}
		if _, err := h.Load(t.Context(), openstack.HoldsKey{Project: "p1", Region: "west"}); err == nil || !strings.Contains(err.Error(), "delete the key") {
			t.Errorf("got %v", err)
		}
	})
}
