package ninetydays

import (
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"testing"
	"time"

	"github.com/drover-project/drover/test/sample"
)

var (
	seeds   = flag.Uint64("seeds", 1, "the number of random worlds to test")
	oneSeed = flag.Int64("seed", -1, "test only the world of this seed")
	// The last day has no faults, so that the cluster can recover.
	days = flag.Int("days", sample.Or(30, ninety), "how many days the simulation lasts")
)

func TestMain(m *testing.M) {
	// A simulation creates much garbage and keeps little memory, so fewer garbage collections save time.
	debug.SetGCPercent(800)
	os.Exit(m.Run())
}

func TestBrokenMachinesAndOrphansInNinetySimulatedDays(t *testing.T) {
	t.Parallel()
	for seed := range *seeds {
		if *oneSeed >= 0 {
			seed = uint64(*oneSeed)
		}
		t.Run(fmt.Sprintf("broken Machines are replaced, orphans are deleted, and other objects stay in the simulation with seed %d (MCM-48, CAPI-49, MCM-81, MCM-82, CAPI-59)", seed), func(t *testing.T) {
			t.Parallel()
			ninetyDays(newWorld(t, seed))
		})
	}
}

const ninety = 90

func ninetyDays(w *world) {
	w.run(began.Add(time.Hour))
	trouble := &trouble{w: w}
	p := &people{world: w, repair: newRepair(w, trouble), collector: newCollector(w, trouble)}
	last := began.Add(time.Duration(*days-3) * day)
	w.happenings(last)
	w.often(10, last, trouble.begin)
	w.often(0.3, last, p.changeLeader)
	w.in(9*time.Hour, p.operator)
	w.everyMinute(func() {
		if p.repair.leads {
			p.repair.noneForgotten()
		}
	})
	w.run(w.end())
	w.Logf("%+v", w.counts)
	w.Logf("%d rounds of health, the slowest replacement took %v, rounds stopped by brakes: %v", p.repair.rounds, p.repair.slowest, p.repair.held)
	w.Logf("%d orphans are left; reasons not to collect: %v", len(w.strays), p.collector.reasons)
	p.allIsWell()
	p.enoughHappened()
}

func (w *world) end() time.Time { return began.Add(time.Duration(*days) * day) }

func (w *world) everyMinute(happen func()) {
	w.in(time.Minute, func() {
		happen()
		w.everyMinute(happen)
	})
}

// allIsWell fails the test unless all servers work at the end, all Machines exist, and no orphan is left.
func (p *people) allIsWell() {
	for _, s := range p.all() {
		if !p.works(s) || !s.isReady() || s.leaving() {
			p.Errorf("the server of Machine %s does not work at the end: %+v", s.name, s)
		}
	}
	for key, left := range p.strays {
		p.Errorf("%s is left although it lost its Machine at %v", key, left.since)
	}
	want := 0
	for _, s := range p.all() {
		want += len(idsOf(s.name))
		if s.number%3 > 0 {
			want--
		}
	}
	if n := len(p.project.rows); n != want || len(p.api.machines.rows) != machines {
		p.Errorf("%d Machines have %d resources, want %d and %d", len(p.api.machines.rows), n, machines, want)
	}
	if n := len(p.api.nodes.rows); n != machines+12+3+5 {
		p.Errorf("%d Nodes are left", n)
	}
}

// enoughHappened fails the test when some kind of fault or reaction happened so rarely that the test proves nothing
// about it.
func (p *people) enoughHappened() {
	c := p.counts
	for n, inNinetyDays := range map[*int]int{
		&c.replaced: 300, &c.needless: 10, &c.hosts: 10, &c.zones: 5, &c.outages: 20, &c.leaders: 10, &c.troubles: 400, &c.stripped: 150, &c.late: 40,
		&c.collected: 400, &c.clones: 1,
	} {
		if least := inNinetyDays * *days / ninety; *n < max(1, least) {
			p.Errorf("too little happened: %+v", c)
		}
	}
	if p.repair.held["GroupUnhealthy"] == 0 {
		p.Errorf("the brake for a group never stopped a replacement: %v", p.repair.held)
	}
}
