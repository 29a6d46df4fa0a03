package state

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

func TestLossesAreTooManyWhenTheyAreMoreThanThree(t *testing.T) {
	for lost, want := range map[losses]bool{0: false, 3: false, 4: true, 2000: true} {
		if lost.areTooMany() != want || strings.HasPrefix(lost.String(), "more than 3 Machines") != want {
			t.Errorf("%d: %v, %q", lost, lost.areTooMany(), lost)
		}
	}
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
		want    losses
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
				if (p.Held() != "") != (lost > 0) {
					b.Fatal(p.Held())
				}
			}
		})
	}
}
