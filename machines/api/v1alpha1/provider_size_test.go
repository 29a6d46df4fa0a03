package v1alpha1

import (
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
)

func TestTheSizeOfAProviderSpec(t *testing.T) {
	document := func(bytes int, fill string) *runtime.RawExtension {
		return &runtime.RawExtension{Raw: []byte(`{"a":"` + strings.Repeat(fill, bytes-8) + `"}`)}
	}
	t.Run("a document of 64 KiB is accepted and kept (F-96)", func(t *testing.T) {
		d := document(MaxProviderSpec, "x")
		if err := CheckDocument(d); err != nil {
			t.Error(err)
		}
		if ShortenDocument(d); len(d.Raw) != MaxProviderSpec {
			t.Errorf("%d bytes are left", len(d.Raw))
		}
	})
	t.Run("a larger document is refused, before it is shortened and after it (F-96)", func(t *testing.T) {
		d := document(MaxProviderSpec+1, "x")
		for range 2 {
			if err := CheckDocument(d); !errors.Is(err, ErrProviderSpecTooLarge) {
				t.Errorf("got %v", err)
			}
			ShortenDocument(d)
		}
		if len(d.Raw) > 200 {
			t.Errorf("%d bytes are left", len(d.Raw))
		}
	})
	t.Run("equal documents stay equal when they are shortened, and different ones different (F-96)", func(t *testing.T) {
		a, b, other := document(100<<10, "x"), document(100<<10, "x"), document(100<<10, "y")
		for _, d := range []*runtime.RawExtension{a, b, other} {
			ShortenDocument(d)
		}
		if string(a.Raw) != string(b.Raw) || string(a.Raw) == string(other.Raw) {
			t.Errorf("got %s, %s and %s", a.Raw, b.Raw, other.Raw)
		}
	})
	t.Run("an absent document is accepted", func(t *testing.T) {
		ShortenDocument(nil)
		if err := CheckDocument(nil); err != nil {
			t.Error(err)
		}
	})
}
