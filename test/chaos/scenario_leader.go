package chaos

import (
	"errors"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/test/chaos/process"
	"github.com/drover-project/drover/test/chaos/world"
	sim "github.com/drover-project/drover/test/openstack"
)

const (
	// many is how many Machines a change concerns. stay is how many are left when it is a scale-down.
	many, stay = 20, 2
	// pause is how long a leader stands still.
	pause = 2 * time.Minute
	// known is how long the orphan collector has looked at the Machines before the change.
	known = 3 * process.OrphanPeriod
	// rest is how long after the end of a change everything must stay as it is, and nothing may be held any more: the orphan collector needs two
	// rounds, and lost servers are held until the next complete list of servers, which may be made ten minutes later.
	rest = 12 * time.Minute
)

// Ending is how the leader ends in the middle of a change.
type Ending struct {
	Name  string
	stale *process.StaleLeader
	stops bool
}

// Lists is what happens to the lists of servers for a while.
type Lists struct {
	Name  string
	lasts time.Duration
	begin func(*sim.Cloud) (end func())
}

// LeaderFault describes how the leader ends in the middle of a change, and what is wrong with the lists of servers meanwhile.
type LeaderFault struct {
	Ending Ending
	// Call is the number of the call before which, or after which, the leader ends, counted from the beginning of the change.
	Call  int
	After bool
	Lists Lists
	// Late is true when the disturbance of the lists begins with the end of the leader, and false when it begins with the change.
	Late bool
}

// String describes the fault after the words "the leader".
func (f LeaderFault) String() string {
	when, since := "before", "from the beginning of the change on"
	if f.After {
		when = "after"
	}
	if f.Late {
		since = "from then on"
	}
	return fmt.Sprintf("%s %s call number %d of the change, and %s %s", f.Ending.Name, when, f.Call, f.Lists.Name, since)
}

// Endings returns the ways in which a leader ends.
func Endings() []Ending {
	return []Ending{
		{Name: "is killed"},
		{Name: "stands still for two minutes", stale: &process.StaleLeader{Pause: pause}},
		{Name: "is stopped for an upgrade", stops: true},
	}
}

// AllLists returns what may happen to the lists of servers. The first is nothing.
func AllLists() []Lists {
	return []Lists{
		{Name: "lists are right", begin: func(*sim.Cloud) func() { return func() {} }},
		{Name: "lists show what was 20 s ago", lasts: 10 * time.Minute, begin: func(c *sim.Cloud) func() {
			c.SetListLag(20 * time.Second)
			return func() { c.SetListLag(0) }
		}},
		{Name: "lists fail for a minute", lasts: time.Minute, begin: func(c *sim.Cloud) func() {
			var ends []func()
			for _, call := range []string{"GET /servers/detail", "GET /ports", "GET /floatingips"} {
				ends = append(ends, c.Inject(sim.Fault{Call: call, Status: 503}))
			}
			return func() {
				for _, end := range ends {
					end()
				}
			}
		}},
		{Name: "lists lack all servers for two minutes, because their cells are away", lasts: 2 * time.Minute, begin: func(c *sim.Cloud) func() {
			c.LoseCell("cell1")
			c.LoseCell("cell2")
			return c.RestoreCells
		}},
	}
}

// Changes returns the scenarios in which many Machines end at once.
func Changes() []Scenario {
	safe := world.Options{Safety: true}
	return []Scenario{
		{Name: "20 of 22 Machines are removed", world: safe, script: (*harness).scaleDown},
		{Name: "20 Machines are rolled out", world: safe, script: (*harness).rollMany},
		{Name: "a group of 20 Machines is deleted", world: safe, script: (*harness).deleteMany},
	}
}

// disturbLists begins the disturbance of the lists of servers, if it is to begin now: late is true when the leader has ended, and false when
// the change begins.
func (h *harness) disturbLists(late bool) {
	f := h.run.Leader
	if f == nil || f.Late != late || h.endLists != nil {
		return
	}
	h.endLists, h.listsEnd = f.Lists.begin(h.Cloud), time.Now().Add(f.Lists.lasts)
}

// endListsInTime ends the disturbance of the lists of servers when its time is over.
func (h *harness) endListsInTime() {
	if !h.listsEnd.IsZero() && time.Now().After(h.listsEnd) {
		h.endLists()
		h.listsEnd = time.Time{}
	}
}

