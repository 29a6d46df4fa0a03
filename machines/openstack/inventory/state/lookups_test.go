package state

import (
	"testing"

	"github.com/drover-project/drover/machines/fault"
)

func TestLookUpOfTheServerOfAMachine(t *testing.T) {
	m := Machine{UID: "u1"}
	failed := active("s1", "u1")
	failed.Status = statusError
	for name, tc := range map[string]struct {
		machine  Machine
		rows     []ServerRow
		port     string // the server that the Machine's port is bound to
		want     string
		required bool
	}{
		"is not due when a list shows the server as ACTIVE":                                                  {m, []ServerRow{active("s1", "u1")}, "s1", "", false},
		"is required when spec.providerID names a server that no list shows":                                 {Machine{UID: "u1", ServerID: "s9"}, nil, "", "s9", true},
		"is required when a port is bound to a server that no list shows":                                    {m, nil, "s9", "s9", true},
		"is due, but need not succeed, when a list shows the server in ERROR and only the reason is unknown": {m, []ServerRow{failed}, "s1", "s1", false},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProject(tc.machine)
			p.list(noon, AddressLists{Ports: []PortRow{{ID: "a", Description: portTag.String(), DeviceID: tc.port}}}, tc.rows...)
			if got, required := p.InDoubt(&tc.machine); got != tc.want || required != tc.required {
				t.Errorf("got %q, required %v; want %q, %v", got, required, tc.want, tc.required)
			}
		})
	}
	t.Run("is not due before the first complete list, so that a start makes no call for each Machine", func(t *testing.T) {
		named := Machine{UID: "u1", ServerID: "s9"}
		p := newProject(named)
		if got, _ := p.InDoubt(&named); got != "" {
			t.Errorf("got %q", got)
		}
	})
}

func TestAnswerToTheLookUpOfAServer(t *testing.T) {
	t.Run("drover reserves no volume quota for another Machine once the answer shows a server in ERROR for lack of volume quota", func(t *testing.T) {
		p := newProject(Machine{UID: "u1"})
		row := active("s1", "u1")
		row.Status, row.Fault.Message = statusError, "VolumeSizeExceedsAvailableQuota: Requested volume or snapshot exceeds allowed gigabytes quota."
		p.LookedUp(&Machine{UID: "u1"}, "s1", &row, nil, noon)
		if err := p.Quotas.reserve("u2", Amounts{Volumes: 1}, noon); !fault.Is(err, fault.Quota) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("a server that drover knew only from a port is gone after a 404", func(t *testing.T) {
		p := newProject(Machine{UID: "u1"})
		p.LookedUp(&Machine{UID: "u1"}, "s9", nil, fault.New(fault.NotFound, fault.CodeUnknown, "itemNotFound"), noon)
		if k := p.Servers.get("s9"); !k.gone {
			t.Error("the server is not gone")
		}
	})
}
