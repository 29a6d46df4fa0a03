package servers

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/openstack/inventory/owner"
)

// at returns the row of a server that was updated the given number of seconds after noon.
func at(id, status string, second int) Row {
	return Row{ID: id, Status: status, Updated: noon.Add(time.Duration(second) * time.Second), Metadata: map[string]string{owner.MetadataMachineUID: "uid-" + id}}
}

func TestListOfServersIsMergedIntoTheCache(t *testing.T) {
	changes := func(rows ...Row) List {
		return List{Rows: rows, Started: noon.Add(time.Minute), Now: noon.Add(time.Minute)}
	}
	full := func(rows ...Row) List {
		l := changes(rows...)
		l.Full = true
		return l
	}
	for name, tc := range map[string]struct {
		before  []Row
		lists   []List
		changed []string // the servers that changed with the last list
		gone    []string
		missing []string
	}{
		"reports a new server as changed":                                              {nil, []List{full(at("a", StatusBuild, 0))}, []string{"a"}, nil, nil},
		"does not report a server as changed when its row is unchanged":                {[]Row{at("a", StatusActive, 0)}, []List{changes(at("a", StatusActive, 0))}, nil, nil, nil},
		"reports a server as changed when its status changes":                          {[]Row{at("a", StatusBuild, 0)}, []List{changes(at("a", StatusActive, 1))}, []string{"a"}, nil, nil},
		"ignores a row that is older than the row in the cache":                        {[]Row{at("a", StatusActive, 5)}, []List{changes(at("a", StatusBuild, 1))}, nil, nil, nil},
		"marks a server as gone when its row is DELETED":                               {[]Row{at("a", StatusActive, 0)}, []List{changes(Row{ID: "a", Status: statusDeleted, Updated: noon.Add(time.Second)})}, []string{"a"}, []string{"a"}, nil},
		"keeps a deleted server as gone when an outdated list still shows it":          {[]Row{at("a", StatusActive, 0), at("a", statusDeleted, 9)}, []List{full(at("a", StatusActive, 0))}, nil, []string{"a"}, nil},
		"marks a server as missing, not gone, when a complete list lacks it (CAPI-36)": {[]Row{at("a", StatusActive, 0)}, []List{full()}, []string{"a"}, nil, []string{"a"}},
		"reports a missing server as changed only once":                                {[]Row{at("a", StatusActive, 0)}, []List{full(), full()}, nil, nil, []string{"a"}},
		"does not mark a server as missing when a list of changes lacks it":            {[]Row{at("a", StatusActive, 0)}, []List{changes()}, nil, nil, nil},
		"reports a missing server as changed when a complete list has it again":        {[]Row{at("a", StatusActive, 0)}, []List{full(), full(at("a", StatusActive, 0))}, []string{"a"}, nil, nil},
		"does not mark a server as missing when it was created after the list began": {[]Row{at("a", StatusActive, 0)},
			[]List{{Full: true, Started: noon.Add(-time.Minute), Now: noon.Add(time.Minute)}}, nil, nil, nil},
		"takes new addresses even from a row whose update time has not changed (CAPI-34)": {[]Row{at("a", StatusActive, 0)},
			[]List{full(func() Row {
				r := at("a", StatusActive, 0)
				r.Addresses = map[string][]Address{"n": {{Address: "10.0.0.1"}}}
				return r
			}())}, []string{"a"}, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			cache := newCache()
			for _, r := range tc.before {
				cache.Merge(r, noon)
			}
			var changed []string
			for _, l := range tc.lists {
				changed = cache.Apply(l)
			}
			var gone, missing []string
			for id, k := range cache.byID {
				if k.Gone {
					gone = append(gone, id)
				}
				if k.Missing {
					missing = append(missing, id)
				}
			}
			if !slices.Equal(changed, tc.changed) || !slices.Equal(gone, tc.gone) || !slices.Equal(missing, tc.missing) {
				t.Fatalf("changed %v, gone %v, missing %v", changed, gone, missing)
			}
		})
	}
}

func TestServerThatCountsAsGoneReturnsOnlyWithALaterCompleteList(t *testing.T) {
	began := func(after time.Duration, full bool, rows ...Row) List {
		return List{Rows: rows, Full: full, Started: noon.Add(after), Now: noon.Add(after + time.Second)}
	}
	for name, tc := range map[string]struct {
		list List
		gone bool
	}{
		"a server counts as existing again after a 404 when a complete list that began later shows it (F-19)": {began(time.Second, true, at("a", StatusActive, 0)), false},
		"a server stays gone after a 404 when the complete list that shows it began before the 404 (F-19)":    {began(-time.Second, true, at("a", StatusActive, 0)), true},
		"a server stays gone after a 404 when only a changes-since list shows it again (F-19)":                {began(time.Second, false, at("a", StatusActive, 0)), true},
		"a server stays gone after a 404 when a complete list shows it as DELETED (F-19)":                     {began(time.Second, true, at("a", statusDeleted, 1)), true},
	} {
		t.Run(name, func(t *testing.T) {
			cache := newCache()
			cache.Merge(at("a", StatusActive, 0), noon.Add(-time.Hour))
			cache.MarkGone("a", "uid-a", noon)
			changed := cache.Apply(tc.list)
			k := cache.byID["a"]
			if k.Gone != tc.gone || !tc.gone && (k.Missing || len(changed) != 1) {
				t.Errorf("gone %v, missing %v, changed %v", k.Gone, k.Missing, changed)
			}
		})
	}
	t.Run("a server whose row was DELETED stays gone when an outdated complete list still shows it as ACTIVE (F-19)", func(t *testing.T) {
		cache := newCache()
		cache.Merge(at("a", statusDeleted, 9), noon)
		cache.Apply(began(time.Minute, true, at("a", StatusActive, 0)))
		if !cache.byID["a"].Gone {
			t.Error("it is back")
		}
	})
}

