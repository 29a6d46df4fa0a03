package inventory

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// row is a server as Nova lists it, as far as it is needed.
type row struct {
	ID        string               `json:"id"`
	Name      string               `json:"name"`
	Status    string               `json:"status"`
	TaskState string               `json:"OS-EXT-STS:task_state"`
	Created   time.Time            `json:"created"`
	Updated   time.Time            `json:"updated"`
	HostID    string               `json:"hostId"`
	Zone      string               `json:"OS-EXT-AZ:availability_zone"`
	Metadata  map[string]string    `json:"metadata"`
	Addresses map[string][]address `json:"addresses"`
	Fault     serverFault          `json:"fault"`
	Volumes   []attachedVolume     `json:"os-extended-volumes:volumes_attached"`
}

type attachedVolume struct {
	ID string `json:"id"`
	// EndsWithServer: Nova deletes it with the server. The boot volume is one; what was attached later is none.
	EndsWithServer bool `json:"delete_on_termination"`
}

type address struct {
	Address string `json:"addr"`
	Type    string `json:"OS-EXT-IPS:type"`
}

type serverFault struct {
	Message string `json:"message"`
}

const (
	statusBuild       = "BUILD"
	statusActive      = "ACTIVE"
	statusError       = "ERROR"
	statusDeleted     = "DELETED"
	statusSoftDeleted = "SOFT_DELETED"
	taskDeleting      = "deleting"
)

// tags are what the row says of the server's owner.
func (r *row) tags() serverTags {
	return serverTags{id: r.ID, name: r.Name, machine: types.UID(r.Metadata[MetadataMachineUID]), cluster: r.Metadata[MetadataClusterID]}
}

// inFlux: its next state is to come by itself.
func (r *row) inFlux() bool {
	return r.Status == statusBuild || r.TaskState == taskDeleting
}

func (r *row) same(o *row) bool {
	return r.Status == o.Status && r.TaskState == o.TaskState && r.Name == o.Name && r.HostID == o.HostID &&
		r.Zone == o.Zone && r.Fault == o.Fault && maps.Equal(r.Metadata, o.Metadata) &&
		maps.EqualFunc(r.Addresses, o.Addresses, slices.Equal) && slices.Equal(r.Volumes, o.Volumes)
}

// knownServer is the cached state of a server. Times use our clock, except those in row.
type knownServer struct {
	row
	// owner is the Machine that it belongs to by its tags; empty: none of this cluster.
	owner types.UID
	// expected is the Machine that names it, while the cloud has shown no row of it. It is no evidence that the server is
	// that Machine's.
	expected types.UID
	// sighted: the cloud has shown a row of it.
	sighted bool
	// volumes are those that end with the server, as far as a row has ever shown them, sorted.
	volumes []string
	// gone: it was shown DELETED, or one GET by its ID answered 404. It stays as a tombstone, so that a list that lags
	// does not bring it back.
	gone   bool
	goneAt time.Time
	// goneByGet: it is gone by the answer 404 alone. A complete list that is begun later brings it back.
	goneByGet bool
	// missing: a complete list did not have it. That proves nothing, but is worth a GET.
	missing bool
	// since is when we first knew of it; fluxSince when it last began to change; zero at rest.
	since, fluxSince time.Time
	// firstAsked and asked are when its deletion was first and last asked for, times how often.
	firstAsked, asked time.Time
	times             int
	// own: it is gone or missing because drover, or the deletion of its Machine, wanted it. accepted: a person has said
	// that its loss is right.
	own, accepted bool
	// adopted is when the tags were last written onto it.
	adopted time.Time
	// claimed is the Machine that adopts it, until its tags are written; empty: none.
	claimed types.UID
	// explained: it is in ERROR, and was asked why by its ID.
	explained bool
	// activeSince is when it was first seen ACTIVE; zero while it is not. portsLooked is when its Machine's ports were looked at
	// since it did not become a node; zero: never. detached says that it has lost them; empty: it has not, as far as is known.
	activeSince, portsLooked time.Time
	detached                 string
}

// machine returns the Machine that the server is indexed under: the one that it belongs to, else the one that expects it.
func (k *knownServer) machine() types.UID { return cmp.Or(k.claimed, k.owner, k.expected) }

