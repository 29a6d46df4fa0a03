package autoscaler

import (
	"net/http"
	"testing"
	"time"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// noMachines refuses every new Machine, as a full quota for objects does.
func noMachines(r *http.Request) bool {
	return r.Method == http.MethodPost && lastOf(r.URL.Path) == "machines"
}

func TestReplicasWithoutMachines(t *testing.T) {
	t.Parallel()
	t.Run("CA-C39 CA-C84 an order for which no Machine can be made is taken back, once, and asked for again when it can", func(t *testing.T) {
		inWorld(t, func(w *world) {
			p := busyThree(w, pool{})
			w.drovers[0].refuses.Store(noMachines)
			p.pods = 5
			w.until(5*time.Minute, "an order", func() bool { return w.replicas(p) == 5 })
			w.until(20*time.Minute, "it is taken back", func() bool { return w.replicas(p) == 3 })
			w.run(4 * time.Minute)
			if got := w.replicas(p); got != 3 {
				t.Errorf("the size is %d\n%s", got, w.describe())
			}
			w.run(time.Hour)
			w.notBeyond(5)
			w.drovers[0].refuses.Store(nobody)
			w.ends(p, 5)
			w.notBeyond(5)
			if w.judge.gone > 0 {
				t.Errorf("%d nodes went although all are busy", w.judge.gone)
			}
		})
	})
	for name, fault := range map[string]func(string, int) fate{
		"each is taken off once": func(string, int) fate { return carriedOut },
		"also when the answers of the first removals are lost": func(m string, n int) fate {
			if m == "NodeGroupDeleteNodes" && n <= 3 {
				return lost
			}
			return carriedOut
		},
	} {
		t.Run("CA-C72 a person raises the size beyond what Machines can be made for: "+name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				p := busyThree(w, pool{})
				w.drovers[0].refuses.Store(noMachines)
				w.resize(p, 6)
				w.wire.faulty(fault)
				smallest := 6
				w.until(40*time.Minute, "three replicas are taken off", func() bool {
					smallest = min(smallest, w.replicas(p))
					return w.replicas(p) == 3
				})
				if w.wire.count("NodeGroupDeleteNodes") == 0 {
					t.Error("the client named no replica: this shows nothing")
				}
				w.run(time.Hour)
				if got := min(smallest, w.replicas(p)); got != 3 {
					t.Errorf("the size fell to %d\n%s", got, w.describe())
				}
				w.drovers[0].refuses.Store(nobody)
				w.ends(p, 3)
				if machines := w.machinesOf(p); len(machines) != 3 || w.judge.gone > 0 {
					t.Errorf("%d Machines, and %d nodes went: want the three that were there all the time", len(machines), w.judge.gone)
				}
			})
		})
	}
}

func TestBelowTheMinimum(t *testing.T) {
	t.Parallel()
	t.Run("CA-C87 an order that is taken back stops at the minimum, and what is kept there is made", func(t *testing.T) {
		inWorld(t, func(w *world) {
			// Two nodes of a minimum of three: the third never comes, however often it is tried.
			p := w.pool(pool{name: "a", pods: 2, join: 10 * time.Minute, lost: from(3)}, 3, 3, 10)
			w.startDrover(droverOptions{})
			w.until(10*time.Minute, "two nodes", func() bool { _, nodes, _ := w.standing(p); return nodes == 2 })
			w.startClient()
			w.run(5 * time.Minute)
			p.pods = 5
			w.until(time.Hour, "an order", func() bool { return w.replicas(p) == 6 })
			// A person takes back a part of it; the client will take back all.
			w.resize(p, 4)
			smallest := 4
			w.until(40*time.Minute, "the order is taken back", func() bool {
				smallest = min(smallest, w.replicas(p))
				return w.wire.count("NodeGroupDecreaseTargetSize") > 0
			})
			if got := min(smallest, w.replicas(p)); got < 3 {
				t.Errorf("the size fell to %d, the minimum is 3\n%s", got, w.describe())
			}
			p.lost = from(1 << 30)
			w.ends(p, 5)
			if w.judge.gone > 0 {
				t.Errorf("%d nodes went although all are busy", w.judge.gone)
			}
		})
	})
}

func TestAGroupThatLeavesTheList(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		leave, come func(d *v1alpha1.MachineDeployment)
	}{
		"paused": {
			func(d *v1alpha1.MachineDeployment) { d.Annotations[v1alpha1.AnnotationPaused] = "true" },
			func(d *v1alpha1.MachineDeployment) { delete(d.Annotations, v1alpha1.AnnotationPaused) },
		},
		"without a maximum": {
			func(d *v1alpha1.MachineDeployment) { delete(d.Annotations, v1alpha1.AnnotationsMaxSize[0]) },
			func(d *v1alpha1.MachineDeployment) { d.Annotations[v1alpha1.AnnotationsMaxSize[0]] = "10" },
		},
	} {
		t.Run("CA-C18 CA-C30 "+name+" while nodes are on their way: the client never comes to a group that is not listed", func(t *testing.T) {
			inWorld(t, func(w *world) {
				p := busyThree(w, pool{boot: 5 * time.Minute})
				p.pods = 5
				w.until(time.Minute, "an order", func() bool { return w.replicas(p) == 5 })
				w.edit(p, c.leave)
				w.run(30 * time.Minute)
				p.pods = 4
				w.edit(p, c.come)
				w.ends(p, 4)
				// What it has forgotten meanwhile it may order again.
				w.notBeyond(7)
			})
		})
	}
}
