package verdict

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/cloud"
)

// Each row is one way in which a resource can look as if it had no Machine. Nobody has seen these Machines end.
func TestNothingIsDeletedWithoutAnObservedEnd(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(s *Snapshot)
		want   []Reason
	}{
		"an empty list of Machines deletes nothing (MCM-82)": {func(s *Snapshot) { s.Machines = nil }, []Reason{Unconfirmed}},
		"a partial list of Machines deletes nothing (MCM-82)": {func(s *Snapshot) {
			s.Machines = slices.DeleteFunc(s.Machines, func(m Machine) bool { return strings.HasSuffix(m.Name, "3") })
		}, []Reason{Unconfirmed}},
		"a list of Machines from yesterday deletes nothing of what was made since (MCM-82, F-72)": {func(s *Snapshot) { s.lose(8) }, []Reason{Unconfirmed}},
		"what a clone of the cluster makes with the same cluster ID is not deleted (MCM-82, F-72)": {func(s *Snapshot) {
			s.has(serverOf(100), portOf(101))
		}, []Reason{Unconfirmed}},
		"the servers of a second cluster with the same cluster ID are not deleted (MCM-82, F-100)": {func(s *Snapshot) {
			for n := range 50 {
				s.has(serverOf(100 + n))
			}
		}, []Reason{Unconfirmed}},
		"resources that the tags of a new cluster ID show are not deleted (MCM-82)": {func(s *Snapshot) { *s = *world(0); s.has(serverOf(100), portOf(101)) }, []Reason{Unconfirmed}},
		"a Machine that ended before the CRDs were made again loses nothing (MCM-82)": {func(s *Snapshot) {
			s.lose(2)
			s.end(8, time.Hour)
			s.end(9, time.Hour)
			s.Defined = noon.Add(-time.Hour + time.Second)
		}, []Reason{Unconfirmed}},
		"a Machine that ended in the second in which a CRD was made loses nothing (MCM-82)": {func(s *Snapshot) {
			s.lose(1)
			s.end(9, time.Hour)
			s.Defined = noon.Add(-time.Hour - crdMargin/2)
		}, []Reason{Unconfirmed}},
		"a Machine whose deletion was requested before the CRDs were made again loses nothing, although its end was observed later (MCM-82)": {func(s *Snapshot) {
			s.lose(1)
			s.end(9, time.Hour)
			late := s.Ends[number(9)]
			late.Ordered = noon.Add(-3 * time.Hour)
			s.Ends[number(9)] = late
			s.Defined = noon.Add(-2 * time.Hour)
		}, []Reason{Unconfirmed}},
		"nothing is deleted while reads may be out of date, although an end was observed (MCM-80)": {func(s *Snapshot) {
			s.has(serverOf(20))
			s.Stale = "the API server does not answer"
		}, []Reason{Stale}},
		"nothing is deleted in a project whose lists are incomplete, although an end was observed (MCM-80)": {func(s *Snapshot) {
			s.has(serverOf(20))
			s.Projects[0].Unknown = "the last list failed"
		}, []Reason{Incomplete}},
	} {
		t.Run(name, func(t *testing.T) {
			s := world(10)
			tc.change(s)
			v := Judge(s)
			if got := reasons(v); len(deleted(v)) > 0 || !slices.Equal(got, tc.want) {
				t.Errorf("deletes %v, reasons %v; found %+v", deleted(v), got, v.Orphans)
			}
		})
	}
}

func TestOtherProjectsDoNotDelayTheDeletionOfOrphans(t *testing.T) {
	for name, tenant := range map[string]cloud.Project{
		"orphans are deleted although the resources of another project cannot be listed (MCM-80)":                            {Name: "t", Place: "t", Unknown: "the last list failed"},
		"orphans are deleted although a cloud that claims the ID of their project has servers of unknown Machines (F-95)":    {Name: "p", Place: "other p", Resources: []cloud.Resource{{Place: "other p", Kind: cloud.ResourceServer, ID: "x", Machine: "unknown"}}},
		"orphans are deleted although a Machine that nobody has seen has a server created during this leader's time (F-100)": {Name: "p", Place: "p", Resources: []cloud.Resource{serverOf(100)}},
	} {
		t.Run(name, func(t *testing.T) {
			s := world(10)
			s.has(serverOf(20))
			s.Projects = append(s.Projects, tenant)
			if got := deleted(Judge(s)); !slices.Equal(got, []string{"server-20"}) {
				t.Errorf("deletes %v", got)
			}
		})
	}
}

