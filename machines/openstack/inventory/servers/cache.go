package servers

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/openstack/inventory/owner"
)

// Cache holds the known servers of a project, by their IDs and by their Machines.
type Cache struct {
	cluster   owner.Cluster
	hooks     Hooks
	byID      map[string]*Known
	byMachine map[types.UID]map[string]bool
}

// Hooks are functions with which a Cache asks the Project that uses it.
type Hooks struct {
	// Remembered reports whether a server that is gone or missing must stay in the cache, however long it has been gone or missing.
	Remembered func(*Known) bool
	// Awaited reports whether a missing server has a Machine that exists. If so, the server must be looked up by its ID.
	Awaited func(*Known) bool
}

// New returns an empty Cache.
func New(cluster owner.Cluster, hooks Hooks) *Cache {
	return &Cache{cluster: cluster, hooks: hooks, byID: map[string]*Known{}, byMachine: map[types.UID]map[string]bool{}}
}

// List is the result of one complete list request: all servers, or all that changed since a time.
type List struct {
	Rows []Row
	Full bool
	// Started is when the list began, and Now is when its last page arrived.
	Started, Now time.Time
}

const (
	// tombstoneAge is the minimum time for which drover remembers that a server is gone.
	tombstoneAge = time.Hour
	// missingAge is how long drover remembers a server that is missing from complete lists and that no Machine needs.
	missingAge = 30 * time.Minute
)

// Apply merges a list into the cache, and returns the IDs of the servers that changed, sorted. A server that a full list lacks
// becomes missing, but not gone. A server that drover learned of after the list began does not become missing.
func (c *Cache) Apply(l List) []string {
	var changed []string
	present := make(map[string]bool, len(l.Rows))
	for i := range l.Rows {
		present[l.Rows[i].ID] = true
		c.revive(&l.Rows[i], l)
		if c.Merge(l.Rows[i], l.Now) {
			changed = append(changed, l.Rows[i].ID)
		}
	}
	for id, k := range c.byID {
		switch {
		case c.isOver(k, l.Now):
			c.unindex(k)
			delete(c.byID, id)
		case l.Full && k.Present() && !present[id] && k.Since.Before(l.Started):
			k.Missing, k.missingSince = true, l.Now
			changed = append(changed, id)
		}
	}
	slices.Sort(changed)
	return changed
}

// isOver reports whether a server that is gone or missing may be removed from the cache.
func (c *Cache) isOver(k *Known, now time.Time) bool {
	switch {
	case k.Present(), c.hooks.Remembered(k):
		return false
	case k.Missing:
		return now.Sub(k.missingSince) > missingAge && !c.hooks.Awaited(k)
	}
	return now.Sub(k.GoneAt) > tombstoneAge
}

// revive undoes the tombstone of a server that counts as gone only because of a 404, when a complete list that began after the 404 shows
// the server. A tombstone from a row with the status DELETED stays, because Nova never undoes this status and a list may lag.
func (c *Cache) revive(r *Row, l List) {
	k := c.byID[r.ID]
	if k == nil || !k.Gone || !k.goneByGet || !l.Full || !l.Started.After(k.GoneAt) || r.Status == statusDeleted {
		return
	}
	k.Gone, k.goneByGet, k.Missing, k.missingSince = false, false, true, l.Now
}

// Merge merges one row into the cache, and reports whether the row contains anything new. A row that is older than the known row
// does not replace it; it only proves that the server existed.
func (c *Cache) Merge(r Row, now time.Time) bool {
	k, ok := c.byID[r.ID]
	if !ok {
		k = &Known{Since: now}
		c.byID[r.ID] = k
		c.update(k, r, now)
		return true
	}
	if k.Gone && !r.Updated.After(k.Updated) || r.Updated.Before(k.Updated) {
		return false
	}
	if r.Status == StatusError && k.Status == StatusError && r.Fault.Message == "" {
		r.Fault = k.Fault
	}
	found := k.Missing
	if k.same(&r) && !k.Gone {
		k.Missing = false
		k.Updated = r.Updated
		return found
	}
	c.update(k, r, now)
	return true
}

// update replaces the row of a server.
func (c *Cache) update(k *Known, r Row, now time.Time) {
	if len(r.Metadata) == 0 && r.Status == statusDeleted {
		r.Metadata = k.Metadata
	}
	c.unindex(k)
	k.show(r, now)
	k.tagged = c.cluster.MachineOf(r.Tags())
	if k.adopter == k.tagged {
		k.adopter = ""
	}
	c.index(k)
}