// change carries out a change and waits until it is done. The leader may end in the middle of it.
func (h *harness) change(begin func() error, goal string, done func() (bool, error)) error {
	h.recordDeletion()
	if f := h.run.Leader; f != nil {
		h.process.EndAfter(f.Call, f.After)
	}
	h.disturbLists(false)
	if err := begin(); err != nil {
		return err
	}
	if err := h.until(goal, done); err != nil {
		return err
	}
	h.recordCalls()
	return nil
}

// settled creates a deployment of n Machines, and waits until the orphan collector has looked at them.
func (h *harness) settled(n, surge int) (*v1alpha1.MachineDeployment, error) {
	d, err := h.deploymentOf(n, surge, 0)
	if err != nil {
		return nil, err
	}
	return d, h.pass(known)
}

// pass waits for d, and replaces a process that has ended.
func (h *harness) pass(d time.Duration) error {
	since := time.Now()
	return h.until(fmt.Sprintf("%v have passed", d), func() (bool, error) { return time.Since(since) >= d, nil })
}

// scaleDown removes 20 of 22 Machines by name, as the autoscaler does.
func (h *harness) scaleDown() error {
	d, err := h.settled(many+stay, 1)
	if err != nil {
		return err
	}
	machines, err := h.byName()
	if err != nil {
		return err
	}
	var removals []v1alpha1.Removal
	for _, m := range machines[stay:] {
		removals = append(removals, v1alpha1.Removal{Name: m.Name, UID: m.UID, Time: metav1.Now()})
	}
	if err := h.change(func() error { return h.patchDeployment(d, map[string]any{"replicas": stay, "removals": removals}) },
		"the Machines are removed", func() (bool, error) { return h.areRunning(stay) }); err != nil {
		return err
	}
	left, err := h.byName()
	for i := range left {
		if left[i].UID != machines[i].UID {
			err = errors.Join(err, fmt.Errorf("the Machine %s is left, and %s should be", left[i].Name, machines[i].Name))
		}
	}
	return errors.Join(err, h.atRest(stay, many+stay))
}

// rollMany changes the template of a deployment of 20, with a surge of 10.
func (h *harness) rollMany() error {
	d, err := h.settled(many, many/2)
	if err != nil {
		return err
	}
	if err := h.change(func() error { return h.changeTemplate(d) }, "all Machines have the new template and run", func() (bool, error) {
		if ok, err := h.areNew(many); err != nil || !ok {
			return false, err
		}
		return h.areRunning(many)
	}); err != nil {
		return err
	}
	return h.atRest(many, 2*many)
}

// deleteMany deletes a deployment of 20.
func (h *harness) deleteMany() error {
	d, err := h.settled(many, 1)
	if err != nil {
		return err
	}
	if err := h.change(func() error { return h.Admin.Delete(h.Context, d) }, "the deployment, its sets and its Machines are gone", func() (bool, error) {
		var deployments v1alpha1.MachineDeploymentList
		var sets v1alpha1.MachineSetList
		machines, err := h.Machines()
		err = errors.Join(err, h.Admin.List(h.Context, &deployments), h.Admin.List(h.Context, &sets))
		return len(machines)+len(sets.Items)+len(deployments.Items) == 0, err
	}); err != nil {
		return err
	}
	return h.atRest(0, many)
}

// atRest waits until the leader that stood still has ended and the lists are right, and then for a while. It returns an error unless n
// Machines run with one server each, nothing else is left, made servers were created in all, and nothing waits for a person.
func (h *harness) atRest(n, made int) error {
	if err := h.until("the leader that stood still has ended, and the lists are right", func() (bool, error) {
		return (h.stale == nil || h.stale.Ended()) && h.listsEnd.IsZero(), nil
	}); err != nil {
		return err
	}
	if err := h.pass(rest); err != nil {
		return err
	}
	ok, err := h.areRunning(n)
	if err == nil && !ok {
		err = fmt.Errorf("the %d Machines did not stay as they were\n%s", n, h.describe())
	}
	return errors.Join(err, h.CheckLeft(n), h.CheckCreates(made, 0), h.nothingWaits())
}

// nothingWaits returns an error when a metric, a condition or the report about orphans shows that something waits for a person.
func (h *harness) nothingWaits() error {
	waits, err := h.process.Waits()
	if err != nil {
		return err
	}
	texts, err := h.texts()
	if err != nil {
		return err
	}
	for _, text := range texts {
		if strings.Contains(text, "Frozen=True") || strings.Contains(text, "Ready=False") {
			waits = append(waits, text)
		}
	}
	if report := h.report(); strings.Contains(report, mustConfirm) {
		waits = append(waits, report)
	}
	if len(waits) > 0 {
		return fmt.Errorf("something waits: %s", strings.Join(waits, "\n"))
	}
	return nil
}
