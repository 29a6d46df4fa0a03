package openstack

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

func (r *row) machine() types.UID { return types.UID(r.Metadata[metadataMachineUID]) }

// inFlux: its next state is to come by itself.
func (r *row) inFlux() bool {
	return r.Status == statusBuild || r.TaskState == taskDeleting
}

func (r *row) same(o *row) bool {
	return r.Status == o.Status && r.TaskState == o.TaskState && r.Name == o.Name && r.HostID == o.HostID &&
		r.Zone == o.Zone && r.Fault == o.Fault && maps.Equal(r.Metadata, o.Metadata) &&
		maps.EqualFunc(r.Addresses, o.Addresses, slices.Equal) && slices.Equal(r.Volumes, o.Volumes)
}

// knownServer is what is believed of a server. Times are on our clock, but for the row's.
type knownServer struct {
	row
	// gone: it was shown DELETED, or one GET by its ID answered 404. It stays as a tombstone, so that a list that lags
	// does not bring it back.
	gone   bool
	goneAt time.Time
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
	// adopted is when the cluster's mark was written onto it last.
	adopted time.Time
	// claimed is the Machine that took it over, until its own mark says so; empty: none.
	claimed types.UID
	// explained: it is in ERROR, and was asked why by its ID.
	explained bool
}

// machine is whose it is.
func (k *knownServer) machine() types.UID { return cmp.Or(k.claimed, k.row.machine()) }

// unexplained: it is in ERROR and nobody has said why. Nova's lists show the fault only of servers whose records are in
// the database that its API has as its own; in the usual installation those without a host are not (seen in Zed).
func (k *knownServer) unexplained() bool {
	return k.Status == statusError && k.Fault.Message == "" && !k.explained
}

// inventory is what is known of the servers of a project. It has no lock and no clock.
type inventory struct {
	servers   map[string]*knownServer
	byMachine map[types.UID]map[string]bool
	// byName has the IDs of the servers of a name.
	byName map[string][]string
	// leaving tells whether the Machine of a server is being deleted: then the server's end is wanted.
	leaving func(*knownServer) bool
}

func newInventory() *inventory {
	return &inventory{
		servers: map[string]*knownServer{}, byMachine: map[types.UID]map[string]bool{}, byName: map[string][]string{},
		leaving: func(*knownServer) bool { return false },
	}
}

// endWanted tells whether the end of a server is drover's own doing, or that of its Machine's deletion. One that never
// became a node, being in ERROR, is no loss: drover replaces it, and may have asked so before a restart.
func (inv *inventory) endWanted(k *knownServer) bool {
	return !k.asked.IsZero() || k.Status == statusError || inv.leaving(k)
}

// listed is one complete list: all servers, or all that changed since a time.
type listed struct {
	rows []row
	full bool
	// started is when we began to ask, now is when the last page had come.
	started, now time.Time
}

// tombstoneAge is how long it is remembered that a server is gone.
const tombstoneAge = time.Hour

// fold takes a complete list in, and gives the IDs of the servers of which something changed. A server that a full list
// does not have becomes missing, never gone (design: absence is not proof); one that we learned of after the list was
// begun is not even missing.
func (inv *inventory) fold(l listed) []string {
	var changed []string
	present := make(map[string]bool, len(l.rows))
	for i := range l.rows {
		present[l.rows[i].ID] = true
		if inv.merge(l.rows[i], l.now) {
			changed = append(changed, l.rows[i].ID)
		}
	}
	for id, k := range inv.servers {
		switch {
		case k.gone && l.now.Sub(k.goneAt) > tombstoneAge:
			inv.drop(id)
		case l.full && !k.gone && !k.missing && !present[id] && k.since.Before(l.started):
			k.missing, k.own = true, inv.endWanted(k)
			changed = append(changed, id)
		}
	}
	slices.Sort(changed)
	return changed
}