func TestAServerIsRemovedFromTheCacheWithinTwoHoursAfterAListShowsItAsDELETED(t *testing.T) {
	cache := newCache()
	cache.Merge(at("a", statusDeleted, 0), noon)
	cache.Apply(List{Now: noon.Add(2 * tombstoneAge)})
	if len(cache.byID) != 0 || len(cache.byMachine) != 0 {
		t.Fatalf("got %v, %v", cache.byID, cache.byMachine)
	}
}

func TestListOfTheServersOfAMachine(t *testing.T) {
	cache := newCache()
	cache.Merge(at("a", StatusActive, 0), noon)
	cache.Merge(Row{ID: "legacy", Status: StatusActive}, noon)
	cache.Merge(at("z", statusDeleted, 0), noon)
	another := at("b", StatusActive, 0)
	another.Metadata[owner.MetadataClusterID] = "another"
	cache.Merge(another, noon)
	cache.Expect("legacy", "uid-l", noon)
	cache.Expect("unseen", "uid-u", noon)
	cache.MarkGone("never", "uid-n", noon)
	for name, tc := range map[string]struct {
		uid          types.UID
		living, gone int
	}{
		"includes a server with the Machine's UID":                                                                            {"uid-a", 1, 0},
		"includes a gone server with the Machine's UID":                                                                       {"uid-z", 0, 1},
		"does not include the server that spec.providerID names when it does not have the Machine's UID (F-1)":                {"uid-l", 0, 0},
		"does not include another cluster's server that has the Machine's UID (F-1)":                                          {"uid-b", 0, 0},
		"does not include the server that spec.providerID names when no list has shown it (F-1)":                              {"uid-u", 0, 0},
		"includes the server in spec.providerID as gone when Nova answered 404 for it, although no list has shown it (MC-66)": {"uid-n", 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			living, gone := cache.OfMachine(tc.uid)
			if len(living) != tc.living || len(gone) != tc.gone {
				t.Fatalf("got %d living, %d gone", len(living), len(gone))
			}
		})
	}
}

func TestMachineUsesTheServerInSpecProviderIDOrElseItsOldestWorkingServer(t *testing.T) {
	server := func(id string, minute int) *Known {
		return &Known{Row: Row{ID: id, Created: noon.Add(time.Duration(minute) * time.Minute)}}
	}
	all := []*Known{server("b", 2), server("a", 1), server("c", 3)}
	if got := Choose(all, "c"); got.ID != "c" {
		t.Errorf("got %s, want the named one", got.ID)
	}
	if got := Choose(all, ""); got.ID != "a" {
		t.Errorf("got %s, want the oldest", got.ID)
	}
	all[0].Status = StatusError
	if got := Choose(all[:1], ""); got != all[0] {
		t.Errorf("of one that failed: %+v", got)
	}
	for _, k := range all {
		k.Status = StatusError
		if k.ID == "b" {
			k.Status = StatusActive
		}
	}
	if got := Choose(all, ""); got.ID != "b" {
		t.Errorf("a server that failed counts before one that works: %s (MCM-40)", got.ID)
	}
	if Choose(nil, "") != nil {
		t.Error("Choose(nil) != nil")
	}
}

func TestServersThatAreMissingFromTheLists(t *testing.T) {
	const many = 10_000
	row := func(n int) Row { return at(fmt.Sprint(n), StatusActive, 0) }
	no := func(*Known) bool { return false }
	c := New(testCluster, Hooks{Remembered: no, Awaited: func(k *Known) bool { return k.ID == "0" }})
	list := func(after time.Duration, rows ...Row) {
		c.Apply(List{Full: true, Rows: rows, Started: noon.Add(after), Now: noon.Add(after)})
	}
	var all []Row
	for n := range many {
		all = append(all, row(n))
	}
	list(0, all...)
	list(time.Minute)
	t.Run("stay in the cache for half an hour", func(t *testing.T) {
		if list(missingAge); len(c.byID) != many {
			t.Errorf("%d servers are known, want all", len(c.byID))
		}
	})
	t.Run("are removed from the cache after half an hour when their Machine does not exist (F-12)", func(t *testing.T) {
		list(missingAge + 2*time.Minute)
		if len(c.byID) != 1 || len(c.byMachine) != 1 || c.ByID("0") == nil {
			t.Errorf("%d servers of %d Machines are known, want that of the living Machine", len(c.byID), len(c.byMachine))
		}
	})
}
