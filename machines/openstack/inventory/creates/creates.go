// Package creates holds the creates with an unknown outcome: the call may have made what it was to make, and is not repeated before
// that is settled.
//
// It is plain data: no lock, no clock, no call. It knows nothing but the owner tags of what the creates make.
package creates

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/openstack/inventory/owner"
)

// A create with an unknown outcome made nothing when SettleTime has passed and settleLists complete lists have not shown what it
// was to make.
const (
	SettleTime  = 2 * time.Minute
	settleLists = 2
	// SecondLookAfter is how long after the start inherited creates are settled by a second look. The previous leader has sent
	// nothing since we hold the lease: by the second look the cloud has usually worked off what was under way, and a server that no
	// list shows yet has its port bound to it. An order that arrives even later names a port that was replaced.
	SecondLookAfter = 3 * time.Second
)

// InDoubt holds the creates with an unknown outcome, by the tag of what they make.
type InDoubt struct{ byTag map[owner.Tag]create }

// create is a create with an unknown outcome.
type create struct {
	// ended is when the call ended; fulls how many complete lists there had been by then.
	ended time.Time
	fulls int
	// inherited: the previous leader may have sent the create and died before the answer. A second look settles it.
	inherited bool
}

// settled reports whether the create made nothing, so that it may be repeated. fulls is how many complete lists there have been.
func (c create) settled(now time.Time, fulls int) bool {
	return !c.inherited && now.Sub(c.ended) >= SettleTime && fulls-c.fulls >= settleLists
}

// New returns an InDoubt without creates.
func New() *InDoubt { return &InDoubt{byTag: map[owner.Tag]create{}} }

// Any reports whether a create is in doubt.
func (d *InDoubt) Any() bool { return len(d.byTag) > 0 }

// Add notes that the outcome of a create is unknown. fulls is how many complete lists there have been.
func (d *InDoubt) Add(tag owner.Tag, ended time.Time, fulls int) {
	d.byTag[tag] = create{ended: ended, fulls: fulls}
}

// Inherit notes that the previous leader, which sent nothing after began, may have sent a create. One that is in doubt already stays
// as it is.
func (d *InDoubt) Inherit(tag owner.Tag, began time.Time) {
	if !d.Has(tag) {
		d.byTag[tag] = create{ended: began, inherited: true}
	}
}

// Close drops a create whose outcome is known now.
func (d *InDoubt) Close(tag owner.Tag) { delete(d.byTag, tag) }

// CloseIf drops the creates for which closed is true.
func (d *InDoubt) CloseIf(closed func(owner.Tag) bool) {
	maps.DeleteFunc(d.byTag, func(tag owner.Tag, _ create) bool { return closed(tag) })
}

// CloseInherited drops all inherited creates, after the second look, and returns their Machines.
func (d *InDoubt) CloseInherited() (closed []types.UID) {
	closed = d.Inherited()
	maps.DeleteFunc(d.byTag, func(_ owner.Tag, c create) bool { return c.inherited })
	return closed
}

// Settle drops a create that made nothing by now. It returns why what has that tag may not be made yet; empty: no create of it is in
// doubt.
func (d *InDoubt) Settle(tag owner.Tag, now time.Time, fulls int) (reason string) {
	c, ok := d.byTag[tag]
	switch {
	case !ok:
		return ""
	case c.settled(now, fulls):
		delete(d.byTag, tag)
		return ""
	}
	words := "whether the call at %s made the %s is not known yet; it is looked for"
	if c.inherited {
		words = "drover began at %s and found a port of it: the %s may be on its way; it is looked for"
	}
	return fmt.Sprintf(words, c.ended.UTC().Format("15:04:05"), tag.Kind)
}

// SettleIf drops the creates that made nothing by now, of Machines for which over is true.
func (d *InDoubt) SettleIf(over func(machine types.UID) bool, now time.Time, fulls int) {
	maps.DeleteFunc(d.byTag, func(tag owner.Tag, c create) bool { return over(tag.Machine) && c.settled(now, fulls) })
}

// Has reports whether a create of what has that tag is in doubt.
func (d *InDoubt) Has(tag owner.Tag) bool {
	_, ok := d.byTag[tag]
	return ok
}

// IsInherited reports whether an inherited create of what has that tag is in doubt.
func (d *InDoubt) IsInherited(tag owner.Tag) bool { return d.byTag[tag].inherited }

// HasOf reports whether a create of the Machine is in doubt.
func (d *InDoubt) HasOf(machine types.UID) bool { return len(d.Of(machine)) > 0 }

// Of returns the tags of what creates of the Machine that are in doubt may have made.
func (d *InDoubt) Of(machine types.UID) (tags []owner.Tag) {
	for tag := range d.byTag {
		if tag.Machine == machine {
			tags = append(tags, tag)
		}
	}
	return tags
}

// Inherited returns the Machines of inherited creates, sorted.
func (d *InDoubt) Inherited() (machines []types.UID) {
	for tag, c := range d.byTag {
		if c.inherited {
			machines = append(machines, tag.Machine)
		}
	}
	slices.Sort(machines)
	return machines
}

// UntilSecondLook returns the time until the second look at inherited creates, which is not positive when it is due, and reports
// whether there are inherited creates.
func (d *InDoubt) UntilSecondLook(now time.Time) (left time.Duration, any bool) {
	for _, c := range d.byTag {
		if c.inherited {
			return c.ended.Add(SecondLookAfter).Sub(now), true
		}
	}
	return 0, false
}