// Expect records that a Machine names a server that the cloud has not shown yet.
func (c *Cache) Expect(id string, machine types.UID, now time.Time) {
	if _, known := c.byID[id]; known {
		return
	}
	k := &Known{Row: Row{ID: id}, expected: machine, Since: now, Missing: true, missingSince: now}
	c.byID[id] = k
	c.index(k)
}

// MarkGone records that a GET of the server with that ID, made on behalf of a Machine, was answered with 404.
func (c *Cache) MarkGone(id string, machine types.UID, now time.Time) {
	c.Expect(id, machine, now)
	c.byID[id].markGone(now)
}

// index adds a server to the index by Machine.
func (c *Cache) index(k *Known) {
	if uid := k.Machine(); uid != "" {
		if c.byMachine[uid] == nil {
			c.byMachine[uid] = map[string]bool{}
		}
		c.byMachine[uid][k.ID] = true
	}
}

// unindex removes a server from the index by Machine.
func (c *Cache) unindex(k *Known) {
	uid := k.Machine()
	delete(c.byMachine[uid], k.ID)
	if len(c.byMachine[uid]) == 0 {
		delete(c.byMachine, uid)
	}
}

// ByID returns the server with that ID; nil when it is not known.
func (c *Cache) ByID(id string) *Known { return c.byID[id] }

// All returns all known servers, unsorted.
func (c *Cache) All() iter.Seq[*Known] { return maps.Values(c.byID) }

// Machines returns the Machines that have or name a known server, living or gone.
func (c *Cache) Machines() iter.Seq[types.UID] { return maps.Keys(c.byMachine) }

// IndexedUnder returns, in no order, the servers that belong to a Machine or that the Machine's provider ID names, including servers that
// are gone.
func (c *Cache) IndexedUnder(machine types.UID) iter.Seq[*Known] {
	return func(yield func(*Known) bool) {
		for id := range c.byMachine[machine] {
			if !yield(c.byID[id]) {
				return
			}
		}
	}
}

// OfMachine returns the servers of a Machine, living and gone. gone includes a server that no list has shown and that the Machine only
// names. A server counts as living only if its tags, or an adoption, show that it belongs to the Machine.
func (c *Cache) OfMachine(uid types.UID) (living, gone []*Known) {
	for k := range c.IndexedUnder(uid) {
		switch {
		case k.Gone:
			gone = append(gone, k)
		case k.BelongsTo(uid):
			living = append(living, k)
		}
	}
	return living, gone
}

// HasSince reports whether a server of the Machine is living, or was first known after the given time and is gone. Earlier servers of
// the Machine that are gone do not count.
func (c *Cache) HasSince(machine types.UID, after time.Time) bool {
	living, gone := c.OfMachine(machine)
	return len(living) > 0 || slices.ContainsFunc(gone, func(k *Known) bool { return k.Since.After(after) })
}

// Has reports whether a server of the Machine is or was known: the server id or, when id is empty, any server.
func (c *Cache) Has(machine types.UID, id string) bool {
	for k := range c.IndexedUnder(machine) {
		if (id == "" || id == k.ID) && k.BelongsTo(machine) {
			return true
		}
	}
	return false
}

// HasSeveral reports whether several servers are indexed under the Machine, living or gone.
func (c *Cache) HasSeveral(machine types.UID) bool { return len(c.byMachine[machine]) > 1 }

// MachinesOf returns the Machines of these servers.
func (c *Cache) MachinesOf(ids []string) (machines []types.UID) {
	for _, id := range ids {
		if k := c.byID[id]; k != nil && k.Machine() != "" {
			machines = append(machines, k.Machine())
		}
	}
	return machines
}

// Choose returns one of several servers of a Machine: the server that the Machine names, else the oldest server that has not
// failed, else the oldest; nil when there are none.
func Choose(all []*Known, serverID string) *Known {
	if len(all) == 0 {
		return nil
	}
	rank := func(k *Known) int {
		switch {
		case k.ID == serverID:
			return 0
		case !k.Failed():
			return 1
		}
		return 2
	}
	return slices.MinFunc(all, func(a, b *Known) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID))
	})
}
