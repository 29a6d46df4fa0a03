package known

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/openstack/inventory/addresses"
	"github.com/drover-project/drover/machines/openstack/inventory/owner"
	"github.com/drover-project/drover/machines/openstack/inventory/servers"
)

func TestLossesAreTooManyWhenTheyAreMoreThanThreeAndMoreThanATenthOfTheMachines(t *testing.T) {
	for _, tc := range []struct {
		lost, machines int
		want           bool
	}{{3, 3, false}, {4, 4, true}, {3, 20, false}, {4, 20, true}, {4, 39, true}, {4, 40, false}, {10, 100, false}, {11, 100, true}} {
		l := Losses{tc.lost, tc.machines}
		if l.TooMany() != tc.want || (l.String() != "") != tc.want {
			t.Errorf("%d of %d: %v, %q", tc.lost, tc.machines, l.TooMany(), l)
		}
	}
	if text := (Losses{5, 10}).String(); !strings.HasPrefix(text, "5 of the 10 Machines") {
		t.Error(text)
	}
}

func TestMachinesThatHaveLostTheirServers(t *testing.T) {
	site := owner.Site{Project: "p", Region: "r"}
	deleted := active("s1", "u1")
	deleted.Status, deleted.Updated = "DELETED", noon.Add(1)
	for name, tc := range map[string]struct {
		rows     []servers.Row
		server   string
		recorded owner.Site
		then     func(*Project)
		want     Losses
	}{
		"a Machine whose server is listed has lost none":                                   {[]servers.Row{active("s1", "u1")}, "s1", site, nil, Losses{0, 1}},
		"a Machine whose server is DELETED has lost it":                                    {[]servers.Row{deleted}, "s1", site, nil, Losses{1, 1}},
		"a Machine whose server the complete list lacks has lost it, also after a restart": {nil, "s1", site, nil, Losses{1, 1}},
		"a Machine whose server belongs to another project does not count":                 {nil, "s1", owner.Site{Project: "other", Region: "r"}, nil, Losses{}},
		"a Machine that names a server of another Machine, which is gone, has lost none":   {[]servers.Row{{ID: "s1", Status: "DELETED", Updated: noon, Metadata: testCluster.Metadata("u2")}}, "s1", site, nil, Losses{0, 1}},
		"a Machine that has another server than the one that it names has lost none":       {[]servers.Row{deleted, active("s2", "u1")}, "s1", site, nil, Losses{0, 1}},
		"a Machine whose server a GET by its ID has not found has lost it":                 {[]servers.Row{active("s1", "u1")}, "s1", site, func(p *Project) { p.Servers.MarkGone("s1", "u1", noon) }, Losses{1, 1}},
		"a Machine whose server the next complete list lacks has lost it":                  {[]servers.Row{active("s1", "u1")}, "s1", site, func(p *Project) { p.list(noon.Add(servers.FullPeriod), addresses.Lists{}) }, Losses{1, 1}},
		"a Machine whose server is listed again after it was missing has lost none (F-59)": {[]servers.Row{active("s1", "u1")}, "s1", site, func(p *Project) {
			p.list(noon.Add(servers.FullPeriod), addresses.Lists{})
			p.list(noon.Add(2*servers.FullPeriod), addresses.Lists{}, active("s1", "u1"))
		}, Losses{0, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProject(owner.Machine{UID: "u1", ServerID: tc.server})
			p.list(noon, addresses.Lists{}, tc.rows...)
			if tc.then != nil {
				tc.then(p)
			}
			all := []Named{{Machine: "u1", ServerID: tc.server, Recorded: func() owner.Site { return tc.recorded }}}
			if got := p.Losses(slices.Values(all)); got != tc.want {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
		})
	}
	t.Run("before the first complete list, no Machine has lost its server", func(t *testing.T) {
		p := newProject()
		all := []Named{{Machine: "u1", ServerID: "s1", Recorded: func() owner.Site { return site }}}
		if got := p.Losses(slices.Values(all)); got != (Losses{}) {
			t.Errorf("got %+v", got)
		}
	})
}

func BenchmarkLosses(b *testing.B) {
	const n = 15_000
	p := newProject()
	var rows []servers.Row
	var all []Named
	for i := range n {
		id, uid := fmt.Sprintf("s%d", i), types.UID(fmt.Sprintf("u%d", i))
		rows = append(rows, active(id, uid))
		all = append(all, Named{Machine: uid, ServerID: id, Recorded: func() owner.Site { return owner.Site{} }})
	}
	p.list(noon, addresses.Lists{}, rows...)
	for b.Loop() {
		if p.Losses(slices.Values(all)).Machines != n {
			b.Fatal("some Machines do not count")
		}
	}
}
