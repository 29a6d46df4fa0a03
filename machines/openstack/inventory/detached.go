package inventory

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/client"
)

// DetachedAfter is how long a server may be ACTIVE without a node before its ports are looked at.
const DetachedAfter = 2 * time.Minute

// unjoined is a server that should have become a node by now.
type unjoined struct {
	machine types.UID
	server  string
}

// failed reports whether a server will never become a node: it is in ERROR, or has lost its ports.
func (k *knownServer) failed() bool { return k.Status == statusError || k.detached != "" }

// lookAtUnjoined looks at the ports of servers that have been ACTIVE for DetachedAfter without becoming a node, once for each
// server, and at those of a server beside which a duplicate is to be deleted. A server that has none of its Machine's
// ports has no network: it counts as failed, and its ports are replaced with it.
func (p *Project) lookAtUnjoined(ctx context.Context, s *client.Session) {
	due, ids := p.unjoined()
	if len(ids) == 0 {
		return
	}
	var rows []PortRow
	for some := range slices.Chunk(ids, portsAtOnce) {
		more, err := client.List[PortRow](ctx, s, PortListing(url.Values{"id": some, "fields": portFields}))
		if err != nil {
			log.FromContext(ctx).Info("The ports of servers that do not become nodes cannot be looked at yet", "ports", len(ids), "error", err.Error())
			return
		}
		rows = append(rows, more...)
	}
	if news := p.detach(due, rows); len(news.Machines) > 0 {
		log.FromContext(ctx).Info("Servers are ACTIVE without their ports; they are replaced", "machineUIDs", news.Machines)
		p.changed(ctx, p, news)
	}
}

// unjoined returns the servers that are due, and the IDs of their Machines' ports.
func (p *Project) unjoined() (due []unjoined, ports []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.clock.Now()
	for uid, all := range p.servers.byMachine {
		if m, known := p.machines.Get(uid); !known || m.Joined || m.Leaving || len(p.ports[uid]) == 0 {
			continue
		}
		before := len(due)
		for id := range all {
			if p.isLookDue(uid, p.servers.byID[id], now) {
				due = append(due, unjoined{uid, id})
			}
		}
		if len(due) == before {
			continue
		}
		for _, port := range p.ports[uid] {
			ports = append(ports, port.ID)
		}
	}
	slices.Sort(ports)
	return due, ports
}

// isLookDue reports whether the ports of a server are to be looked at now. The caller holds the lock.
func (p *Project) isLookDue(machine types.UID, k *knownServer, now time.Time) bool {
	if !k.belongs(machine) || k.Status != statusActive || k.gone || k.missing || k.detached != "" {
		return false
	}
	wanted := []time.Time{k.activeSince.Add(DetachedAfter)}
	for id := range p.servers.byMachine[machine] {
		if other := p.servers.byID[id]; other != k && !other.gone {
			wanted = append(wanted, other.since.Add(DuplicateAge))
		}
	}
	return slices.ContainsFunc(wanted, func(at time.Time) bool { return !at.After(now) && k.portsLooked.Before(at) })
}

// detach takes in what Neutron says of the ports of servers that were due, and returns the Machines whose server has lost all
// of them. These ports count as named by an order with an unknown outcome.
func (p *Project) detach(due []unjoined, rows []PortRow) (news Change) {
	p.mu.Lock()
	defer p.mu.Unlock()
	devices := make(map[string]string, len(rows))
	for i := range rows {
		devices[rows[i].ID] = rows[i].DeviceID
	}
	for _, d := range due {
		k, ports := p.servers.byID[d.server], p.ports[d.machine]
		if k == nil || len(ports) == 0 {
			continue
		}
		k.portsLooked = p.clock.Now()
		var unbound []string
		for _, n := range slices.Sorted(maps.Keys(ports)) {
			port := ports[n]
			if port.ServerID = devices[port.ID]; port.ServerID != d.server {
				unbound = append(unbound, port.ID)
			}
			ports[n] = port
		}
		if len(unbound) < len(ports) {
			continue
		}
		k.detached = fmt.Sprintf("server %s is ACTIVE without a network: port %s is not bound to it any more, as happens when two servers were ordered on one port; the server is replaced",
			d.server, strings.Join(unbound, ", "))
		for n, port := range ports {
			port.Ordered = true
			ports[n] = port
		}
		news.Machines = append(news.Machines, d.machine)
	}
	return news
}

// detachedFault is why a server that has lost its ports counts as failed.
func (k *knownServer) detachedFault() *fault.Error {
	return fault.New(fault.Transient, fault.CodeServerError, "%s", k.detached)
}
