package openstack

import (
	"testing"

	"github.com/drover-project/drover/machines/fault"
)

func TestPoolErrorChangesOnlyTheCodeOfAnExhaustedPool(t *testing.T) {
	full := fault.New(fault.NoCapacity, fault.CodeAddressesExhausted, "no more addresses")
	if e := fault.Of(poolError(full)); e.Class != fault.NoCapacity || e.Code != fault.CodeIPPoolExhausted || e.Message != full.Message {
		t.Errorf("got %+v", e)
	}
	other := fault.New(fault.Quota, fault.CodeFloatingIPQuotaExceeded, "quota")
	if e := fault.Of(poolError(other)); e != other {
		t.Errorf("got %+v", e)
	}
}
