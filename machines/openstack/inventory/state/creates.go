// Package creates holds the creates with an unknown outcome. Such a create may have succeeded, so it is not repeated before it is
// resolved.
//
// It is plain data: it has no lock, no clock, and makes no call. It stores only the owner tags of the resources.
package state

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// A create with an unknown outcome counts as failed when SettleTime has passed since the call ended, and at least settleLists
// complete lists since the call have not shown the resource.
const (
	SettleTime  = 2 * time.Minute
	settleLists = 2
	// SecondLookAfter is the time from drover's start to the second look at inherited creates: server creates that the previous
	// leader may have sent. In the second look, drover reads the Machines' ports by their IDs, and then lists the servers. This
	// shows the outcome of the creates: the previous leader sends nothing once this process has the lease, and after this time the
	// cloud has usually finished what was in progress. Even if the list still lacks a server, the server's port is already bound
	// to the server. A create that arrives even later names a port that drover has replaced by then, so the cloud refuses it.
	SecondLookAfter = 3 * time.Second
)

// Creates holds the creates with an unknown outcome, by the tags of their resources.
type Creates struct{ byTag map[Tag]create }

// create is a create with an unknown outcome.
type create struct {
	// ended is when the call ended. fulls is the number of complete lists before that time.
	ended time.Time
	fulls int
	// inherited is true when the previous leader may have sent the create and may have died before the answer. The second look
	// shows the outcome (see [SecondLookAfter]).
	inherited bool
}

// settled reports whether the create counts as failed, so that it may be repeated. fulls is the current number of complete lists.
func (c create) settled(now time.Time, fulls int) bool {
	return !c.inherited && now.Sub(c.ended) >= SettleTime && fulls-c.fulls >= settleLists
}

// newCreates returns an InDoubt without creates.
func newCreates() *Creates { return &Creates{byTag: map[Tag]create{}} }

// any reports whether a create is in doubt.
func (d *Creates) any() bool { return len(d.byTag) > 0 }

// add records a create with an unknown outcome. fulls is the current number of complete lists.
func (d *Creates) add(tag Tag, ended time.Time, fulls int) {
	d.byTag[tag] = create{ended: ended, fulls: fulls}
}

// inherit records that the previous leader may have sent a create. began is the time after which the previous leader sent
// nothing. Inherit does not change a create that is already in doubt.
func (d *Creates) inherit(tag Tag, began time.Time) {
	if !d.Has(tag) {
		d.byTag[tag] = create{ended: began, inherited: true}
	}
}

// close removes a create whose outcome is now known.
func (d *Creates) close(tag Tag) { delete(d.byTag, tag) }

// closeIf removes the creates for which closed returns true. ended is when the call of the create ended.
func (d *Creates) closeIf(closed func(tag Tag, ended time.Time) bool) {
	maps.DeleteFunc(d.byTag, func(tag Tag, c create) bool { return closed(tag, c.ended) })
}

// closeInherited removes all inherited creates, after the second look, and returns their Machines.
func (d *Creates) closeInherited() (closed []types.UID) {
	closed = d.inherited()
	maps.DeleteFunc(d.byTag, func(_ Tag, c create) bool { return c.inherited })
	return closed
}

// settle removes the create of the resource with that tag if the create counts as failed by now. It returns the reason why the
// resource may not be created yet; empty when no create of the resource is in doubt.
func (d *Creates) settle(tag Tag, now time.Time, fulls int) (reason string) {
	c, ok := d.byTag[tag]
	switch {
	case !ok:
		return ""
	case c.settled(now, fulls):
		delete(d.byTag, tag)
		return ""
	}
	words := "it is not known yet whether the call at %s created the %s; drover looks for it"
	if c.inherited {
		words = "drover started at %s and found a port of this Machine, so the previous leader may have created the %s as well; drover looks for it"
	}
	return fmt.Sprintf(words, c.ended.UTC().Format("15:04:05"), tag.Kind)
}

// settleIf removes the creates that count as failed by now, if over returns true for their Machine.
func (d *Creates) settleIf(over func(machine types.UID) bool, now time.Time, fulls int) {
	maps.DeleteFunc(d.byTag, func(tag Tag, c create) bool { return over(tag.Machine) && c.settled(now, fulls) })
}

// Has reports whether a create of the resource with that tag is in doubt.
func (d *Creates) Has(tag Tag) bool {
	_, ok := d.byTag[tag]
	return ok
}

// isInherited reports whether an inherited create of the resource with that tag is in doubt.
func (d *Creates) isInherited(tag Tag) bool { return d.byTag[tag].inherited }

// hasOf reports whether a create of the Machine is in doubt.
func (d *Creates) hasOf(machine types.UID) bool { return len(d.Of(machine)) > 0 }

// Of returns the tags of the Machine's creates in doubt.
func (d *Creates) Of(machine types.UID) (tags []Tag) {
	for tag := range d.byTag {
		if tag.Machine == machine {
			tags = append(tags, tag)
		}
	}
	return tags
}

// inherited returns the Machines of inherited creates, sorted.
func (d *Creates) inherited() (machines []types.UID) {
	for tag, c := range d.byTag {
		if c.inherited {
			machines = append(machines, tag.Machine)
		}
	}
	slices.Sort(machines)
	return machines
}

// untilSecondLook returns the time until the second look at inherited creates; zero or negative means that the second look is due.
// any reports whether there are inherited creates.
func (d *Creates) untilSecondLook(now time.Time) (left time.Duration, any bool) {
	for _, c := range d.byTag {
		if c.inherited {
			return c.ended.Add(SecondLookAfter).Sub(now), true
		}
	}
	return 0, false
}