// belongs reports whether the server is, or was, the Machine's by evidence of the cloud.
func (k *knownServer) belongs(machine types.UID) bool {
	return machine != "" && cmp.Or(k.claimed, k.owner) == machine
}

// unexplained reports whether the server is in ERROR and no list has said why. Nova's lists show the fault only of servers whose records are in
// the database that its API has as its own; in the usual installation those without a host are not (seen in Zed).
func (k *knownServer) unexplained() bool {
	return k.Status == statusError && k.Fault.Message == "" && !k.explained
}

// serverCache holds what is known of the servers of a project. It has no lock and no clock.
type serverCache struct {
	owners    ownership
	byID      map[string]*knownServer
	byMachine map[types.UID]map[string]bool
	// leaving reports whether the Machine of a server is being deleted: then the server's end is wanted.
	leaving func(*knownServer) bool
	// remembered reports whether a tombstone must stay whatever its age.
	remembered func(*knownServer) bool
}

func newServerCache(owners ownership) *serverCache {
	no := func(*knownServer) bool { return false }
	return &serverCache{
		owners: owners, byID: map[string]*knownServer{}, byMachine: map[types.UID]map[string]bool{},
		leaving: no, remembered: no,
	}
}

// endWanted reports whether drover, or the deletion of its Machine, wants the end of a server. One that never
// became a node, being in ERROR, is no loss: drover replaces it, and may have asked so before a restart.
func (c *serverCache) endWanted(k *knownServer) bool {
	return !k.asked.IsZero() || k.failed() || c.leaving(k)
}

// listed is one complete list: all servers, or all that changed since a time.
type listed struct {
	rows []row
	full bool
	// started is when we began to ask, now is when the last page had come.
	started, now time.Time
}

// tombstoneAge is how long it is remembered that a server is gone, at least.
const tombstoneAge = time.Hour

// apply merges a list, and returns the IDs of the servers that changed, sorted. A server that a full list
// does not have becomes missing, never gone (design: absence is not proof); one that we learned of after the list was
// begun is not even missing.
func (c *serverCache) apply(l listed) []string {
	var changed []string
	present := make(map[string]bool, len(l.rows))
	for i := range l.rows {
		present[l.rows[i].ID] = true
		c.revive(&l.rows[i], l)
		if c.merge(l.rows[i], l.now) {
			changed = append(changed, l.rows[i].ID)
		}
	}
	for id, k := range c.byID {
		switch {
		case k.gone && l.now.Sub(k.goneAt) > tombstoneAge && !c.remembered(k):
			c.remove(id)
		case l.full && !k.gone && !k.missing && !present[id] && k.since.Before(l.started):
			k.missing, k.own = true, c.endWanted(k)
			changed = append(changed, id)
		}
	}
	slices.Sort(changed)
	return changed
}

// revive opens the tombstone of a server that counts as gone by a 404 alone, when a complete list that was begun after that
// answer shows the server: then the 404 was not the cloud's last word. A row that said DELETED stays the last word, since
// Nova never takes it back and a list may lag.
func (c *serverCache) revive(r *row, l listed) {
	k := c.byID[r.ID]
	if k == nil || !k.gone || !k.goneByGet || !l.full || !l.started.After(k.goneAt) || r.Status == statusDeleted {
		return
	}
	k.gone, k.goneByGet, k.missing = false, false, true
}

// merge takes one row in; true when it says something new. A row older than what is known says only that the server
// was there.
func (c *serverCache) merge(r row, now time.Time) bool {
	k, ok := c.byID[r.ID]
	if !ok {
		k = &knownServer{since: now}
		c.byID[r.ID] = k
		c.update(k, r, now)
		return true
	}
	if k.gone && !r.Updated.After(k.Updated) || r.Updated.Before(k.Updated) {
		return false
	}
	if r.Status == statusError && k.Status == statusError && r.Fault.Message == "" {
		r.Fault = k.Fault
	}
	found := k.missing
	if k.same(&r) && !k.gone {
		k.missing = false
		k.Updated = r.Updated
		return found
	}
	c.update(k, r, now)
	return true
}

