package state

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/drover-project/drover/machines/cloud"
)

// ids returns a text for each resource: its kind, its ID, and the ID of the server that uses it.
func ids(all []cloud.Resource) (out []string) {
	for _, r := range all {
		out = append(out, string(r.Kind)+" "+r.ID+" "+r.UsedBy)
	}
	return out
}

func TestListOfResourcesWithTheClustersOwnerTag(t *testing.T) {
	ipTag := testCluster.Tag(cloud.ResourceFloatingIP, "u1", 0).String()
	lists := AddressLists{
		Ports: []Port{
			{ID: "a", Description: portTag.String(), DeviceID: "s1"}, {ID: "late", Description: portTag.String()}, {ID: "foreign", Description: "drover c2 u1 0"},
		},
		FloatingIPs: []FloatingIP{{ID: "first", Description: ipTag}, {ID: "second", Description: ipTag, PortID: "a"}, {ID: "by-hand", PortID: "a"}},
	}
	p := newProject()
	foreign := active("s2", "u1")
	foreign.Metadata.Cluster = "c2"
	unmarked := ServerRow{ID: "s3", Status: statusActive, Updated: noon}
	if p.Doubt() == "" {
		t.Error("the error before the first list is missing")
	}
	p.list(noon, lists, active("s1", "u1"), foreign, unmarked)
	t.Run("the list has the cluster's servers, ports and floating IPs, even when several have the same owner tag (MCM-84, MCM-85)", func(t *testing.T) {
		want := []string{"floating IP first ", "floating IP second s1", "port a s1", "port late ", "server s1 "}
		if got := ids(p.Tagged()); !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		if p.Doubt() != "" {
			t.Errorf("in doubt: %s", p.Doubt())
		}
	})
	t.Run("the list is not reliable after a request for one of the cloud's lists has failed (MCM-80)", func(t *testing.T) {
		p.Failed(errors.New("no route"), noon)
		if p.Doubt() == "" {
			t.Error("there is none")
		}
	})
	t.Run("the list shows that the cloud is deleting a server (MCM-81)", func(t *testing.T) {
		leaving := active("s1", "u1")
		leaving.TaskState = "deleting"
		p.list(noon.Add(AddressPeriod), lists, leaving, foreign, unmarked)
		for _, r := range p.Tagged() {
			if r.Deleting != (r.Kind == cloud.ResourceServer) {
				t.Errorf("the cloud is deleting %s %s: %v", r.Kind, r.ID, r.Deleting)
			}
		}
	})
	t.Run("a port whose server is gone is listed as unused, and is no longer listed after the deletion of the port (CAPI-59)", func(t *testing.T) {
		p.Servers.markGone("s1", "u1", noon.Add(AddressPeriod))
		for _, r := range p.Tagged() {
			if r.UsedBy != "" || r.Kind == cloud.ResourceServer {
				t.Errorf("there is %+v", r)
			}
			p.Collected(r, noon.Add(AddressPeriod))
		}
		if rest := p.Tagged(); len(rest) > 0 {
			t.Errorf("left are %q", ids(rest))
		}
	})
}

func TestMissingServerInTheListOfResourcesWithTheClustersOwnerTag(t *testing.T) {
	t.Run("a server that Nova does not list is not in drover's list either, and its port is listed as in use (MCM-81)", func(t *testing.T) {
		p := newProject()
		l := AddressLists{Ports: []Port{{ID: "a", Description: portTag.String(), DeviceID: "s1"}}}
		p.list(noon, l, active("s1", "u1"))
		p.list(noon.Add(time.Hour), l)
		if got, want := ids(p.Tagged()), []string{"port a s1"}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		if !p.Lacks("s1") || !p.Lacks("never") {
			t.Error("the server is not lacking")
		}
	})
}
