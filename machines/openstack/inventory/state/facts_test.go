package state

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/fault"
)

func TestProofByAGETThatAServerIsGone(t *testing.T) {
	notFound := fault.New(fault.NotFound, fault.CodeUnknown, "itemNotFound")
	here, elsewhere := Site{Project: "p", Region: "r"}, Site{Project: "p2", Region: "r"}
	for name, tc := range map[string]struct {
		machine Machine
		// listed is true when the first lists show the server. then is called after the first lists.
		listed  bool
		then    func(*Project, *Machine)
		gone    bool
		unknown string
	}{
		"a server that no list shows does not count as gone without a GET": {Machine{UID: "u1", ServerID: "s1", Recorded: here}, false, nil, false, ""},
		"a server whose GET answers 404 counts as gone": {Machine{UID: "u1", ServerID: "s1", Recorded: here}, true,
			func(p *Project, m *Machine) { p.LookedUp(m, "s1", nil, notFound, noon) }, true, ""},
		"a server whose GET gets no answer does not count as gone": {Machine{UID: "u1", ServerID: "s1", Recorded: here}, false,
			func(p *Project, m *Machine) {
				p.LookedUp(m, "s1", nil, fault.New(fault.Transient, fault.CodeUnknown, "lost"), noon)
			}, false, ""},
		"a 404 proves nothing when the Machine's status records another project than the one that answered (F-15)": {Machine{UID: "u1", ServerID: "s1", Recorded: elsewhere}, false,
			func(p *Project, m *Machine) { p.LookedUp(m, "s1", nil, notFound, noon) }, false, "project p2"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProject(tc.machine)
			if tc.listed {
				p.list(noon, AddressLists{}, active("s1", "u1"))
			} else {
				p.list(noon, AddressLists{})
			}
			if tc.then != nil {
				tc.then(p, &tc.machine)
			}
			f := p.Facts(&tc.machine)
			if f.Gone != tc.gone || (f.Unknown == "") != (tc.unknown == "") || !strings.Contains(f.Unknown, tc.unknown) {
				t.Errorf("gone %v, unknown %q; want %v, %q", f.Gone, f.Unknown, tc.gone, tc.unknown)
			}
		})
	}
}

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
			p.list(noon, AddressLists{Ports: []Port{{ID: "a", Description: portTag.String(), DeviceID: tc.port}}}, tc.rows...)
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
		if k := p.Servers.byID["s9"]; !k.gone() {
			t.Error("the server is not gone")
		}
	})
}

func TestMachinesThatHaveLostTheirServers(t *testing.T) {
	here := Site{Project: "p", Region: "r"}
	machine := Machine{UID: "u1", ServerID: "s1", Recorded: here, Replaced: true}
	with := func(change func(*Machine)) Machine {
		m := machine
		change(&m)
		return m
	}
	deleted, others := active("s1", "u1"), active("s1", "u2")
	deleted.Status, deleted.Updated = "DELETED", noon.Add(1)
	others.Status = "DELETED"
	for name, tc := range map[string]struct {
		machine Machine
		rows    []ServerRow
		then    func(*Project)
		want    int
	}{
		"a Machine whose server is listed has lost none":                                   {machine, []ServerRow{active("s1", "u1")}, nil, 0},
		"a Machine whose server is DELETED has lost it":                                    {machine, []ServerRow{deleted}, nil, 1},
		"a Machine whose server the complete list lacks has lost it, also after a restart": {machine, nil, nil, 1},
		"a Machine that is being deleted does not count (F-59)":                            {with(func(m *Machine) { m.Leaving = true }), []ServerRow{deleted}, nil, 0},
		"a Machine that nobody would replace does not count":                               {with(func(m *Machine) { m.Replaced = false }), []ServerRow{deleted}, nil, 0},
		"a Machine whose server was last seen in another project does not count":           {with(func(m *Machine) { m.Recorded.Project = "other" }), nil, nil, 0},
		"a Machine that names a server of another Machine, which is gone, has lost none":   {machine, []ServerRow{others}, nil, 0},
		"a Machine that has another server than the one that it names has lost none":       {machine, []ServerRow{deleted, active("s2", "u1")}, nil, 0},
		"a Machine whose server a GET by its ID has not found has lost it":                 {machine, []ServerRow{active("s1", "u1")}, func(p *Project) { p.Servers.markGone("s1", "u1", noon) }, 1},
		"a Machine whose server the next complete list lacks has lost it":                  {machine, []ServerRow{active("s1", "u1")}, func(p *Project) { p.list(noon.Add(FullPeriod), AddressLists{}) }, 1},
		"a Machine whose server is listed again after it was missing has lost none (F-59)": {machine, []ServerRow{active("s1", "u1")}, func(p *Project) {
			p.list(noon.Add(FullPeriod), AddressLists{})
			p.list(noon.Add(2*FullPeriod), AddressLists{}, active("s1", "u1"))
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProject(tc.machine)
			p.list(noon, AddressLists{}, tc.rows...)
			if tc.then != nil {
				tc.then(p)
			}
			if got := p.losses(math.MaxInt); got != tc.want {
				t.Errorf("%d, want %d", got, tc.want)
			}
		})
	}
	t.Run("before the first complete list, no Machine has lost its server", func(t *testing.T) {
		if got := newProject(machine).losses(math.MaxInt); got != 0 {
			t.Errorf("%d", got)
		}
	})
}

// BenchmarkHeld asks whether losses are held in a project of 15,000 Machines.
func BenchmarkHeld(b *testing.B) {
	const n = 15_000
	for _, lost := range []int{0, n} {
		b.Run(fmt.Sprintf("%d servers are lost", lost), func(b *testing.B) {
			var rows []ServerRow
			var all []Machine
			for i := range n {
				id, uid := fmt.Sprintf("s%d", i), types.UID(fmt.Sprintf("u%d", i))
				all = append(all, Machine{UID: uid, ServerID: id, Recorded: Site{Project: "p", Region: "r"}, Replaced: true})
				if i >= lost {
					rows = append(rows, active(id, uid))
				}
			}
			p := newProject(all...)
			p.list(noon, AddressLists{}, rows...)
			for b.Loop() {
				if (p.held() != "") != (lost > 0) {
					b.Fatal(p.held())
				}
			}
		})
	}
}