func TestAPersonConfirmsTheDeletionOfOrphans(t *testing.T) {
	// The Machines 8 and 9 are gone, and nobody has seen them end. Another project has a server of Machine 30. The Node of Machine
	// 31 has no server, and another Node does not show the UID of its Machine.
	fresh := func() *Snapshot {
		s := world(10)
		s.lose(2)
		other := serverOf(30)
		other.Place = "url region t"
		s.Projects = append(s.Projects, cloud.Project{Name: "t", Place: other.Place, Resources: []cloud.Resource{other}})
		s.Nodes = []Node{nodeOfMachine(31), nodeOfMachine(32)}
		s.Nodes[1].OwnedBy = ""
		return s
	}
	// The person has read a report that lacks Machine 9.
	const report = "server server-8 (worker-8) of x: y\nserver server-30 (worker-30) of x: y\nNode worker-31: y"
	for name, tc := range map[string]struct {
		words, want, unknown []string
	}{
		"by the ID of a resource (MCM-82)":                                {[]string{"server-9"}, []string{"server-9"}, nil},
		"by the UID of a Machine (MCM-82)":                                {[]string{"u9"}, []string{"server-9"}, nil},
		"by the name of a Node (MCM-86)":                                  {[]string{"worker-31"}, []string{"worker-31"}, nil},
		"by the name of a Node that does not show the Machine's UID":      {[]string{"worker-32"}, []string{"worker-32"}, nil},
		"by the project, without what the report did not show (MCM-82)":   {[]string{"project/p"}, []string{"server-8"}, nil},
		"by the project of one Keystone and region (F-95)":                {[]string{"project/url/region/t"}, []string{"server-30"}, nil},
		"with several words (MCM-82)":                                     {[]string{"server-8", "server-30"}, []string{"server-30", "server-8"}, nil},
		"with words that name nothing, which are returned (MCM-82)":       {[]string{"yes", "server-9", "project/t", "u0", "server-0"}, []string{"server-9"}, []string{"yes", "project/t", "u0", "server-0"}},
		"with the ID of an existing Machine's port, which is not deleted": {[]string{"port-0"}, nil, []string{"port-0"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := fresh()
			confirmed, unknown := judged(s).Confirm(tc.words, noon, report)
			maps.Copy(s.Ends, confirmed)
			v := Judge(s)
			if got := deleted(v); !slices.Equal(got, tc.want) || !slices.Equal(unknown, tc.unknown) {
				t.Errorf("deletes %v, want %v; unknown are %v", got, tc.want, unknown)
			}
		})
	}
	t.Run("although the Machine ended before the CRDs were made again, and in the same round (MCM-82)", func(t *testing.T) {
		s := fresh()
		s.end(9, time.Minute)
		s.Defined = noon
		confirmed, _ := judged(s).Confirm([]string{"server-9"}, noon, "")
		if end := confirmed[number(9)]; end.Place != "p of u9" {
			t.Errorf("the end has lost its place: %+v", end)
		}
		maps.Copy(s.Ends, confirmed)
		if got := deleted(Judge(s)); !slices.Equal(got, []string{"server-9"}) {
			t.Errorf("deletes %v", got)
		}
	})
	t.Run("the name of a Node confirms nothing of the Machine whose UID the Node shows, because its kubelet chooses it (MCM-82)", func(t *testing.T) {
		s := fresh()
		s.Nodes[0].OwnedBy = number(9)
		confirmed, _ := judged(s).Confirm([]string{"worker-31"}, noon, report)
		maps.Copy(s.Ends, confirmed)
		if got := deleted(Judge(s)); !slices.Equal(got, []string{"worker-31"}) {
			t.Errorf("deletes %v", got)
		}
	})
	t.Run("the confirmation of a Machine has no effect on a Machine with the same UID that exists (MCM-82)", func(t *testing.T) {
		s := world(10)
		s.Ends[number(9)] = End{UID: number(9), Time: noon, Confirmed: true}
		if v := Judge(s); len(v.Orphans) > 0 || !slices.Equal(v.Over, []types.UID{number(9)}) {
			t.Errorf("found %+v; over are %v", v.Orphans, v.Over)
		}
	})
}

func TestHowLongAnEndIsKnown(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(s *Snapshot)
		over   bool
	}{
		"an end is known for a day after nothing is left (MCM-81)":        {func(s *Snapshot) { s.end(30, 23*time.Hour) }, false},
		"an end is forgotten after a day when nothing is left (MCM-81)":   {func(s *Snapshot) { s.end(30, 24*time.Hour) }, true},
		"an end is known as long as a resource of the Machine exists":     {func(s *Snapshot) { s.end(30, 48*time.Hour); s.has(portOf(30)) }, false},
		"an end is known as long as the Node of the Machine exists":       {func(s *Snapshot) { s.end(30, 48*time.Hour); s.Nodes = []Node{nodeOfMachine(30)} }, false},
		"an end is known as long as a project is not listed":              {func(s *Snapshot) { s.end(30, 48*time.Hour); s.Projects[0].Unknown = "no list" }, false},
		"an end is known as long as no project is known":                  {func(s *Snapshot) { s.end(30, 48*time.Hour); s.Projects = nil }, false},
		"an end is forgotten when its Machine exists, as after a restore": {func(s *Snapshot) { s.end(30, time.Hour); s.Machines = append(s.Machines, machineOf(30)) }, true},
		"an end is not forgotten because reads may be out of date":        {func(s *Snapshot) { s.end(30, 48*time.Hour); s.Stale = "no lease" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := world(10)
			tc.change(s)
			if got := slices.Contains(Judge(s).Over, number(30)); got != tc.over {
				t.Errorf("forgotten: %v", got)
			}
		})
	}
	t.Run("the Machines of all resources and Nodes count as those that have something left", func(t *testing.T) {
		s := world(2)
		s.Nodes = []Node{nodeOfMachine(7)}
		if got, want := fmt.Sprint(slices.Sorted(maps.Keys(Left(s.Projects, s.Nodes)))), fmt.Sprint(slices.Sorted(slices.Values([]types.UID{"u0", "u1", "u7", s.Nodes[0].UID}))); got != want {
			t.Errorf("got %s", got)
		}
	})
}
