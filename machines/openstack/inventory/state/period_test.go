package state

import (
	"testing"
	"time"
)

func TestPeriodBetweenListsOfServers(t *testing.T) {
	flux := func(since time.Duration) *server {
		return &server{ServerRow: ServerRow{ID: "x"}, fluxSince: noon.Add(-since)}
	}
	building := func(change func(*server)) *server {
		k := flux(time.Second)
		k.Status = statusBuild
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
		"is one minute again when the server whose deletion drover has requested is gone":                  {&server{ServerRow: ServerRow{ID: "x"}, asked: noon.Add(-time.Second), gone: true}, false, true, RestPeriod},
		"is two seconds while a create is in doubt":                                                        {&server{ServerRow: ServerRow{ID: "x"}}, true, true, FastPeriod},
	} {
		t.Run(name, func(t *testing.T) {
			cache := newCache()
			cache.byID["x"] = tc.server
			if got := cache.period(noon, tc.unsettled, func(*server) bool { return tc.mine }); got != tc.want {
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
