package state

import (
	"strings"
	"testing"

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
