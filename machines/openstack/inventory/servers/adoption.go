package servers

import (
	"cmp"
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// TagAgain is how long tags that could not be written are left alone.
const TagAgain = 10 * time.Minute

// Claim notes that a Machine adopts a server whose tags name another one. It reports false when the tags have changed meanwhile.
func (c *Cache) Claim(id string, from, to types.UID) bool {
	k := c.byID[id]
	if k == nil || !k.Present() || k.Tags().Machine != from {
		return false
	}
	c.unindex(k)
	k.claimed = to
	c.index(k)
	return true
}

// Untagged is a server that belongs to a Machine and lacks one of its two tags. Was is the Machine that its machine-uid names; it is
// another one when the server is being adopted.
type Untagged struct {
	ID           string
	Machine, Was types.UID
}

// Untagged returns up to limit servers to be tagged now, and reports whether there are more. It notes that it was tried. A server
// that no Machine claims counts only when its Machine is known.
func (c *Cache) Untagged(limit int, now time.Time, knows func(types.UID) bool) (found []Untagged, more bool) {
	for id, k := range c.byID {
		if len(found) == limit {
			return found, true
		}
		if !k.Present() || !k.taggedAt.IsZero() && now.Sub(k.taggedAt) < TagAgain {
			continue
		}
		if k.claimed != "" || k.tagged != "" && k.Tags().Cluster == "" && knows(k.tagged) {
			k.taggedAt = now
			found = append(found, Untagged{ID: id, Machine: cmp.Or(k.claimed, k.tagged), Was: k.Tags().Machine})
		}
	}
	return found, false
}

// SetMetadata notes that metadata was written onto a server.
func (c *Cache) SetMetadata(id string, metadata map[string]string) {
	k, ok := c.byID[id]
	if !ok {
		return
	}
	r := k.Row
	r.Metadata = make(map[string]string, len(k.Metadata)+len(metadata))
	maps.Copy(r.Metadata, k.Metadata)
	maps.Copy(r.Metadata, metadata)
	c.update(k, r, k.Since)
}
