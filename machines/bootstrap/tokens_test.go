package bootstrap

import (
	"context"
	"errors"
	"maps"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

func TestAMachinesBootstrapTokenIsCreatedProlongedAndDeleted(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	clock := clocktesting.NewFakePassiveClock(start)
	c := fake.NewClientBuilder().Build()
	fresh := func() *Tokens { return NewTokens(c, c, clock) }
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

	t.Run("a new token may only be used to authenticate, as a member of drover's group, and expires after half an hour", func(t *testing.T) {
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
	t.Run("the next leader finds the token and does not create a second one", func(t *testing.T) {
		again, err := fresh().Ensure(t.Context(), m)
		if err != nil || again != first || len(secrets()) != 1 {
			t.Errorf("token %v, error %v, %d secrets", again, err, len(secrets()))
		}
	})
	t.Run("the token is prolonged after half of its life, and is unchanged before that", func(t *testing.T) {
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
	t.Run("a look-up by the token's ID returns its Machine and its expiry, and an unknown ID has no result (MC-58)", func(t *testing.T) {
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
	t.Run("the token is deleted, and a second deletion succeeds although the token no longer exists", func(t *testing.T) {
		for range 2 {
			if err := tokens.Delete(t.Context(), m); err != nil || len(secrets()) != 0 {
				t.Errorf("error %v, %d secrets", err, len(secrets()))
			}
		}
	})
}

// counted returns a client that counts its requests by verb, in the map calls. Refused requests are counted separately.
func counted(c client.WithWatch, calls map[string]int) client.Client {
	note := func(verb string, err error) error {
		if err != nil && !apierrors.IsNotFound(err) {
			verb += " refused"
		}
		calls[verb]++
		return err
	}
	return interceptor.NewClient(c, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			return note("create", c.Create(ctx, o, opts...))
		},
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			return note("get", c.Get(ctx, key, o, opts...))
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			return note("list", c.List(ctx, list, opts...))
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			return note("delete", c.Delete(ctx, o, opts...))
		},
	})
}

func TestABootstrapTokenCostsFewAPICalls(t *testing.T) {
	store := fake.NewClientBuilder().Build()
	clock := clocktesting.NewFakePassiveClock(time.Now())
	calls := map[string]int{}
	process := func() *Tokens {
		c := counted(store, calls)
		return NewTokens(c, c, clock)
	}
	costs := func(t *testing.T, want map[string]int) {
		t.Helper()
		if !maps.Equal(calls, want) {
			t.Errorf("calls %v, want %v", calls, want)
		}
		clear(calls)
	}
	m := &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m", UID: "u", CreationTimestamp: metav1.NewTime(clock.Now())}}
	ensure := func(t *testing.T, tokens *Tokens) Token {
		t.Helper()
		token, err := tokens.Ensure(t.Context(), m)
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	tokens := process()
	first := ensure(t, tokens)
	t.Run("drover creates the token of a new Machine with one call and does not look for an existing token first", func(t *testing.T) { costs(t, map[string]int{"create": 1}) })
	t.Run("the token costs no further call while its Machine waits (F-57)", func(t *testing.T) {
		for range 10 {
			if again := ensure(t, tokens); again != first {
				t.Errorf("token %v, then %v", first, again)
			}
		}
		if err := tokens.Prolong(t.Context(), m); err != nil {
			t.Error(err)
		}
		costs(t, map[string]int{})
	})
	clock.SetTime(clock.Now().Add(time.Minute))
	successor := process()
	t.Run("the next leader reads the token with one call and does not try to create it (F-57)", func(t *testing.T) {
		if again := ensure(t, successor); again != first {
			t.Errorf("token %v, then %v", first, again)
		}
		costs(t, map[string]int{"get": 1})
	})
	t.Run("the token is created again after it has expired and was deleted (F-57)", func(t *testing.T) {
		clock.SetTime(clock.Now().Add(TokenLife))
		var s corev1.Secret
		if err := store.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: secretPrefix + first.ID}, &s); err != nil {
			t.Fatal(err)
		}
		if err := store.Delete(t.Context(), &s); err != nil {
			t.Fatal(err)
		}
		ensure(t, successor)
		costs(t, map[string]int{"get": 1, "create": 1})
	})
	t.Run("the token is deleted with one call", func(t *testing.T) {
		if err := successor.Delete(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		costs(t, map[string]int{"delete": 1})
	})
}

func TestTheBootstrapTokenOfAnotherMachineIsNeitherUsedNorDeleted(t *testing.T) {
	c := fake.NewClientBuilder().Build()
	tokens := NewTokens(c, c, clocktesting.NewFakePassiveClock(time.Now()))
	m := &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m", UID: "u"}}
	other := secretFor(&v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "other", UID: "v"}},
		Token{ID: idOf("u"), Secret: "theirs"}, time.Now().Add(TokenLife))
	if err := c.Create(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	if err := tokens.Delete(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	if own, err := tokens.Ensure(t.Context(), m); !apierrors.IsAlreadyExists(err) {
		t.Errorf("token %v, error %v; want that the ID is taken", own, err)
	}
	var left corev1.SecretList
	if err := c.List(t.Context(), &left); err != nil || len(left.Items) != 1 || left.Items[0].Name != other.Name {
		t.Errorf("left %v, error %v; want only the other token", left.Items, err)
	}
}

func TestABootstrapTokenIsDeletedAlthoughItsFirstDeletionEndsInAConflict(t *testing.T) {
	t.Run("the second deletion succeeds", func(t *testing.T) {
		refused := 0
		c := interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{
			Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
				if refused++; refused == 1 {
					return apierrors.NewConflict(corev1.Resource("secrets"), o.GetName(), errors.New("the object has been modified"))
				}
				return c.Delete(ctx, o, opts...)
			},
		})
		tokens := NewTokens(c, c, clocktesting.NewFakePassiveClock(time.Now()))
		m := &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m", UID: "u"}}
		if _, err := tokens.Ensure(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		if err := tokens.Delete(t.Context(), m); !apierrors.IsConflict(err) {
			t.Errorf("got %v, want the conflict", err)
		}
		if err := tokens.Delete(t.Context(), m); err != nil {
			t.Error(err)
		}
		var left corev1.SecretList
		if err := c.List(t.Context(), &left); err != nil || len(left.Items) != 0 {
			t.Errorf("left %v, error %v", left.Items, err)
		}
	})
}
