package memorycloud

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
)

// cableOf is the prefix of a cable's ID. The UID of the cable's Machine follows. drover treats a cable
// as a port.
const cableOf = "cable of "

// Tagged returns all servers (boxes) and ports (cables), in the only project of this cloud.
func (c *Cloud) Tagged(context.Context) []cloud.Project {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := cloud.Project{Name: "the cellar"}
	for uid, b := range c.boxes {
		p.Resources = append(p.Resources, cloud.Resource{
			Kind: cloud.ResourceServer, ID: fmt.Sprintf("#%d", b.Number), Name: b.Name, Key: keyOf(b.Number), Machine: uid,
		})
	}
	for uid := range c.cables {
		r := cloud.Resource{Kind: cloud.ResourcePort, ID: cableOf + string(uid), Machine: uid}
		if b := c.boxes[uid]; b != nil {
			r.UsedBy = fmt.Sprintf("#%d", b.Number)
		}
		p.Resources = append(p.Resources, r)
	}
	slices.SortFunc(p.Resources, func(a, b cloud.Resource) int { return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.ID, b.ID)) })
	return []cloud.Project{p}
}

// Collect deletes a server (a box), or a port (a cable) without a server.
func (c *Cloud) Collect(_ context.Context, r cloud.Resource) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := c.boxes[r.Machine]
	switch {
	case r.Kind == cloud.ResourceServer && b != nil:
		c.scrap(b)
	case r.Kind == cloud.ResourcePort && b != nil:
		return fault.New(fault.Conflict, fault.CodeConflict, "%s is in use", r.ID)
	case r.Kind == cloud.ResourcePort:
		c.takeOut(r.Machine)
	}
	return nil
}

// IsServerGone reports whether the server was deleted.
func (c *Cloud) IsServerGone(_ context.Context, id, _ string) (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, scrapped := c.gone[boxIn(id)]
	return scrapped, nil
}

// scrap deletes a server (box). The caller holds the mutex.
func (c *Cloud) scrap(b *Box) {
	c.calls["scrap box"]++
	delete(c.boxes, b.Owner)
	c.gone[b.Number] = b.Owner
	c.changes <- b.key
}

// takeOut deletes a Machine's port (cable). The caller holds the mutex.
func (c *Cloud) takeOut(of types.UID) {
	c.calls["take cable out"]++
	delete(c.cables, of)
}
