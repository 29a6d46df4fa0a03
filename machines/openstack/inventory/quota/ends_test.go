package quota

import (
	"fmt"
	"testing"
	"time"

	"github.com/drover-project/drover/machines/fault"
)

func TestReservationsEnd(t *testing.T) {
	t.Run("when no quota is watched any more (F-12)", func(t *testing.T) {
		refusal := fault.New(fault.Quota, fault.CodeQuotaExceeded, "Quota exceeded for instances")
		one := Amounts{Instances: 1}
		b := New(2 * time.Second)
		b.Refused("first", refusal, one, noon)
		b.Looked(ownerOf(refusal.Code), Amounts{Instances: 20_000}, noon.Add(Period))
		for n := range 10_000 {
			if err := b.Reserve(uid(fmt.Sprint(n)), one, noon.Add(Period)); err != nil {
				t.Fatal(err)
			}
		}
		b.Looked(ownerOf(refusal.Code), Amounts{Instances: 20_000}, noon.Add(2*Period))
		if b.Due(noon.Add(2 * Period)); len(b.watches) != 0 || len(b.reserved) != 10_000 {
			t.Fatalf("%d quotas are followed, %d reservations; want none, and those of all Machines", len(b.watches), len(b.reserved))
		}
		if b.Due(noon.Add(4 * Period)); len(b.reserved) != 0 {
			t.Errorf("%d reservations are left", len(b.reserved))
		}
	})
}
