package nova

import (
	"fmt"
	"testing"
)

func TestTheSimulatedNovaForgetsTheOldestDeletedServersWhenThereAreTooMany(t *testing.T) {
	var svc Service
	svc.servers.Put("living", &server{id: "living", state: active})
	for i := range 2 * maxDeleted {
		id := fmt.Sprintf("server-%d", i)
		svc.servers.Put(id, &server{id: id, state: deleted})
		svc.bury()
	}
	if got := svc.servers.Len(); got != maxDeleted+1 {
		t.Errorf("%d servers are remembered, want %d", got, maxDeleted+1)
	}
	_, living := svc.servers.Get("living")
	_, oldest := svc.servers.Get("server-0")
	_, newest := svc.servers.Get(fmt.Sprintf("server-%d", 2*maxDeleted-1))
	if !living || oldest || !newest {
		t.Errorf("living %v, oldest %v, newest %v; want true, false, true", living, oldest, newest)
	}
}
