package state

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Servers holds the known servers of a project, by their IDs and by their Machines.
type Servers struct {
	cluster  Cluster
	machines Machines
	byID     map[string]*server
	// byMachine has the servers that belong to a Machine or that its provider ID names, including servers that are gone.
	byMachine map[types.UID]map[string]*server
}

func newServers(cluster Cluster, machines Machines) *Servers {
	return &Servers{cluster: cluster, machines: machines, byID: map[string]*server{}, byMachine: map[types.UID]map[string]*server{}}
}

// isRegistered reports whether Cloud.Instance was called for a Machine with that UID.
func (c *Servers) isRegistered(uid types.UID) bool {
	_, ok := c.machines.Get(uid)
	return ok
}

// isOurs reports whether a server that is not gone belongs to this cluster: it has the cluster's ID, or it belongs to a registered
// Machine (servers of machine-controller have no cluster ID).
func (c *Servers) isOurs(k *server) bool {
	uid := k.machine()
	return uid != "" && (c.cluster.Has(k.Metadata) || c.isRegistered(uid))
}

// tombstoneAge is the minimum time for which drover remembers a server that is gone, or missing from complete lists.
const tombstoneAge = time.Hour

// apply merges a list into the cache, and returns the IDs of the servers that changed, sorted. A server that a full list lacks
// becomes missing, but not gone. A server that drover learned of after the list began does not become missing.
func (c *Servers) apply(a Answers) (changed []string) {
	listed := make(map[string]bool, len(a.Rows))
	for i := range a.Rows {
		listed[a.Rows[i].ID] = true
		c.revive(&a.Rows[i], a)
		if c.merge(a.Rows[i], a.Now) {
			changed = append(changed, a.Rows[i].ID)
		}
	}
	for id, k := range c.byID {
		switch {
		case c.isOver(k, a.Now):
			c.unindex(k)
			delete(c.byID, id)
		case a.Full && k.fate == present && !listed[id] && k.since.Before(a.Started):
			k.fate, k.fateAt = missing, a.Now
			changed = append(changed, id)
		}
	}
	slices.Sort(changed)
	return changed
}

// isOver reports whether a server that is gone, or missing and not needed by any Machine, may be removed from the cache.
func (c *Servers) isOver(k *server, now time.Time) bool {
	if k.fate == present || now.Sub(k.fateAt) <= tombstoneAge || k.fate == missing && c.isRegistered(k.machine()) {
		return false
	}
	return k.machine() == "" || c.machines.Naming(k.ID) != k.machine()
}

// revive undoes the tombstone of a server that counts as gone only because of a 404, when a complete list that began after the 404 shows
// the server. A tombstone from a row with the status DELETED stays, because Nova never undoes this status and a list may lag.
func (c *Servers) revive(r *ServerRow, a Answers) {
	k := c.byID[r.ID]
	if k != nil && k.fate == notFound && a.Full && a.Started.After(k.fateAt) && r.Status != statusDeleted {
		k.fate, k.fateAt = missing, a.Now
	}
}

// merge merges one row into the cache, and reports whether the row contains anything new. A row that is older than the known row
// does not replace it; it only proves that the server existed.
func (c *Servers) merge(r ServerRow, now time.Time) bool {
	k, ok := c.byID[r.ID]
	if !ok {
		k = &server{since: now}
		c.byID[r.ID] = k
		c.update(k, r, now)
		return true
	}
	if k.gone() && !r.Updated.After(k.Updated) || r.Updated.Before(k.Updated) {
		return false
	}
	if r.Status == statusError && k.Status == statusError && r.Fault.Message == "" {
		r.Fault = k.Fault
	}
	if k.same(&r) && !k.gone() {
		found := k.fate == missing
		k.fate, k.fateAt, k.Updated = present, time.Time{}, r.Updated
		return found
	}
	c.update(k, r, now)
	return true
}

// update replaces the row of a server.
func (c *Servers) update(k *server, r ServerRow, now time.Time) {
	if r.Metadata == (Metadata{}) && r.Status == statusDeleted {
		r.Metadata = k.Metadata
	}
	c.unindex(k)
	k.show(r, now)
	k.tagged = c.cluster.MachineOf(r.Metadata)
	if k.adopter == k.tagged {
		k.adopter = ""
	}
	c.index(k)
}

