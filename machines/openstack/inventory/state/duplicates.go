package state

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// DuplicateAge is how long a second server of a Machine must have been known before it is deleted, because the write of the
	// Machine's spec.providerID may not be visible before that.
	DuplicateAge = 2 * time.Minute
	// DetachedAfter is how long a server may be ACTIVE without a node before its ports are looked up.
	DetachedAfter = 2 * time.Minute
)

// duplicates returns the servers of the Machine that must be deleted now, in addition to the server that the Machine names. A
// server is a duplicate when it exists, has both tags, and has been known for DuplicateAge. It is left out while the back-off
// after the last request to delete it lasts. There are no duplicates unless the server that the Machine names belongs to the
// Machine and is ACTIVE, because otherwise drover cannot decide which server is the duplicate.
func (c *Servers) duplicates(machine types.UID, serverID string, now time.Time) (named *server, duplicates []*server) {
	named = c.byID[serverID]
	if named == nil || !named.belongsTo(machine) || !named.present() || named.Status != statusActive {
		return nil, nil
	}
	for k := range c.indexedUnder(machine) {
		if k != named && k.present() && k.tagged == machine && c.cluster.Has(k.Tags()) && now.Sub(k.since) >= DuplicateAge && k.isDeletionDue(now) {
			duplicates = append(duplicates, k)
		}
	}
	return named, duplicates
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
	if !k.belongsTo(machine) || k.Status != statusActive || !k.present() || k.detached != "" {
		return false
	}
	wanted := []time.Time{k.activeSince.Add(DetachedAfter)}
	for other := range c.indexedUnder(machine) {
		if other != k && !other.gone {
			wanted = append(wanted, other.since.Add(DuplicateAge))
		}
	}
	return slices.ContainsFunc(wanted, func(at time.Time) bool { return !at.After(now) && k.portsLooked.Before(at) })
}

// notePortsLooked records that the ports of the server's Machine were looked up.
func (k *server) notePortsLooked(now time.Time) { k.portsLooked = now }
