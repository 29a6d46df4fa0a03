package nodegroup

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/fault"
)

func TestInstances(t *testing.T) {
	quota := &InstanceError{Code: "QuotaExceeded", Message: "no more cores", OutOfResources: true}
	for _, tc := range []struct {
		name  string
		build func(p *pool)
		size  int32
		want  func(p *pool) []Instance
	}{
		{"CA-C39 replicas without a Machine have placeholders", func(*pool) {}, 2, func(p *pool) []Instance {
			return []Instance{{ID: unitID(p, 0, 0), State: Creating}, {ID: unitID(p, 0, 1), State: Creating}}
		}},
		{"CA-C39 their placeholders bear the series", func(p *pool) { p.deployment.Spec.PlaceholderSeries = ptr.To[int32](4) }, 1, func(p *pool) []Instance {
			return []Instance{{ID: unitID(p, 4, 0), State: Creating}}
		}},
		{"they keep the series while a client has dropped it from the spec (F-5)", func(p *pool) { p.deployment.Status.LastPlaceholderSeries = ptr.To[int32](4) }, 1, func(p *pool) []Instance {
			return []Instance{{ID: unitID(p, 4, 0), State: Creating}}
		}},
		{"CA-C40 CA-C45 a Machine without a server is creating under a placeholder", func(p *pool) { p.machine("a-1") }, 1, func(p *pool) []Instance {
			return []Instance{{ID: machineID(p, "a-1"), State: Creating}}
		}},
		{"CA-C41 a server without a node keeps the placeholder", func(p *pool) { p.machine("a-1", withServer) }, 1, func(p *pool) []Instance {
			return []Instance{{ID: machineID(p, "a-1"), State: Creating}}
		}},
		{"a node without a provider ID keeps the placeholder", func(p *pool) {
			_, n := p.node("a-1")
			n.Spec.ProviderID = ""
		}, 1, func(p *pool) []Instance {
			return []Instance{{ID: machineID(p, "a-1"), State: Creating}}
		}},
		{"CA-C43 CA-C44 a node runs under its provider ID, to the letter", func(p *pool) {
			_, n := p.node("a-1")
			n.Spec.ProviderID = "openstack://RegionOne/" + serverOf("a-1")
		}, 1, func(*pool) []Instance {
			return []Instance{{ID: "openstack://RegionOne/" + serverOf("a-1"), State: Running}}
		}},
		{"CA-C44 CA-C50 an error on a Machine with a node is not shown", func(p *pool) {
			p.node("a-1", failed(fault.CodeQuotaExceeded, "no more cores"))
		}, 1, func(*pool) []Instance {
			return []Instance{{ID: providerID("a-1"), State: Running}}
		}},
		{"CA-C46 CA-C48 a quota error is shown at once, as out of resources", func(p *pool) {
			p.machine("a-1", failed(fault.CodeQuotaExceeded, "no more cores"))
		}, 1, func(p *pool) []Instance {
			return []Instance{{ID: machineID(p, "a-1"), State: Creating, Error: quota}}
		}},
		{"CA-C46 an unknown flavor is shown at once, as another error", func(p *pool) {
			p.machine("a-1", failed(fault.CodeFlavorNotFound, "no flavor x"))
		}, 1, func(p *pool) []Instance {
			return []Instance{{ID: machineID(p, "a-1"), State: Creating, Error: &InstanceError{Code: "FlavorNotFound", Message: "no flavor x"}}}
		}},
		{"CA-C47 a failure that may pass is not shown before five minutes", func(p *pool) {
			p.machine("a-1", failed(fault.CodeCloudUnavailable, "503"), func(m *v1alpha1.Machine) {
				m.CreationTimestamp = metav1.NewTime(noon.Add(-4 * time.Minute))
			})
		}, 1, func(p *pool) []Instance {
			return []Instance{{ID: machineID(p, "a-1"), State: Creating}}
		}},
		{"CA-C47 and is shown after them", func(p *pool) {
			p.machine("a-1", failed(fault.CodeCloudUnavailable, "503"), func(m *v1alpha1.Machine) {
				m.CreationTimestamp = metav1.NewTime(noon.Add(-5 * time.Minute))
			})
		}, 1, func(p *pool) []Instance {
			return []Instance{{ID: machineID(p, "a-1"), State: Creating, Error: &InstanceError{Code: "CloudUnavailable", Message: "503"}}}
		}},
		{"CA-C47 the cloud's rate limit is never shown", func(p *pool) { p.machine("a-1", failed(fault.CodeRateLimited, "429")) }, 1, func(p *pool) []Instance {
			return []Instance{{ID: machineID(p, "a-1"), State: Creating}}
		}},
		{"CA-C37 CA-C51 a Machine that is being deleted is Deleting and its replacement awaited", func(p *pool) { p.node("a-1", deleting) }, 1, func(p *pool) []Instance {
			return []Instance{{ID: providerID("a-1"), State: Deleting}, {ID: unitID(p, 0, 0), State: Creating}}
		}},
		{"CA-C50 a listed Machine is Deleting, and shows no error", func(p *pool) {
			p.remove(p.machine("a-1", failed(fault.CodeQuotaExceeded, "no more cores")))
		}, 0, func(p *pool) []Instance {
			return []Instance{{ID: machineID(p, "a-1"), State: Deleting}}
		}},
		{"a removal of an earlier Machine of the same name means nothing", func(p *pool) {
			m := p.machine("a-1")
			p.remove(&v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Name: m.Name, UID: "earlier"}})
		}, 1, func(p *pool) []Instance {
			return []Instance{{ID: machineID(p, "a-1"), State: Creating}}
		}},
		{"CA-C52 a Machine whose node is gone is awaited under its placeholder", func(p *pool) {
			p.node("a-1")
			p.world.Nodes = nil
		}, 1, func(p *pool) []Instance {
			return []Instance{{ID: machineID(p, "a-1"), State: Creating}}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld()
			p := w.pool("a", tc.size, 0, 5)
			tc.build(p)
			got := snapshotOf(t, w).groups[p.id()].shown()
			if diff := cmp.Diff(tc.want(p), got); diff != "" {
				t.Errorf("instances (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAnErrorThatWasActedUponIsNotShownAgain(t *testing.T) {
	w := newWorld()
	p := w.pool("a", 1, 1, 5)
	m := p.machine("a-1", failed(fault.CodeQuotaExceeded, "no more cores"))
	s := snapshotOf(t, w)
	s = s.withSeen(s.groups[p.id()], s.groups[p.id()].members)
	again := m.DeepCopy()
	s = s.apply([]event{{object: again}}, noon)
	if e := s.groups[p.id()].instances[0].Error; e != nil {
		t.Errorf("CA-C69 the autoscaler has acted upon it, and is shown %+v", e)
	}
	again = m.DeepCopy()
	again.Status.LastOperation.LastUpdated = ptr.To(metav1.NewTime(noon))
	if e := s.apply([]event{{object: again}}, noon).groups[p.id()].instances[0].Error; e == nil {
		t.Error("CA-C69 the next failed attempt is not shown")
	}
}

func TestMessagesAreShort(t *testing.T) {
	t.Run("CA-C54 one line of at most 256 bytes", func(t *testing.T) {
		w := newWorld()
		p := w.pool("a", 1, 1, 5)
		p.machine("a-1", failed(fault.CodeNoValidHost, "first line\nsecond\t"+strings.Repeat("ü", 400)))
		message := snapshotOf(t, w).groups[p.id()].instances[0].Error.Message
		if len(message) > 256 || strings.ContainsAny(message, "\n\t") {
			t.Errorf("CA-C54 the message has %d bytes: %q", len(message), message)
		}
	})
}

func TestAnAnswerStaysSmall(t *testing.T) {
	t.Run("CA-C55 CA-C08 thirty thousand failed Machines", func(t *testing.T) {
		const machines, limit = 30_000, 4 << 20
		w := newWorld()
		p := w.pool("general-purpose", machines, 0, machines)
		long := strings.Repeat("x", 400)
		for i := range machines {
			p.machine(fmt.Sprintf("general-purpose-7d9c6bb8f4-%05d", i), failed(fault.CodeNoValidHost, long))
		}
		size := 0
		for _, i := range snapshotOf(t, w).groups[p.id()].instances {
			// Three tags with a length of up to two bytes each, the state and the class.
			size += len(i.ID) + len(i.Error.Code) + len(i.Error.Message) + 16
		}
		if size > limit {
			t.Errorf("CA-C55 the answer has about %d bytes, the client takes %d", size, limit)
		}
	})
}

func TestTargetSize(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(p *pool)
		want   int32
	}{
		{"CA-C36 it is spec.replicas", func(*pool) {}, 3},
		{"CA-C37 what is being deleted is not counted", func(p *pool) {
			for _, name := range []string{"a-1", "a-2", "a-3"} {
				p.node(name)
			}
			p.node("a-4", deleting)
		}, 3},
		{"without spec.replicas it is the last size", func(p *pool) {
			p.deployment.Spec.Replicas, p.deployment.Status.LastReplicas = nil, ptr.To[int32](4)
		}, 4},
		{"without spec.replicas the last size is kept inside the bounds", func(p *pool) {
			p.deployment.Spec.Replicas, p.deployment.Status.LastReplicas = nil, ptr.To[int32](40)
		}, 5},
		{"a new group without spec.replicas has its minimum", func(p *pool) { p.deployment.Spec.Replicas = nil }, 2},
		{"a size beyond the maximum is left alone", func(p *pool) { p.deployment.Spec.Replicas = ptr.To[int32](9) }, 9},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld()
			p := w.pool("a", 3, 2, 5)
			tc.change(p)
			if got := snapshotOf(t, w).groups[p.id()].target; got != tc.want {
				t.Errorf("the target size is %d, want %d", got, tc.want)
			}
		})
	}
}