// markGone records that a GET of the server with that ID, made on behalf of a Machine, was answered with 404.
func (c *Servers) markGone(id string, machine types.UID, now time.Time) {
	k := c.byID[id]
	if k == nil {
		k = &server{ServerRow: ServerRow{ID: id}, expected: machine, since: now}
		c.byID[id] = k
		c.index(k)
	}
	k.fate, k.fateAt = notFound, now
}

// index adds a server to the index by Machine.
func (c *Servers) index(k *server) {
	if uid := k.machine(); uid != "" {
		if c.byMachine[uid] == nil {
			c.byMachine[uid] = map[string]*server{}
		}
		c.byMachine[uid][k.ID] = k
	}
}

// unindex removes a server from the index by Machine.
func (c *Servers) unindex(k *server) {
	uid := k.machine()
	delete(c.byMachine[uid], k.ID)
	if len(c.byMachine[uid]) == 0 {
		delete(c.byMachine, uid)
	}
}

// ofMachine returns the servers of a Machine, living and gone. gone includes a server that no list has shown and that the Machine only
// names. A server counts as living only if its tags, or an adoption, show that it belongs to the Machine.
func (c *Servers) ofMachine(uid types.UID) (living, gone []*server) {
	for _, k := range c.byMachine[uid] {
		switch {
		case k.gone():
			gone = append(gone, k)
		case k.belongsTo(uid):
			living = append(living, k)
		}
	}
	return living, gone
}

// hasSince reports whether a server of the Machine is living, or was first known after the given time and is gone. Earlier servers of
// the Machine that are gone do not count.
func (c *Servers) hasSince(machine types.UID, after time.Time) bool {
	living, gone := c.ofMachine(machine)
	return len(living) > 0 || slices.ContainsFunc(gone, func(k *server) bool { return k.since.After(after) })
}

// Has reports whether a server of the Machine is or was known: the server id or, when id is empty, any server.
func (c *Servers) Has(machine types.UID, id string) bool {
	for _, k := range c.byMachine[machine] {
		if (id == "" || id == k.ID) && k.belongsTo(machine) {
			return true
		}
	}
	return false
}

// choose returns one of several servers of a Machine: the server that the Machine names, else the oldest server that has not
// failed, else the oldest; nil when there are none.
func choose(all []*server, serverID string) *server {
	if len(all) == 0 {
		return nil
	}
	rank := func(k *server) int {
		switch {
		case k.ID == serverID:
			return 0
		case !k.failed():
			return 1
		}
		return 2
	}
	return slices.MinFunc(all, func(a, b *server) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID))
	})
}

// TagAgain is how long drover waits before it tries again to write tags that could not be written.
const TagAgain = 10 * time.Minute

// Adopt records that a Machine adopts a server whose tags name another Machine. It returns false when the tags have changed
// meanwhile.
func (c *Servers) Adopt(id string, from, to types.UID) bool {
	k := c.byID[id]
	if k == nil || k.fate != present || k.Metadata.Machine != from {
		return false
	}
	c.unindex(k)
	k.adopter = to
	c.index(k)
	return true
}

// Untagged is a server of a Machine that lacks one of its two tags. Was is the Machine in the server's machine-uid; while the
// server is being adopted, this is another Machine.
type Untagged struct {
	ID           string
	Machine, Was types.UID
}

// Untagged returns up to limit servers to tag now, and reports whether there are more. It records that they are tagged now, so
// that it does not return the same servers again before TagAgain has passed. A server that no Machine adopts is included only
// if the Machine in its tags is registered.
func (c *Servers) Untagged(limit int, now time.Time) (found []Untagged, more bool) {
	for id, k := range c.byID {
		if len(found) == limit {
			return found, true
		}
		if k.fate != present || !k.taggedAt.IsZero() && now.Sub(k.taggedAt) < TagAgain {
			continue
		}
		if k.adopter != "" || k.tagged != "" && k.Metadata.Cluster == "" && c.isRegistered(k.tagged) {
			k.taggedAt = now
			found = append(found, Untagged{ID: id, Machine: cmp.Or(k.adopter, k.tagged), Was: k.Metadata.Machine})
		}
	}
	return found, false
}

