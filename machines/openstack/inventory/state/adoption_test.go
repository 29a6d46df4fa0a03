package state

import (
	"slices"
	"testing"
	"time"
)

func TestPortsAndFloatingIPsOfAnAdoptedServerGetTheNewOwnerTag(t *testing.T) {
	was := testCluster.Tag(PortKind, "old", 0)
	p := newProject(Machine{UID: "u1", Adopts: "s1"})
	p.SetPort(was, Port{ID: "a", ServerID: "s1"}, noon)
	p.SetPort(testCluster.Tag(PortKind, "old", 1), Port{ID: "b", ServerID: "s2"}, noon)
	p.SetFloatingIP(testCluster.Tag(FloatingIPKind, "old", 0), FloatingIP{ID: "ip", PortID: "a"}, noon)
	p.list(noon, AddressLists{}, active("s1", "old"))
	tags, ok := p.Adoptee(&Machine{UID: "u1", Adopts: "s1"})
	if !ok || !p.Servers.Adopt("s1", tags.Machine, "u1") {
		t.Fatalf("the server cannot be adopted: %+v", tags)
	}
	due, more := p.Untagged(9, noon)
	if len(due) != 1 || more || due[0] != (Untagged{ID: "s1", Machine: "u1", Was: "old"}) {
		t.Fatalf("got %v, want the adopted server", due)
	}
	ports := p.AdoptedPorts(due[0])
	if len(ports) != 1 || ports[0].Port.ID != "a" || ports[0].FloatingIP == nil || ports[0].FloatingIP.ID != "ip" {
		t.Fatalf("got %+v, want port a with its floating IP", ports)
	}
	p.AdoptedIP(ports[0], noon)
	p.AdoptedPort(ports[0], noon)
	if ids := p.Addresses.portIDs("u1"); !slices.Equal(ids, []string{"a"}) {
		t.Errorf("the Machine has ports %v, want a", ids)
	}
	if ip, _ := p.Addresses.FloatingIP("u1"); ip.ID != "ip" || !slices.Equal(p.Addresses.portIDs("old"), []string{"b"}) {
		t.Errorf("the Machine has floating IP %q; the former one has ports %v, want b", ip.ID, p.Addresses.portIDs("old"))
	}
	if again, _ := p.Untagged(9, noon.Add(time.Minute)); len(again) > 0 {
		t.Errorf("the server is tagged again at once: %v", again)
	}
}
