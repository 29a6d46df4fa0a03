package known

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/inventory/addresses"
	"github.com/drover-project/drover/machines/openstack/inventory/owner"
	"github.com/drover-project/drover/machines/openstack/inventory/quota"
	"github.com/drover-project/drover/machines/openstack/inventory/servers"
)

func TestLookUpOfTheServerOfAMachine(t *testing.T) {
	m := owner.Machine{UID: "u1"}
	failed := active("s1", "u1")
	failed.Status = servers.StatusError
	for name, tc := range map[string]struct {
		machine  owner.Machine
		rows     []servers.Row
		port     string // the server that the Machine's port is bound to
		want     string
		required bool
	}{
		"is not due when a list shows the server as ACTIVE":                                                  {m, []servers.Row{active("s1", "u1")}, "s1", "", false},
		"is required when spec.providerID names a server that no list shows":                                 {owner.Machine{UID: "u1", ServerID: "s9"}, nil, "", "s9", true},
		"is required when a port is bound to a server that no list shows":                                    {m, nil, "s9", "s9", true},
		"is due, but need not succeed, when a list shows the server in ERROR and only the reason is unknown": {m, []servers.Row{failed}, "s1", "s1", false},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProject(tc.machine)
			p.Guard.MakeReady()
			p.list(noon, addresses.Lists{Ports: []addresses.PortRow{{ID: "a", Description: portTag.String(), DeviceID: tc.port}}}, tc.rows...)
			if got, required := p.InDoubt(&tc.machine); got != tc.want || required != tc.required {
				t.Errorf("got %q, required %v; want %q, %v", got, required, tc.want, tc.required)
			}
		})
	}
	t.Run("is not due until a new drover process has looked up the Machines' servers missing from its first list (F-16)", func(t *testing.T) {
		named := owner.Machine{UID: "u1", ServerID: "s9"}
		p := newProject(named)
		p.list(noon, addresses.Lists{})
		if got, _ := p.InDoubt(&named); got != "" {
			t.Errorf("got %q", got)
		}
	})
}

func TestServersThatTheFirstListAfterTheStartLacks(t *testing.T) {
	named := func(count int) map[string]types.UID {
		all := map[string]types.UID{}
		for n := range count {
			all[fmt.Sprintf("s%d", n)] = types.UID(fmt.Sprintf("u%d", n))
		}
		return all
	}
	for name, tc := range map[string]struct {
		named int
		want  int
		held  int
	}{
		"no server is looked up when the list has all servers":                                                        {1, 0, 0},
		"three servers are looked up when the list lacks three of four (F-16)":                                        {4, 3, 0},
		"the mass-deletion guard holds all missing servers without a look-up when the list lacks four of five (F-16)": {5, 0, 4},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProject()
			p.list(noon, addresses.Lists{}, active("s0", "u0"))
			if !p.IsFirstLookDue() {
				t.Error("the first look is not due after the first list")
			}
			if got := p.Unlisted(named(tc.named), noon); len(got) != tc.want || p.Guard.Held() != tc.held {
				t.Errorf("asks for %v and holds %d; want %d, %d", got, p.Guard.Held(), tc.want, tc.held)
			}
		})
	}
}

func TestFirstLookUpOfAMissingServer(t *testing.T) {
	notFound := fault.New(fault.NotFound, fault.CodeUnknown, "itemNotFound")
	lost := fault.New(fault.Transient, fault.CodeUnknown, "no answer")
	row := active("s1", "u1")
	for name, tc := range map[string]struct {
		found         *servers.Row
		err           error
		gone, missing bool
	}{
		"a server that the look-up finds counts neither as gone nor as missing": {&row, nil, false, false},
		"a server whose look-up answers 404 counts as gone":                     {nil, notFound, true, false},
		"a server whose look-up gets no answer still counts as missing (F-16)":  {nil, lost, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProject()
			p.Unlisted(map[string]types.UID{"s1": "u1"}, noon)
			p.FirstLooked("u1", "s1", tc.found, tc.err, noon)
			if k := p.Servers.ByID("s1"); k.Gone != tc.gone || k.Missing != tc.missing {
				t.Errorf("gone %v, missing %v; want %v, %v", k.Gone, k.Missing, tc.gone, tc.missing)
			}
		})
	}
}

func TestAnswerToTheLookUpOfAServer(t *testing.T) {
	t.Run("drover reserves no volume quota for another Machine once the answer shows a server in ERROR for lack of volume quota", func(t *testing.T) {
		p := newProject(owner.Machine{UID: "u1"})
		row := active("s1", "u1")
		row.Status, row.Fault.Message = servers.StatusError, "VolumeSizeExceedsAvailableQuota: Requested volume or snapshot exceeds allowed gigabytes quota."
		p.LookedUp(&owner.Machine{UID: "u1"}, "s1", &row, nil, noon)
		if err := p.Quota.Reserve("u2", quota.Amounts{quota.Volumes: 1}, noon); !fault.Is(err, fault.Quota) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("a server that drover knew only from a port is gone after a 404, and the mass-deletion guard does not count it as lost", func(t *testing.T) {
		p := newProject(owner.Machine{UID: "u1"})
		p.LookedUp(&owner.Machine{UID: "u1"}, "s9", nil, fault.New(fault.NotFound, fault.CodeUnknown, "itemNotFound"), noon)
		if k := p.Servers.ByID("s9"); !k.Gone || !k.Wanted {
			t.Errorf("gone %v, wanted %v", k.Gone, k.Wanted)
		}
	})
}
