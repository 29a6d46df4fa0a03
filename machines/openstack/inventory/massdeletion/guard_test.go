package massdeletion

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/openstack/inventory/owner"
	"github.com/drover-project/drover/machines/openstack/inventory/servers"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func TestLostServersAreTooManyWhenTheyAreMoreThanThreeAndMoreThanATenthOfAllServers(t *testing.T) {
	for _, tc := range []struct {
		lost, known int
		want        bool
	}{{3, 3, false}, {4, 4, true}, {3, 20, false}, {4, 20, true}, {4, 39, true}, {4, 40, false}, {10, 100, false}, {11, 100, true}} {
		if got := TooMany(tc.lost, tc.known); got != tc.want {
			t.Errorf("%d of %d: %v", tc.lost, tc.known, got)
		}
	}
}

func TestServersThatTheMassDeletionGuardCountsAsLost(t *testing.T) {
	gone := func(before time.Duration) *servers.Known {
		return &servers.Known{Gone: true, GoneAt: noon.Add(-before)}
	}
	for name, tc := range map[string]struct {
		server *servers.Known
		lost   int
		known  int
	}{
		"an existing server counts as known and not as lost":                          {&servers.Known{}, 0, 1},
		"a server that vanished a minute ago counts as lost":                          {gone(time.Minute), 1, 1},
		"a server that the last complete list lacks counts as lost":                   {&servers.Known{Missing: true}, 1, 1},
		"a server that has been gone for an hour counts neither as known nor as lost": {gone(time.Hour), 0, 0},
		"a server that drover deleted counts neither as known nor as lost":            {&servers.Known{Gone: true, GoneAt: noon, Wanted: true}, 0, 0},
		"a server whose loss was accepted counts neither as known nor as lost":        {&servers.Known{Gone: true, GoneAt: noon, Accepted: true}, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			all := slices.Values([]*servers.Known{tc.server})
			lost, known := losses(noon, all, func(*servers.Known) bool { return true })
			if len(lost) != tc.lost || known != tc.known {
				t.Fatalf("lost %v of %d", lost, known)
			}
			if lost, known := losses(noon, all, func(*servers.Known) bool { return false }); len(lost)+known != 0 {
				t.Fatal("a server of another owner counts")
			}
		})
	}
}

// project is a mass-deletion guard, and a cache of the four servers s0 to s3 that it guards.
type project struct {
	*Guard
	cache *servers.Cache
}

func newProject(stores bool) *project {
	no := func(*servers.Known) bool { return false }
	p := &project{New(stores), servers.New("c1", servers.Hooks{Leaving: no, Remembered: no, Awaited: no})}
	for n := range 4 {
		p.show(n, noon)
	}
	p.Load(Held{})
	p.MakeReady()
	return p
}

func (p *project) show(n int, at time.Time) {
	id := fmt.Sprintf("s%d", n)
	row := servers.Row{ID: id, Status: servers.StatusActive, Updated: at, Metadata: owner.Cluster("c1").Metadata(types.UID(id))}
	p.cache.Apply(servers.List{Rows: []servers.Row{row}, Full: false, Started: at, Now: at})
}

// lose marks the first count servers as gone, and lets the guard count the losses.
func (p *project) lose(count int, at time.Time) {
	for n := range count {
		id := fmt.Sprintf("s%d", n)
		p.cache.MarkGone(id, types.UID(id), at)
	}
	p.count(at)
}

func (p *project) count(at time.Time) {
	p.Count(at, p.cache, func(*servers.Known) bool { return true })
}

// store marks the guard's state as stored, and returns the servers whose loss the guard accepts from then on.
func (p *project) store() []string {
	h, _ := p.ToStore()
	return p.Stored(h)
}

func (p *project) believes(id string) bool {
	return p.Believes([]*servers.Known{p.cache.ByID(id)})
}

func TestMassDeletionGuardAcceptsFewLostServersAndHoldsMany(t *testing.T) {
	t.Run("accepts the loss of one server only after the loss is stored for the next leader (F-16)", func(t *testing.T) {
		p := newProject(true)
		p.lose(1, noon)
		if p.believes("s0") {
			t.Error("the loss is accepted before it is stored")
		}
		if got := p.store(); !slices.Equal(got, []string{"s0"}) || !p.believes("s0") {
			t.Errorf("got %v, and believes it: %v", got, p.believes("s0"))
		}
	})
	t.Run("accepts the loss of one server at once when drover is configured to store no losses", func(t *testing.T) {
		p := newProject(false)
		p.lose(1, noon)
		if !p.believes("s0") {
			t.Error("the loss is not accepted")
		}
	})
	t.Run("does not accept the loss of one server before the previous leader's stored holds are loaded (F-16)", func(t *testing.T) {
		p := newProject(false)
		p.Guard = New(false)
		p.lose(1, noon)
		if p.believes("s0") {
			t.Error("the loss is accepted")
		}
	})
	t.Run("holds all lost servers when there are too many, and still holds them a day later (F-16)", func(t *testing.T) {
		p := newProject(true)
		p.lose(4, noon)
		p.store()
		p.count(noon.Add(24 * time.Hour))
		if p.Held() != 4 || p.believes("s0") || !strings.HasPrefix(p.Reason(), "4 of 4 servers") {
			t.Errorf("holds %d: %q", p.Held(), p.Reason())
		}
	})
	t.Run("ends the hold of a server when a list shows it again, and holds the others while they are too many", func(t *testing.T) {
		p := newProject(true)
		p.show(4, noon)
		p.lose(5, noon)
		p.show(0, noon.Add(time.Minute))
		p.count(noon.Add(time.Minute))
		if p.Holds("s0") || !p.Holds("s1") || p.Held() != 4 {
			t.Errorf("holds %d", p.Held())
		}
	})
	t.Run("ends all holds, even a day later, when lists show so many servers again that the others are not too many (F-59)", func(t *testing.T) {
		p := newProject(true)
		p.lose(4, noon)
		p.store()
		p.show(0, noon.Add(24*time.Hour))
		p.count(noon.Add(24 * time.Hour))
		p.store()
		if p.Held() != 0 || p.Reason() != "" {
			t.Errorf("holds %d", p.Held())
		}
	})
	t.Run("ends the hold of a server once its deletion is requested, and judges the others again (F-59)", func(t *testing.T) {
		p := newProject(true)
		p.lose(4, noon)
		p.cache.ByID("s0").DeletionRequested(noon)
		p.cache.MarkWanted()
		p.count(noon.Add(time.Minute))
		p.store()
		if p.Held() != 0 || !p.believes("s0") || !p.believes("s1") {
			t.Errorf("holds %d", p.Held())
		}
	})
	t.Run("ends all holds when an operator accepts the losses", func(t *testing.T) {
		p := newProject(true)
		p.lose(4, noon)
		p.Accept(p.cache)
		if p.Held() != 0 || p.Reason() != "" || !p.believes("s0") {
			t.Errorf("holds %d: %q", p.Held(), p.Reason())
		}
		if h, dirty := p.ToStore(); len(h.Servers) != 0 || !dirty {
			t.Errorf("would store %v, %v", h, dirty)
		}
	})
	t.Run("counts new losses together with the losses that the previous leader stored (F-16)", func(t *testing.T) {
		p := newProject(true)
		p.Guard = New(true)
		p.Load(Held{Lost: map[string]time.Time{"x": noon, "y": noon, "z": noon}})
		p.MakeReady()
		p.lose(1, noon.Add(time.Minute))
		if p.Held() != 4 || !p.Holds("x") {
			t.Errorf("holds %d: %q", p.Held(), p.Reason())
		}
	})
}
