package quota

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/client"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func uid(text string) types.UID { return types.UID(text) }

func TestQuotaBook(t *testing.T) {
	refusal := fault.New(fault.Quota, fault.CodeQuotaExceeded, "Quota exceeded for instances")
	one := Amounts{Instances: 1, Cores: 2, RAMMiB: 8192, Ports: 1}
	hit := func() *Book {
		b := New(2 * time.Second)
		b.Refused("first", refusal, one, noon)
		return b
	}
	refused := func(t *testing.T, err error) {
		t.Helper()
		if e := fault.Of(err); e == nil || e.Code != fault.CodeQuotaExceeded {
			t.Fatalf("got %v", err)
		}
	}
	t.Run("nothing is asked while no quota was hit", func(t *testing.T) {
		if err := New(2*time.Second).Reserve("a", one, noon); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("CAPI-22 after a refusal everybody is refused alike, without a call", func(t *testing.T) {
		refused(t, hit().Reserve("a", one, noon))
	})
	t.Run("CAPI-22 what is free is promised once", func(t *testing.T) {
		b := hit()
		if !b.Looked(client.Compute, Amounts{2, 100, 1 << 20}, noon) || b.raised != noon {
			t.Fatal("room was not noticed")
		}
		for _, m := range []string{"a", "b", "a"} {
			if err := b.Reserve(uid(m), one, noon); err != nil {
				t.Fatalf("%s: %v", m, err)
			}
		}
		refused(t, b.Reserve("c", one, noon))
	})
	t.Run("what is smaller may fit where the larger does not", func(t *testing.T) {
		b := hit()
		b.Looked(client.Compute, Amounts{9, 1, 1 << 20}, noon)
		refused(t, b.Reserve("a", one, noon))
		if err := b.Reserve("b", Amounts{Instances: 1, Cores: 1}, noon); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("a promise that was kept does not count twice", func(t *testing.T) {
		b := hit()
		b.Looked(client.Compute, Amounts{2, 100, 1 << 20}, noon)
		_ = b.Reserve("a", one, noon)
		b.Use("a", one)
		b.Looked(client.Compute, Amounts{1, 100, 1 << 20}, noon.Add(Period))
		if err := b.Reserve("b", one, noon); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("a promise that was not kept ends", func(t *testing.T) {
		b := hit()
		b.Looked(client.Compute, Amounts{1, 100, 1 << 20}, noon)
		_ = b.Reserve("a", one, noon)
		b.Looked(client.Compute, Amounts{1, 100, 1 << 20}, noon.Add(Period))
		refused(t, b.Reserve("b", one, noon))
		b.Looked(client.Compute, Amounts{1, 100, 1 << 20}, noon.Add(3*Period))
		if err := b.Reserve("b", one, noon); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("the watch ends when nobody was turned away for a period", func(t *testing.T) {
		b := hit()
		b.Looked(client.Compute, Amounts{5, 100, 1 << 20}, noon)
		b.Looked(client.Compute, Amounts{5, 100, 1 << 20}, noon.Add(Period))
		if len(b.watches) != 0 {
			t.Fatal("it is still watched")
		}
	})
	t.Run("a few refusals that the limits do not explain stop nobody else, more of them do", func(t *testing.T) {
		b := hit()
		b.Looked(client.Compute, Amounts{100, 1000, 1 << 30}, noon)
		for range mostDoubts {
			b.Refused("odd", refusal, one, noon)
			if err := b.Reserve("a", one, noon); err != nil {
				t.Fatal(err)
			}
		}
		b.Refused("odd", refusal, one, noon)
		refused(t, b.Reserve("b", one, noon))
	})
	t.Run("limits that cannot be read let one try per period", func(t *testing.T) {
		b := hit()
		if !b.Unreadable(client.Compute, noon) {
			t.Fatal("nobody is told to try")
		}
		if err := b.Reserve("a", one, noon); err != nil {
			t.Fatal(err)
		}
		refused(t, b.Reserve("b", one, noon))
	})
	t.Run("CAPI-22 what is kept goes after two steps of the back-off", func(t *testing.T) {
		b := hit()
		b.Looked(client.Compute, Amounts{}, noon)
		if b.Exhausted(noon.Add(RetainedFor-time.Second)) || !b.Exhausted(noon.Add(RetainedFor)) {
			t.Fatal("not after two steps")
		}
	})
}

func TestWhoseQuotaItIs(t *testing.T) {
	for code, want := range map[fault.Code]client.Service{
		fault.CodeQuotaExceeded: client.Compute, fault.CodePortQuotaExceeded: client.Network,
		fault.CodeFloatingIPQuotaExceeded: client.Network, fault.CodeVolumeQuotaExceeded: client.Volume,
	} {
		if got := ownerOf(code); got != want {
			t.Errorf("%s: got %s", code, got)
		}
	}
}
