package state

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// at returns the row of a server that was updated the given number of seconds after noon.
func at(id, status string, second int) ServerRow {
	return ServerRow{ID: id, Status: status, Updated: noon.Add(time.Duration(second) * time.Second), Metadata: Metadata{Machine: types.UID("uid-" + id)}}
}

func TestListOfServersIsMergedIntoTheCache(t *testing.T) {
	changes := func(rows ...ServerRow) Answers {
		return Answers{Round: Round{Started: noon.Add(time.Minute)}, Rows: rows, Now: noon.Add(time.Minute)}
	}
	full := func(rows ...ServerRow) Answers {
		l := changes(rows...)
		l.Full = true
		return l
	}
	for name, tc := range map[string]struct {
		before  []ServerRow
		lists   []Answers
		changed []string // the servers that changed with the last list
		gone    []string
		missing []string
	}{
		"reports a new server as changed":                                              {nil, []Answers{full(at("a", statusBuild, 0))}, []string{"a"}, nil, nil},
		"does not report a server as changed when its row is unchanged":                {[]ServerRow{at("a", statusActive, 0)}, []Answers{changes(at("a", statusActive, 0))}, nil, nil, nil},
		"reports a server as changed when its status changes":                          {[]ServerRow{at("a", statusBuild, 0)}, []Answers{changes(at("a", statusActive, 1))}, []string{"a"}, nil, nil},
		"ignores a row that is older than the row in the cache":                        {[]ServerRow{at("a", statusActive, 5)}, []Answers{changes(at("a", statusBuild, 1))}, nil, nil, nil},
		"marks a server as gone when its row is DELETED":                               {[]ServerRow{at("a", statusActive, 0)}, []Answers{changes(ServerRow{ID: "a", Status: statusDeleted, Updated: noon.Add(time.Second)})}, []string{"a"}, []string{"a"}, nil},
		"keeps a deleted server as gone when an outdated list still shows it":          {[]ServerRow{at("a", statusActive, 0), at("a", statusDeleted, 9)}, []Answers{full(at("a", statusActive, 0))}, nil, []string{"a"}, nil},
		"marks a server as missing, not gone, when a complete list lacks it (CAPI-36)": {[]ServerRow{at("a", statusActive, 0)}, []Answers{full()}, []string{"a"}, nil, []string{"a"}},
		"reports a missing server as changed only once":                                {[]ServerRow{at("a", statusActive, 0)}, []Answers{full(), full()}, nil, nil, []string{"a"}},
		"does not mark a server as missing when a list of changes lacks it":            {[]ServerRow{at("a", statusActive, 0)}, []Answers{changes()}, nil, nil, nil},
		"reports a missing server as changed when a complete list has it again":        {[]ServerRow{at("a", statusActive, 0)}, []Answers{full(), full(at("a", statusActive, 0))}, []string{"a"}, nil, nil},
		"does not mark a server as missing when it was created after the list began": {[]ServerRow{at("a", statusActive, 0)},
			[]Answers{{Round: Round{Full: true, Started: noon.Add(-time.Minute)}, Now: noon.Add(time.Minute)}}, nil, nil, nil},
		"takes new addresses even from a row whose update time has not changed (CAPI-34)": {[]ServerRow{at("a", statusActive, 0)},
			[]Answers{full(func() ServerRow {
				r := at("a", statusActive, 0)
				r.Addresses = map[string][]Address{"n": {{Address: "10.0.0.1"}}}
				return r
			}())}, []string{"a"}, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			cache := newCache()
			for _, r := range tc.before {
				cache.merge(r, noon)
			}
			var changed []string
			for _, l := range tc.lists {
				changed = cache.apply(l)
			}
			var gone, lacking []string
			for id, k := range cache.byID {
				if k.gone() {
					gone = append(gone, id)
				}
				if k.fate == missing {
					lacking = append(lacking, id)
				}
			}
			if !slices.Equal(changed, tc.changed) || !slices.Equal(gone, tc.gone) || !slices.Equal(lacking, tc.missing) {
				t.Fatalf("changed %v, gone %v, missing %v", changed, gone, lacking)
			}
		})
	}
}

