package bootstrap

import (
	"context"
	"crypto/rand"
	"maps"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

func TestTokens(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	clock := clocktesting.NewFakePassiveClock(start)
	c := fake.NewClientBuilder().Build()
	fresh := func() *Tokens { return &Tokens{Client: c, Reader: c, Clock: clock, Rand: rand.Reader} }
	tokens := fresh()
	m := &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m", UID: "u"}}
	secrets := func() []corev1.Secret {
		var list corev1.SecretList
		if err := c.List(t.Context(), &list, client.InNamespace("kube-system")); err != nil {
			t.Fatal(err)
		}
		return list.Items
	}
	first, err := tokens.Ensure(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}

	t.Run("a token is for authentication alone, in drover's own group, for half an hour", func(t *testing.T) {
		list := secrets()
		if len(list) != 1 {
			t.Fatalf("%d secrets", len(list))
		}
		s := list[0]
		want := map[string]string{
			"token-id": first.ID, "token-secret": first.Secret, "auth-extra-groups": "system:bootstrappers:drover",
			"usage-bootstrap-authentication": "true", "expiration": "2026-01-02T03:34:05Z", "usage-bootstrap-signing": "",
		}
		for key, value := range want {
			if string(s.Data[key]) != value {
				t.Errorf("%s: got %q, want %q", key, s.Data[key], value)
			}
		}
		if s.Type != "bootstrap.kubernetes.io/token" || s.Name != "bootstrap-token-"+first.ID || s.Labels[v1alpha1.LabelTokenMachine] != "u" || len(first.ID) != 6 || len(first.Secret) != 16 {
			t.Errorf("secret %+v", s.ObjectMeta)
		}
	})
	t.Run("a successor finds it and makes no other", func(t *testing.T) {
		again, err := fresh().Ensure(t.Context(), m)
		if err != nil || again != first || len(secrets()) != 1 {
			t.Errorf("token %v, error %v, %d secrets", again, err, len(secrets()))
		}
	})
	t.Run("it is prolonged only when half of its life is over, and nothing else of it changes", func(t *testing.T) {
		clock.SetTime(start.Add(14 * time.Minute))
		before := secrets()[0].ResourceVersion
		if err := tokens.Prolong(t.Context(), m); err != nil || secrets()[0].ResourceVersion != before {
			t.Errorf("error %v, version %s then %s", err, before, secrets()[0].ResourceVersion)
		}
		clock.SetTime(start.Add(16 * time.Minute))
		if err := tokens.Prolong(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		if s := secrets()[0]; string(s.Data["expiration"]) != "2026-01-02T03:50:05Z" || string(s.Data["token-secret"]) != first.Secret {
			t.Errorf("data %q", s.Data)
		}
	})
	t.Run("HolderOf returns its Machine and expiry, and nothing for an unknown token (MC-58)", func(t *testing.T) {
		h, err := HolderOf(t.Context(), c, first.ID)
		if err != nil || h.UID != "u" || h.Machine.String() != "ns/m" || h.Shared() || !h.Expiry.Equal(clock.Now().Add(TokenLife)) {
			t.Errorf("got holder %+v, error %v, want Machine ns/m with the UID u and an expiry in %v", h, err, TokenLife)
		}
		for _, id := range []string{"zzzzzz", "../../x", ""} {
			if h, err := HolderOf(t.Context(), c, id); err != nil || h != (Holder{}) {
				t.Errorf("%q: holder %+v, error %v", id, h, err)
			}
		}
	})
	t.Run("it is deleted after the join", func(t *testing.T) {
		for range 2 {
			if err := tokens.Delete(t.Context(), m); err != nil || len(secrets()) != 0 {
				t.Errorf("error %v, %d secrets", err, len(secrets()))
			}
		}
	})
}

// constant yields one byte for ever.
type constant byte

func (c constant) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(c)
	}
	return len(p), nil
}

func TestDrawUsesTheSource(t *testing.T) {
	secret, err := draw(constant(1), 16)
	if err != nil || secret != "bbbbbbbbbbbbbbbb" {
		t.Errorf("secret %s, error %v", secret, err)
	}
}

func TestATokenCostsOneCallToMakeAndOneToDelete(t *testing.T) {
	calls := map[string]int{}
	c := interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			calls["create"]++
			return c.Create(ctx, o, opts...)
		},
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			calls["get"]++
			return c.Get(ctx, key, o, opts...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			calls["list"]++
			return c.List(ctx, list, opts...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			calls["delete"]++
			return c.Delete(ctx, o, opts...)
		},
	})
	tokens := &Tokens{Client: c, Reader: c, Clock: clocktesting.NewFakePassiveClock(time.Now()), Rand: rand.Reader}
	m := &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m", UID: "u"}}
	if _, err := tokens.Ensure(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	if err := tokens.Prolong(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	if err := tokens.Delete(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	if want := map[string]int{"create": 1, "delete": 1}; !maps.Equal(calls, want) {
		t.Errorf("calls %v, want %v", calls, want)
	}
}

func TestAnotherMachinesTokenIsNeverTakenForOnesOwn(t *testing.T) {
	c := fake.NewClientBuilder().Build()
	tokens := &Tokens{Client: c, Reader: c, Clock: clocktesting.NewFakePassiveClock(time.Now()), Rand: rand.Reader}
	m := &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m", UID: "u"}}
	other := secretFor(&v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "other", UID: "v"}},
		Token{ID: idOf("u", 0), Secret: "theirs"}, time.Now().Add(TokenLife))
	if err := c.Create(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	if err := tokens.Delete(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	own, err := tokens.Ensure(t.Context(), m)
	if err != nil || own.ID != idOf("u", 1) || own.Secret == "theirs" {
		t.Errorf("token %v, error %v; want the second id", own, err)
	}
	successor := &Tokens{Client: c, Reader: c, Clock: tokens.Clock, Rand: rand.Reader}
	if err := successor.Delete(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	var left corev1.SecretList
	if err := c.List(t.Context(), &left); err != nil || len(left.Items) != 1 || left.Items[0].Name != other.Name {
		t.Errorf("left %v, error %v; want the other's alone", left.Items, err)
	}
}