// Tagged records that the owner tag of a Machine was written onto a server.
func (c *Servers) Tagged(id string, machine types.UID) {
	if k, ok := c.byID[id]; ok {
		r := k.ServerRow
		r.Metadata.Machine, r.Metadata.Cluster = machine, string(c.cluster)
		c.update(k, r, k.since)
	}
}

const (
	// DuplicateAge is how long a second server of a Machine must have been known before it is deleted, because the write of the
	// Machine's spec.providerID may not be visible before that.
	DuplicateAge = 2 * time.Minute
	// DetachedAfter is how long a server may be ACTIVE without a node before its ports are looked up.
	DetachedAfter = 2 * time.Minute
)

// isDuplicate reports whether a server must be deleted now, in addition to another server of its Machine: it exists, has both tags, has been
// known for DuplicateAge, and the back-off after the last request to delete it is over.
func (c *Servers) isDuplicate(k *server, now time.Time) bool {
	return k.fate == present && k.tagged == k.machine() && c.cluster.Has(k.Metadata) && now.Sub(k.since) >= DuplicateAge && k.isDeletionDue(now)
}

// hasPortsBeside reports whether the server still had its Machine's ports when they were looked up after another server of the
// Machine had appeared. When two servers were created with the same port, either server may have lost the port.
func (k *server) hasPortsBeside(other *server) bool {
	return k.detached == "" && !k.portsLooked.Before(other.since.Add(DuplicateAge))
}

// isPortLookDue reports whether the Machine's ports must be looked up now because a server has not become a node: once when the
// server has been ACTIVE for DetachedAfter, and once for each other server of the Machine, because that may have taken the
// server's ports.
func (c *Servers) isPortLookDue(machine types.UID, k *server, now time.Time) bool {
	if !k.belongsTo(machine) || k.Status != statusActive || k.fate != present || k.detached != "" {
		return false
	}
	wanted := []time.Time{k.stateSince.Add(DetachedAfter)}
	for _, other := range c.byMachine[machine] {
		if other != k && !other.gone() {
			wanted = append(wanted, other.since.Add(DuplicateAge))
		}
	}
	return slices.ContainsFunc(wanted, func(at time.Time) bool { return !at.After(now) && k.portsLooked.Before(at) })
}

// The periods of the lists of servers.
const (
	// FastPeriod is the period while a server of this cluster is being deleted or a create is in doubt, because a Machine waits
	// for the result. BuildPeriod is the period while servers are only being built. This is less urgent, because drover needs no
	// list to notice that a Node has registered. RestPeriod is the period otherwise.
	FastPeriod  = 2 * time.Second
	BuildPeriod = 5 * time.Second
	RestPeriod  = time.Minute
	// longFlux is how long a server may be in a state that it leaves without another request, such as BUILD, before it counts as
	// stuck. A stuck server does not shorten the period of the lists.
	longFlux = 10 * time.Minute
	// FullPeriod is the time between complete lists; unsettledFullPeriod is the time while a create is in doubt.
	FullPeriod          = 10 * time.Minute
	unsettledFullPeriod = 30 * time.Second
	// Overlap is how far a list of changes reaches back before the last list, on the cloud's clock, because a change that Nova
	// writes during a list has an older time.
	Overlap = time.Minute
)

// period returns the time until the next list. unsettled is true while a create is in doubt.
func (c *Servers) period(now time.Time, unsettled bool) time.Duration {
	if unsettled {
		return FastPeriod
	}
	next := RestPeriod
	for _, k := range c.byID {
		if period := k.period(now); period < next && !k.gone() && c.isOurs(k) {
			next = period
		}
	}
	return next
}

// period returns the time until the next list of servers, if no other server changes. The server changes since it entered a state that it
// leaves without another request, or since its deletion was last requested.
func (k *server) period(now time.Time) time.Duration {
	began := k.asked
	if k.inFlux() && k.stateSince.After(began) {
		began = k.stateSince
	}
	switch {
	case began.IsZero(), now.Sub(began) >= longFlux:
		return RestPeriod
	case k.Status == statusBuild && k.TaskState != taskDeleting && k.asked.IsZero():
		return BuildPeriod
	}
	return FastPeriod
}

// isFullDue reports whether the next list must be a complete one.
func isFullDue(now, lastFull time.Time, unsettled bool) bool {
	since := now.Sub(lastFull)
	return lastFull.IsZero() || since >= FullPeriod || unsettled && since >= unsettledFullPeriod
}