func TestServerThatCountsAsGoneReturnsOnlyWithALaterCompleteList(t *testing.T) {
	began := func(after time.Duration, full bool, rows ...ServerRow) Answers {
		return Answers{Round: Round{Full: full, Started: noon.Add(after)}, Rows: rows, Now: noon.Add(after + time.Second)}
	}
	for name, tc := range map[string]struct {
		list Answers
		gone bool
	}{
		"a server counts as existing again after a 404 when a complete list that began later shows it (F-19)": {began(time.Second, true, at("a", statusActive, 0)), false},
		"a server stays gone after a 404 when the complete list that shows it began before the 404 (F-19)":    {began(-time.Second, true, at("a", statusActive, 0)), true},
		"a server stays gone after a 404 when only a changes-since list shows it again (F-19)":                {began(time.Second, false, at("a", statusActive, 0)), true},
		"a server stays gone after a 404 when a complete list shows it as DELETED (F-19)":                     {began(time.Second, true, at("a", statusDeleted, 1)), true},
	} {
		t.Run(name, func(t *testing.T) {
			cache := newCache()
			cache.merge(at("a", statusActive, 0), noon.Add(-time.Hour))
			cache.markGone("a", "uid-a", noon)
			changed := cache.apply(tc.list)
			k := cache.byID["a"]
			if k.gone() != tc.gone || !tc.gone && (k.fate == missing || len(changed) != 1) {
				t.Errorf("gone %v, missing %v, changed %v", k.gone(), k.fate == missing, changed)
			}
		})
	}
	t.Run("a server whose row was DELETED stays gone when an outdated complete list still shows it as ACTIVE (F-19)", func(t *testing.T) {
		cache := newCache()
		cache.merge(at("a", statusDeleted, 9), noon)
		cache.apply(began(time.Minute, true, at("a", statusActive, 0)))
		if !cache.byID["a"].gone() {
			t.Error("it is back")
		}
	})
}

func TestAServerIsRemovedFromTheCacheWithinTwoHoursAfterAListShowsItAsDELETED(t *testing.T) {
	cache := newCache()
	cache.merge(at("a", statusDeleted, 0), noon)
	cache.apply(Answers{Now: noon.Add(2 * tombstoneAge)})
	if len(cache.byID) != 0 || len(cache.byMachine) != 0 {
		t.Fatalf("got %v, %v", cache.byID, cache.byMachine)
	}
}

func TestListOfTheServersOfAMachine(t *testing.T) {
	cache := newCache()
	cache.merge(at("a", statusActive, 0), noon)
	cache.merge(ServerRow{ID: "legacy", Status: statusActive}, noon)
	cache.merge(at("z", statusDeleted, 0), noon)
	another := at("b", statusActive, 0)
	another.Metadata.Cluster = "another"
	cache.merge(another, noon)
	cache.markGone("never", "uid-n", noon)
	for name, tc := range map[string]struct {
		uid          types.UID
		living, gone int
	}{
		"includes a server with the Machine's UID":                                                                            {"uid-a", 1, 0},
		"includes a gone server with the Machine's UID":                                                                       {"uid-z", 0, 1},
		"does not include another cluster's server that has the Machine's UID (F-1)":                                          {"uid-b", 0, 0},
		"includes the server in spec.providerID as gone when Nova answered 404 for it, although no list has shown it (MC-66)": {"uid-n", 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			living, gone := cache.ofMachine(tc.uid)
			if len(living) != tc.living || len(gone) != tc.gone {
				t.Fatalf("got %d living, %d gone", len(living), len(gone))
			}
		})
	}
}

func TestMachineUsesTheServerInSpecProviderIDOrElseItsOldestWorkingServer(t *testing.T) {
	one := func(id string, minute int) *server {
		return &server{ServerRow: ServerRow{ID: id, Created: noon.Add(time.Duration(minute) * time.Minute)}}
	}
	all := []*server{one("b", 2), one("a", 1), one("c", 3)}
	if got := choose(all, "c"); got.ID != "c" {
		t.Errorf("got %s, want the named one", got.ID)
	}
	if got := choose(all, ""); got.ID != "a" {
		t.Errorf("got %s, want the oldest", got.ID)
	}
	all[0].Status = statusError
	if got := choose(all[:1], ""); got != all[0] {
		t.Errorf("of one that failed: %+v", got)
	}
	for _, k := range all {
		k.Status = statusError
		if k.ID == "b" {
			k.Status = statusActive
		}
	}
	if got := choose(all, ""); got.ID != "b" {
		t.Errorf("a server that failed counts before one that works: %s (MCM-40)", got.ID)
	}
	if choose(nil, "") != nil {
		t.Error("choose(nil) != nil")
	}
}

