package state

import (
	"cmp"
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// TagAgain is how long drover waits before it tries again to write tags that could not be written.
const TagAgain = 10 * time.Minute

// Adopt records that a Machine adopts a server whose tags name another Machine. It returns false when the tags have changed
// meanwhile.
func (c *Servers) Adopt(id string, from, to types.UID) bool {
	k := c.byID[id]
	if k == nil || !k.present() || k.Tags().Machine != from {
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

// untagged returns up to limit servers to tag now, and reports whether there are more. It records that they are tagged now, so
// that it does not return the same servers again before TagAgain has passed. A server that no Machine adopts is included only
// if the Machine in its tags is registered.
func (c *Servers) untagged(limit int, now time.Time, isRegistered func(types.UID) bool) (found []Untagged, more bool) {
	for id, k := range c.byID {
		if len(found) == limit {
			return found, true
		}
		if !k.present() || !k.taggedAt.IsZero() && now.Sub(k.taggedAt) < TagAgain {
			continue
		}
		if k.adopter != "" || k.tagged != "" && k.Tags().Cluster == "" && isRegistered(k.tagged) {
			k.taggedAt = now
			found = append(found, Untagged{ID: id, Machine: cmp.Or(k.adopter, k.tagged), Was: k.Tags().Machine})
		}
	}
	return found, false
}

// SetMetadata records that metadata was written onto a server.
func (c *Servers) SetMetadata(id string, metadata map[string]string) {
	k, ok := c.byID[id]
	if !ok {
		return
	}
	r := k.ServerRow
	r.Metadata = make(map[string]string, len(k.Metadata)+len(metadata))
	maps.Copy(r.Metadata, k.Metadata)
	maps.Copy(r.Metadata, metadata)
	c.update(k, r, k.since)
}
