package gate

import "testing"

func TestTheCallLogOfTheSimulatedCloudKeepsALimitedNumberOfCallsAndCountsAll(t *testing.T) {
	var l Log
	for i := range 2*maxCalls + 1 {
		l.add(Call{Service: "compute", Method: "GET", Path: "/servers", Status: i})
	}
	l.add(Call{Service: "network", Method: "GET", Path: "/ports"})
	if got := len(l.All()); got != maxCalls+2 {
		t.Errorf("the log keeps %d calls, want %d", got, maxCalls+2)
	}
	if got := l.Count(); got != 2*maxCalls+2 {
		t.Errorf("the log counts %d calls, want %d", got, 2*maxCalls+2)
	}
	if got := l.Count("GET /servers", "compute"); got != 2*maxCalls+1 {
		t.Errorf("the log counts %d calls of compute, want %d", got, 2*maxCalls+1)
	}
	if got := l.ByName()["GET /ports"]; got != 1 {
		t.Errorf("the log counts %d × GET /ports, want 1", got)
	}
}