func TestServersThatAreMissingFromTheLists(t *testing.T) {
	const many = 10_000
	row := func(n int) ServerRow { return at(fmt.Sprint(n), statusActive, 0) }
	c := newServers(testCluster, machines{"uid-0": {UID: "uid-0"}})
	list := func(after time.Duration, rows ...ServerRow) {
		c.apply(Answers{Round: Round{Full: true, Started: noon.Add(after)}, Rows: rows, Now: noon.Add(after)})
	}
	var all []ServerRow
	for n := range many {
		all = append(all, row(n))
	}
	list(0, all...)
	list(time.Minute)
	t.Run("stay in the cache for an hour", func(t *testing.T) {
		if list(tombstoneAge); len(c.byID) != many {
			t.Errorf("%d servers are known, want all", len(c.byID))
		}
	})
	t.Run("are removed from the cache after an hour when their Machine does not exist (F-12)", func(t *testing.T) {
		list(tombstoneAge + 2*time.Minute)
		if len(c.byID) != 1 || len(c.byMachine) != 1 || c.byID["0"] == nil {
			t.Errorf("%d servers of %d Machines are known, want that of the living Machine", len(c.byID), len(c.byMachine))
		}
	})
}

func TestPeriodBetweenListsOfServers(t *testing.T) {
	flux := func(since time.Duration) *server {
		return &server{ServerRow: ServerRow{ID: "x", TaskState: taskDeleting}, stateSince: noon.Add(-since)}
	}
	building := func(change func(*server)) *server {
		k := flux(time.Second)
		k.Status, k.TaskState = statusBuild, ""
		if change != nil {
			change(k)
		}
		return k
	}
	for name, tc := range map[string]struct {
		server    *server
		unsettled bool
		mine      bool
		want      time.Duration
	}{
		"is one minute when no server changes (CAPI-32)":                                                   {&server{ServerRow: ServerRow{ID: "x"}}, false, true, RestPeriod},
		"is two seconds while a server changes":                                                            {flux(time.Second), false, true, FastPeriod},
		"is five seconds while a server is built (F-56)":                                                   {building(nil), false, true, BuildPeriod},
		"is two seconds after drover has requested the deletion of a server that is being built":           {building(func(k *server) { k.asked = noon.Add(-time.Second) }), false, true, FastPeriod},
		"is two seconds while Nova deletes a server that is being built":                                   {building(func(k *server) { k.TaskState = taskDeleting }), false, true, FastPeriod},
		"is one minute when a server has been changing for 20 minutes, because the server counts as stuck": {flux(20 * time.Minute), false, true, RestPeriod},
		"is one minute while only servers of other owners change":                                          {flux(time.Second), false, false, RestPeriod},
		"is two seconds after drover has requested the deletion of a server":                               {&server{ServerRow: ServerRow{ID: "x"}, asked: noon.Add(-time.Second)}, false, true, FastPeriod},
		"is one minute again when the server whose deletion drover has requested is gone":                  {&server{ServerRow: ServerRow{ID: "x"}, asked: noon.Add(-time.Second), fate: deleted}, false, true, RestPeriod},
		"is two seconds while a create is in doubt":                                                        {&server{ServerRow: ServerRow{ID: "x"}}, true, true, FastPeriod},
	} {
		t.Run(name, func(t *testing.T) {
			cache := newCache()
			cache.byID["x"] = tc.server
			if tc.server.tagged = "u1"; tc.mine {
				cache.machines = machines{"u1": {UID: "u1"}}
			}
			if got := cache.period(noon, tc.unsettled); got != tc.want {
				t.Fatalf("got %s, want %s", got, tc.want)
			}
		})
	}
}

func TestTimeOfTheNextCompleteList(t *testing.T) {
	for name, tc := range map[string]struct {
		last      time.Time
		unsettled bool
		want      bool
	}{
		"the first list after drover's start is complete":                                  {time.Time{}, false, true},
		"no complete list is due one minute after the last one":                            {noon.Add(-time.Minute), false, false},
		"a complete list is due ten minutes after the last one (CAPI-34)":                  {noon.Add(-FullPeriod), false, true},
		"while a create is in doubt, a complete list is due one minute after the last one": {noon.Add(-time.Minute), true, true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := isFullDue(noon, tc.last, tc.unsettled); got != tc.want {
				t.Fatalf("got %v, want %v", got, tc.want)
			}
		})
	}
}
