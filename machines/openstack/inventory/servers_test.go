package inventory

import (
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// at gives a row that was updated so many seconds after noon.
func at(id, status string, second int) row {
	return row{ID: id, Status: status, Updated: noon.Add(time.Duration(second) * time.Second), Metadata: map[string]string{MetadataMachineUID: "uid-" + id}}
}

func TestFold(t *testing.T) {
	changes := func(rows ...row) listed {
		return listed{rows: rows, started: noon.Add(time.Minute), now: noon.Add(time.Minute)}
	}
	full := func(rows ...row) listed {
		l := changes(rows...)
		l.full = true
		return l
	}
	for name, tc := range map[string]struct {
		before  []row
		lists   []listed
		changed []string // by the last list
		gone    []string
		missing []string
	}{
		"a new server is a change":                        {nil, []listed{full(at("a", statusBuild, 0))}, []string{"a"}, nil, nil},
		"the same row again is none (overlap)":            {[]row{at("a", statusActive, 0)}, []listed{changes(at("a", statusActive, 0))}, nil, nil, nil},
		"another status is one":                           {[]row{at("a", statusBuild, 0)}, []listed{changes(at("a", statusActive, 1))}, []string{"a"}, nil, nil},
		"an older row changes nothing":                    {[]row{at("a", statusActive, 5)}, []listed{changes(at("a", statusBuild, 1))}, nil, nil, nil},
		"DELETED is gone, by ID":                          {[]row{at("a", statusActive, 0)}, []listed{changes(row{ID: "a", Status: statusDeleted, Updated: noon.Add(time.Second)})}, []string{"a"}, []string{"a"}, nil},
		"a list that lags does not bring it back":         {[]row{at("a", statusActive, 0), at("a", statusDeleted, 9)}, []listed{full(at("a", statusActive, 0))}, nil, []string{"a"}, nil},
		"CAPI-36 not in a full list is missing, not gone": {[]row{at("a", statusActive, 0)}, []listed{full()}, []string{"a"}, nil, []string{"a"}},
		"missing is told once":                            {[]row{at("a", statusActive, 0)}, []listed{full(), full()}, nil, nil, []string{"a"}},
		"not in a list of changes is nothing":             {[]row{at("a", statusActive, 0)}, []listed{changes()}, nil, nil, nil},
		"a missing one that turns up is a change":         {[]row{at("a", statusActive, 0)}, []listed{full(), full(at("a", statusActive, 0))}, []string{"a"}, nil, nil},
		"one made after the list was begun is not missing": {[]row{at("a", statusActive, 0)},
			[]listed{{full: true, started: noon.Add(-time.Minute), now: noon.Add(time.Minute)}}, nil, nil, nil},
		"CAPI-34 addresses are corrected by a row with an old stamp": {[]row{at("a", statusActive, 0)},
			[]listed{full(func() row {
				r := at("a", statusActive, 0)
				r.Addresses = map[string][]address{"n": {{Address: "10.0.0.1"}}}
				return r
			}())}, []string{"a"}, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			cache := newServerCache(ownership{testCluster})
			for _, r := range tc.before {
				cache.merge(r, noon)
			}
			var changed []string
			for _, l := range tc.lists {
				changed = cache.apply(l)
			}
			var gone, missing []string
			for id, k := range cache.byID {
				if k.gone {
					gone = append(gone, id)
				}
				if k.missing {
					missing = append(missing, id)
				}
			}
			if !slices.Equal(changed, tc.changed) || !slices.Equal(gone, tc.gone) || !slices.Equal(missing, tc.missing) {
				t.Fatalf("changed %v, gone %v, missing %v", changed, gone, missing)
			}
		})
	}
}

func TestWhatOpensATombstone(t *testing.T) {
	began := func(after time.Duration, full bool, rows ...row) listed {
		return listed{rows: rows, full: full, started: noon.Add(after), now: noon.Add(after + time.Second)}
	}
	for name, tc := range map[string]struct {
		list listed
		gone bool
	}{
		"a full list that was begun after the 404 and shows the server (F-19)": {began(time.Second, true, at("a", statusActive, 0)), false},
		"not a full list that was begun before it (F-19)":                      {began(-time.Second, true, at("a", statusActive, 0)), true},
		"not a list of changes (F-19)":                                         {began(time.Second, false, at("a", statusActive, 0)), true},
		"not a full list that shows it DELETED (F-19)":                         {began(time.Second, true, at("a", statusDeleted, 1)), true},
	} {
		t.Run(name, func(t *testing.T) {
			cache := newServerCache(ownership{testCluster})
			cache.merge(at("a", statusActive, 0), noon.Add(-time.Hour))
			cache.markGone("a", "uid-a", noon)
			changed := cache.apply(tc.list)
			k := cache.byID["a"]
			if k.gone != tc.gone || !tc.gone && (k.missing || len(changed) != 1) {
				t.Errorf("gone %v, missing %v, changed %v", k.gone, k.missing, changed)
			}
		})
	}
	t.Run("a row that said DELETED is the last word, whatever a list that lags shows (F-19)", func(t *testing.T) {
		cache := newServerCache(ownership{testCluster})
		cache.merge(at("a", statusDeleted, 9), noon)
		cache.apply(began(time.Minute, true, at("a", statusActive, 0)))
		if !cache.byID["a"].gone {
			t.Error("it is back")
		}
	})
}

func TestATombstoneEnds(t *testing.T) {
	cache := newServerCache(ownership{testCluster})
	cache.merge(at("a", statusDeleted, 0), noon)
	cache.apply(listed{now: noon.Add(2 * tombstoneAge)})
	if len(cache.byID) != 0 || len(cache.byMachine) != 0 {
		t.Fatalf("got %v, %v", cache.byID, cache.byMachine)
	}
}

func TestServersOfAMachine(t *testing.T) {
	cache := newServerCache(ownership{testCluster})
	cache.merge(at("a", statusActive, 0), noon)
	cache.merge(row{ID: "legacy", Status: statusActive}, noon)
	cache.merge(at("z", statusDeleted, 0), noon)
	another := at("b", statusActive, 0)
	another.Metadata[MetadataClusterID] = "another"
	cache.merge(another, noon)
	cache.expect("legacy", "uid-l", noon)
	cache.expect("unseen", "uid-u", noon)
	cache.markGone("never", "uid-n", noon)
	for name, tc := range map[string]struct {
		uid          types.UID
		living, gone int
	}{
		"a server with the Machine's UID is its own":                        {"uid-a", 1, 0},
		"one that is gone is so too":                                        {"uid-z", 0, 1},
		"one that it only names is not (F-1)":                               {"uid-l", 0, 0},
		"one of another cluster is not, though it has the UID (F-1)":        {"uid-b", 0, 0},
		"one that it names and that no list has shown is not (F-1)":         {"uid-u", 0, 0},
		"one that it names and that was never there counts as gone (MC-66)": {"uid-n", 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			living, gone := cache.ofMachine(tc.uid)
			if len(living) != tc.living || len(gone) != tc.gone {
				t.Fatalf("got %d living, %d gone", len(living), len(gone))
			}
		})
	}
}

func TestChooseTakesTheNamedOneElseTheOldest(t *testing.T) {
	server := func(id string, minute int) *knownServer {
		return &knownServer{row: row{ID: id, Created: noon.Add(time.Duration(minute) * time.Minute)}}
	}
	all := []*knownServer{server("b", 2), server("a", 1), server("c", 3)}
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
		t.Errorf("MCM-40 a server that failed counts before one that works: %s", got.ID)
	}
	if choose(nil, "") != nil {
		t.Error("nothing is chosen from nothing")
	}
}