// update replaces the row of a server.
func (c *serverCache) update(k *knownServer, r row, now time.Time) {
	if len(r.Metadata) == 0 && r.Status == statusDeleted {
		r.Metadata = k.Metadata
	}
	wanted := c.endWanted(k)
	c.unindex(k)
	k.row, k.missing, k.goneByGet, k.sighted = r, false, false, true
	k.owner = c.owners.machine(r.tags())
	if r.Status != statusDeleted {
		k.expected = ""
	}
	if k.claimed == k.owner {
		k.claimed = ""
	}
	k.volumes = slices.Concat(k.volumes, volumesOf(&r))
	slices.Sort(k.volumes)
	k.volumes = slices.Compact(k.volumes)
	c.index(k)
	k.explained = k.explained && r.Status == statusError
	k.gone = r.Status == statusDeleted
	if r.Status != statusActive {
		k.activeSince = time.Time{}
	} else if k.activeSince.IsZero() {
		k.activeSince = now
	}
	switch {
	case k.gone:
		k.goneAt, k.fluxSince, k.own = now, time.Time{}, wanted || c.endWanted(k)
	case !r.inFlux():
		k.fluxSince = time.Time{}
	case k.fluxSince.IsZero():
		k.fluxSince = now
	}
}

// expect notes that a Machine names a server of which the cloud has shown nothing yet.
func (c *serverCache) expect(id string, machine types.UID, now time.Time) {
	if _, known := c.byID[id]; known {
		return
	}
	k := &knownServer{row: row{ID: id}, expected: machine, since: now, missing: true}
	c.byID[id] = k
	c.index(k)
	k.own = c.endWanted(k)
}

// markGone notes that a GET by ID, made for that Machine, answered 404.
func (c *serverCache) markGone(id string, machine types.UID, now time.Time) {
	c.expect(id, machine, now)
	k := c.byID[id]
	k.gone, k.goneAt, k.fluxSince, k.missing, k.goneByGet, k.own = true, now, time.Time{}, false, true, c.endWanted(k)
}

// has reports whether a server that belongs to the Machine is known, or was: that of the given ID, or any when it is
// empty.
func (c *serverCache) has(machine types.UID, id string) bool {
	for known := range c.byMachine[machine] {
		if (id == "" || id == known) && c.byID[known].belongs(machine) {
			return true
		}
	}
	return false
}

func (c *serverCache) remove(id string) {
	if k, ok := c.byID[id]; ok {
		c.unindex(k)
		delete(c.byID, id)
	}
}

// index makes a server found by its Machine.
func (c *serverCache) index(k *knownServer) {
	if uid := k.machine(); uid != "" {
		if c.byMachine[uid] == nil {
			c.byMachine[uid] = map[string]bool{}
		}
		c.byMachine[uid][k.ID] = true
	}
}

// unindex undoes it.
func (c *serverCache) unindex(k *knownServer) {
	uid := k.machine()
	delete(c.byMachine[uid], k.ID)
	if len(c.byMachine[uid]) == 0 {
		delete(c.byMachine, uid)
	}
}

// ofMachine returns the servers that belong to a Machine, living and gone. Among the gone are those that it only names and
// that the cloud has never shown. What else it names is not its own.
func (c *serverCache) ofMachine(uid types.UID) (living, gone []*knownServer) {
	for id := range c.byMachine[uid] {
		switch k := c.byID[id]; {
		case k.gone:
			gone = append(gone, k)
		case k.belongs(uid):
			living = append(living, k)
		}
	}
	return living, gone
}

// affected returns whom a change of these servers affects.
func (c *serverCache) affected(ids []string) Change {
	news := Change{Servers: ids}
	for _, id := range ids {
		if k := c.byID[id]; k != nil && k.machine() != "" {
			news.Machines = append(news.Machines, k.machine())
		}
	}
	return news
}

// choose returns the server that counts among several of one Machine: the one that it names, else the oldest that has not
// failed, else the oldest.
func choose(servers []*knownServer, serverID string) *knownServer {
	if len(servers) == 0 {
		return nil
	}
	return slices.MinFunc(servers, func(a, b *knownServer) int {
		switch {
		case a.ID == serverID:
			return -1
		case b.ID == serverID:
			return 1
		case a.failed() != b.failed():
			if b.failed() {
				return -1
			}
			return 1
		case !a.Created.Equal(b.Created):
			return a.Created.Compare(b.Created)
		case a.ID < b.ID:
			return -1
		}
		return 1
	})
}
