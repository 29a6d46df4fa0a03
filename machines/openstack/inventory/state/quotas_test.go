package state

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/client"
)

func uid(text string) types.UID { return types.UID(text) }

func TestDroverReservesTheFreeQuotaOfAProjectForMachines(t *testing.T) {
	refusal := fault.New(fault.Quota, fault.CodeQuotaExceeded, "Quota exceeded for instances")
	one := Amounts{Instances: 1, Cores: 2, RAMMiB: 8192, Ports: 1}
	hit := func() *Quotas {
		b := newQuotas()
		b.refused("first", refusal, one, noon)
		return b
	}
	refused := func(t *testing.T, err error) {
		t.Helper()
		if e := fault.Of(err); e == nil || e.Code != fault.CodeQuotaExceeded {
			t.Fatalf("got %v", err)
		}
	}
	t.Run("reserves quota for every Machine until the cloud has refused a call for lack of quota", func(t *testing.T) {
		if err := newQuotas().reserve("a", one, noon); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("refuses all Machines after the cloud has refused one call for lack of quota (CAPI-22)", func(t *testing.T) {
		refused(t, hit().reserve("a", one, noon))
	})
	t.Run("reserves free quota once for each Machine, and refuses further Machines when no quota is left (CAPI-22)", func(t *testing.T) {
		b := hit()
		if !b.Looked(client.Compute, Amounts{2, 100, 1 << 20}, nil, noon) || b.raised != noon {
			t.Fatal("free quota was not noticed")
		}
		for _, m := range []string{"a", "b", "a"} {
			if err := b.reserve(uid(m), one, noon); err != nil {
				t.Fatalf("%s: %v", m, err)
			}
		}
		refused(t, b.reserve("c", one, noon))
	})
	t.Run("refuses a Machine that needs more than the free quota, and accepts a smaller Machine", func(t *testing.T) {
		b := hit()
		b.Looked(client.Compute, Amounts{9, 1, 1 << 20}, nil, noon)
		refused(t, b.reserve("a", one, noon))
		if err := b.reserve("b", Amounts{Instances: 1, Cores: 1}, noon); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("does not count a Machine's reservation when the usage that the cloud reports already includes its server", func(t *testing.T) {
		p := newProject()
		p.Quotas = hit()
		b := p.Quotas
		b.Looked(client.Compute, Amounts{2, 100, 1 << 20}, nil, noon)
		_ = b.reserve("a", one, noon)
		p.AddServer("a", "s1", "worker-1", noon)
		b.Looked(client.Compute, Amounts{1, 100, 1 << 20}, nil, noon.Add(QuotaPeriod))
		if err := b.reserve("b", one, noon); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("ends a reservation when its Machine creates nothing for 90 seconds", func(t *testing.T) {
		b := hit()
		b.Looked(client.Compute, Amounts{1, 100, 1 << 20}, nil, noon)
		_ = b.reserve("a", one, noon)
		b.Looked(client.Compute, Amounts{1, 100, 1 << 20}, nil, noon.Add(QuotaPeriod))
		refused(t, b.reserve("b", one, noon))
		b.Looked(client.Compute, Amounts{1, 100, 1 << 20}, nil, noon.Add(3*QuotaPeriod))
		if err := b.reserve("b", one, noon); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("stops reserving quota when two readings of the cloud's limits show free quota and no Machine was refused between them", func(t *testing.T) {
		b := hit()
		b.Looked(client.Compute, Amounts{5, 100, 1 << 20}, nil, noon)
		b.Looked(client.Compute, Amounts{5, 100, 1 << 20}, nil, noon.Add(QuotaPeriod))
		if len(b.watches) != 0 {
			t.Fatal("it is still watched")
		}
	})
	t.Run("while the cloud's limits show free quota, drover ignores three refused calls, and refuses Machines after a fourth", func(t *testing.T) {
		b := hit()
		b.Looked(client.Compute, Amounts{100, 1000, 1 << 30}, nil, noon)
		for range mostDoubts {
			b.refused("odd", refusal, one, noon)
			if err := b.reserve("a", one, noon); err != nil {
				t.Fatal(err)
			}
		}
		b.refused("odd", refusal, one, noon)
		refused(t, b.reserve("b", one, noon))
	})
	t.Run("permits one Machine to create its resources after each failed reading of the cloud's limits", func(t *testing.T) {
		b := hit()
		if !b.Looked(client.Compute, Amounts{}, fault.New(fault.Auth, fault.CodeUnauthorized, "forbidden"), noon) {
			t.Fatal("Looked() = false, want true")
		}
		if err := b.reserve("a", one, noon); err != nil {
			t.Fatal(err)
		}
		refused(t, b.reserve("b", one, noon))
	})
	t.Run("permits the release of retained resources when a quota has been exhausted for 90 seconds (CAPI-22)", func(t *testing.T) {
		b := hit()
		b.Looked(client.Compute, Amounts{}, nil, noon)
		if b.exhausted(noon.Add(RetainedFor-time.Second)) || !b.exhausted(noon.Add(RetainedFor)) {
			t.Fatal("not after two steps")
		}
	})
}

func TestReservationsOfQuotaForMachines(t *testing.T) {
	t.Run("expire even after drover has stopped watching the quota (F-12)", func(t *testing.T) {
		refusal := fault.New(fault.Quota, fault.CodeQuotaExceeded, "Quota exceeded for instances")
		one := Amounts{Instances: 1}
		b := newQuotas()
		b.refused("first", refusal, one, noon)
		b.Looked(serviceOf(refusal.Code), Amounts{Instances: 20_000}, nil, noon.Add(QuotaPeriod))
		for n := range 10_000 {
			if err := b.reserve(uid(fmt.Sprint(n)), one, noon.Add(QuotaPeriod)); err != nil {
				t.Fatal(err)
			}
		}
		b.Looked(serviceOf(refusal.Code), Amounts{Instances: 20_000}, nil, noon.Add(2*QuotaPeriod))
		if b.Due(noon.Add(2 * QuotaPeriod)); len(b.watches) != 0 || len(b.reserved) != 10_000 {
			t.Fatalf("%d quotas are watched, %d reservations; want none, and those of all Machines", len(b.watches), len(b.reserved))
		}
		if b.Due(noon.Add(4 * QuotaPeriod)); len(b.reserved) != 0 {
			t.Errorf("%d reservations are left", len(b.reserved))
		}
	})
}