// merge takes one row in; true when it says something new. A row older than what is known says only that the server
// was there.
func (inv *inventory) merge(r row, now time.Time) bool {
	k, ok := inv.servers[r.ID]
	if !ok {
		k = &knownServer{since: now}
		inv.servers[r.ID] = k
		inv.take(k, r, now)
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
	inv.take(k, r, now)
	return true
}

// take replaces the row of a server.
func (inv *inventory) take(k *knownServer, r row, now time.Time) {
	if len(r.Metadata) == 0 && r.Status == statusDeleted {
		r.Metadata = k.Metadata
	}
	wanted := inv.endWanted(k)
	inv.unindex(k)
	k.row, k.missing = r, false
	if k.claimed == r.machine() {
		k.claimed = ""
	}
	inv.index(k)
	k.explained = k.explained && r.Status == statusError
	k.gone = r.Status == statusDeleted
	switch {
	case k.gone:
		k.goneAt, k.fluxSince, k.own = now, time.Time{}, wanted || inv.endWanted(k)
	case !r.inFlux():
		k.fluxSince = time.Time{}
	case k.fluxSince.IsZero():
		k.fluxSince = now
	}
}

// bury says that a GET by ID answered 404, for a server of that Machine.
func (inv *inventory) bury(id string, machine types.UID, now time.Time) {
	k, ok := inv.servers[id]
	if !ok {
		k = &knownServer{since: now}
		inv.servers[id] = k
		inv.take(k, row{ID: id, Metadata: map[string]string{metadataMachineUID: string(machine)}}, now)
	}
	k.gone, k.goneAt, k.fluxSince, k.missing, k.own = true, now, time.Time{}, false, inv.endWanted(k)
}

// marked reports whether a server with the Machine's own mark is known, or was: that of the given ID, or any when it is
// empty.
func (inv *inventory) marked(machine types.UID, id string) bool {
	if id == "" {
		return len(inv.byMachine[machine]) > 0
	}
	k := inv.servers[id]
	return k != nil && k.machine() == machine
}

func (inv *inventory) drop(id string) {
	if k, ok := inv.servers[id]; ok {
		inv.unindex(k)
		delete(inv.servers, id)
	}
}

// index makes a server found by its Machine and by its name.
func (inv *inventory) index(k *knownServer) {
	if uid := k.machine(); uid != "" {
		if inv.byMachine[uid] == nil {
			inv.byMachine[uid] = map[string]bool{}
		}
		inv.byMachine[uid][k.ID] = true
	}
	inv.byName[k.Name] = append(inv.byName[k.Name], k.ID)
}

// unindex undoes it.
func (inv *inventory) unindex(k *knownServer) {
	uid := k.machine()
	delete(inv.byMachine[uid], k.ID)
	if len(inv.byMachine[uid]) == 0 {
		delete(inv.byMachine, uid)
	}
	inv.byName[k.Name] = slices.DeleteFunc(inv.byName[k.Name], func(id string) bool { return id == k.ID })
	if len(inv.byName[k.Name]) == 0 {
		delete(inv.byName, k.Name)
	}
}

// ofMachine gives the servers of a Machine, living and gone: those that bear its UID, and the one that it names.
func (inv *inventory) ofMachine(uid types.UID, serverID string) (living, gone []*knownServer) {
	ids := map[string]bool{}
	maps.Copy(ids, inv.byMachine[uid])
	if _, ok := inv.servers[serverID]; ok {
		ids[serverID] = true
	}
	for id := range ids {
		if k := inv.servers[id]; k.gone {
			gone = append(gone, k)
		} else {
			living = append(living, k)
		}
	}
	return living, gone
}

// concerned says whom a change of these servers concerns.
func (inv *inventory) concerned(ids []string) change {
	c := change{servers: ids}
	for _, id := range ids {
		if k := inv.servers[id]; k != nil && k.machine() != "" {
			c.machines = append(c.machines, k.machine())
		}
	}
	return c
}

// choose gives the server that counts among several of one Machine: the one that it names, else the oldest that has not
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
		case (a.Status == statusError) != (b.Status == statusError):
			if b.Status == statusError {
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
