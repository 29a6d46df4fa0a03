package model

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
	"github.com/drover-project/drover/nodegroup/model/membership"
	"github.com/drover-project/drover/test/pools"
)

func TestHowTheInstancesOfAGroupAreReportedToTheAutoscaler(t *testing.T) {
	quota := &InstanceError{Code: "QuotaExceeded", Message: "no more cores", OutOfResources: true}
	for _, tc := range []struct {
		name  string
		build func(p *pools.Pool)
		size  int32
		want  func(p *pools.Pool) []Instance
	}{
		{"replicas without a Machine are reported as placeholders (CA-C39)", func(*pools.Pool) {}, 2, func(p *pools.Pool) []Instance {
			return []Instance{{ID: pools.UnitID(p, 0, 0), State: Creating}, {ID: pools.UnitID(p, 0, 1), State: Creating}}
		}},
		{"placeholders have the group's series in their name (CA-C39)", func(p *pools.Pool) { p.Deployment.Spec.PlaceholderSeries = ptr.To[int32](4) }, 1, func(p *pools.Pool) []Instance {
			return []Instance{{ID: pools.UnitID(p, 4, 0), State: Creating}}
		}},
		{"placeholders keep their series when a client has removed spec.placeholderSeries (F-5)", func(p *pools.Pool) { p.Deployment.Status.LastPlaceholderSeries = ptr.To[int32](4) }, 1, func(p *pools.Pool) []Instance {
			return []Instance{{ID: pools.UnitID(p, 4, 0), State: Creating}}
		}},
		{"a Machine without a server is reported as Creating, with its placeholder's ID (CA-C40, CA-C45)", func(p *pools.Pool) { p.Machine("a-1") }, 1, func(p *pools.Pool) []Instance {
			return []Instance{{ID: pools.MachineID(p, "a-1"), State: Creating}}
		}},
		{"a Machine whose server has no node is reported as Creating, with its placeholder's ID (CA-C41)", func(p *pools.Pool) { p.Machine("a-1", pools.WithServer) }, 1, func(p *pools.Pool) []Instance {
			return []Instance{{ID: pools.MachineID(p, "a-1"), State: Creating}}
		}},
		{"a Machine whose node has no provider ID is reported as Creating, with its placeholder's ID", func(p *pools.Pool) {
			_, n := p.Node("a-1")
			n.Spec.ProviderID = ""
		}, 1, func(p *pools.Pool) []Instance {
			return []Instance{{ID: pools.MachineID(p, "a-1"), State: Creating}}
		}},
		{"a Machine with a node is reported as Running, with exactly the node's provider ID (CA-C43, CA-C44)", func(p *pools.Pool) {
			_, n := p.Node("a-1")
			n.Spec.ProviderID = "openstack://RegionOne/" + pools.ServerOf("a-1")
		}, 1, func(*pools.Pool) []Instance {
			return []Instance{{ID: "openstack://RegionOne/" + pools.ServerOf("a-1"), State: Running}}
		}},
		{"a Machine's error is not reported when the Machine has a node (CA-C44, CA-C50)", func(p *pools.Pool) {
			p.Node("a-1", pools.Failed(fault.CodeQuotaExceeded, "no more cores"))
		}, 1, func(*pools.Pool) []Instance {
			return []Instance{{ID: pools.ProviderID("a-1"), State: Running}}
		}},
		{"a Machine's quota error is reported at once, as out of resources (CA-C46, CA-C48)", func(p *pools.Pool) {
			p.Machine("a-1", pools.Failed(fault.CodeQuotaExceeded, "no more cores"))
		}, 1, func(p *pools.Pool) []Instance {
			return []Instance{{ID: pools.MachineID(p, "a-1"), State: Creating, Error: quota}}
		}},
		{"a Machine's error about an unknown flavor is reported at once, but not as out of resources (CA-C46)", func(p *pools.Pool) {
			p.Machine("a-1", pools.Failed(fault.CodeFlavorNotFound, "no flavor x"))
		}, 1, func(p *pools.Pool) []Instance {
			return []Instance{{ID: pools.MachineID(p, "a-1"), State: Creating, Error: &InstanceError{Code: "FlavorNotFound", Message: "no flavor x"}}}
		}},
		{"a transient cloud error is not reported while the Machine is younger than five minutes (CA-C47)", func(p *pools.Pool) {
			p.Machine("a-1", pools.Failed(fault.CodeCloudUnavailable, "503"), func(m *v1alpha1.Machine) {
				m.CreationTimestamp = metav1.NewTime(pools.Noon.Add(-4 * time.Minute))
			})
		}, 1, func(p *pools.Pool) []Instance {
			return []Instance{{ID: pools.MachineID(p, "a-1"), State: Creating}}
		}},
		{"a transient cloud error is reported once the Machine is five minutes old (CA-C47)", func(p *pools.Pool) {
			p.Machine("a-1", pools.Failed(fault.CodeCloudUnavailable, "503"), func(m *v1alpha1.Machine) {
				m.CreationTimestamp = metav1.NewTime(pools.Noon.Add(-5 * time.Minute))
			})
		}, 1, func(p *pools.Pool) []Instance {
			return []Instance{{ID: pools.MachineID(p, "a-1"), State: Creating, Error: &InstanceError{Code: "CloudUnavailable", Message: "503"}}}
		}},
		{"a Machine that waits for initializers is reported as Creating while it is younger than five minutes (F-92)", func(p *pools.Pool) {
			p.Machine("a-1", annotated(v1alpha1.AnnotationInitializers, "x"), func(m *v1alpha1.Machine) {
				m.CreationTimestamp = metav1.NewTime(pools.Noon.Add(-4 * time.Minute))
			})
		}, 1, func(p *pools.Pool) []Instance {
			return []Instance{{ID: pools.MachineID(p, "a-1"), State: Creating}}
		}},
		{"a Machine that has waited for initializers for five minutes is reported with an error (F-92)", func(p *pools.Pool) {
			p.Machine("a-1", annotated(v1alpha1.AnnotationInitializers, "x"))
		}, 1, func(p *pools.Pool) []Instance {
			return []Instance{{ID: pools.MachineID(p, "a-1"), State: Creating, Error: &InstanceError{
				Code: "WaitingForInitializers", Message: "the annotation machine-controller.kubermatic.io/initializers keeps the Machine without a server",
			}}}
		}},
		{"a Machine that has been paused without a server for five minutes is reported with an error (F-92)", func(p *pools.Pool) {
			p.Machine("a-1", annotated(v1alpha1.AnnotationPaused, ""))
		}, 1, func(p *pools.Pool) []Instance {
			return []Instance{{ID: pools.MachineID(p, "a-1"), State: Creating, Error: &InstanceError{
				Code: "Paused", Message: "the Machine is paused by annotation and has no server",
			}}}
		}},
		{"a paused Machine with a server is reported as Creating until its node registers", func(p *pools.Pool) {
			p.Machine("a-1", annotated(v1alpha1.AnnotationPaused, ""), pools.WithServer)
		}, 1, func(p *pools.Pool) []Instance {
			return []Instance{{ID: pools.MachineID(p, "a-1"), State: Creating}}
		}},
		{"an error because of the cloud's rate limit is never reported (CA-C47)", func(p *pools.Pool) { p.Machine("a-1", pools.Failed(fault.CodeRateLimited, "429")) }, 1, func(p *pools.Pool) []Instance {
			return []Instance{{ID: pools.MachineID(p, "a-1"), State: Creating}}
		}},
		{"a Machine that is being deleted is reported as Deleting, and its replacement as a placeholder (CA-C37, CA-C51)", func(p *pools.Pool) { p.Node("a-1", pools.Deleting) }, 1, func(p *pools.Pool) []Instance {
			return []Instance{{ID: pools.ProviderID("a-1"), State: Deleting}, {ID: pools.UnitID(p, 0, 0), State: Creating}}
		}},
		{"a Machine that is listed in spec.removals is reported as Deleting, without its error (CA-C50)", func(p *pools.Pool) {
			p.Remove(p.Machine("a-1", pools.Failed(fault.CodeQuotaExceeded, "no more cores")))
		}, 0, func(p *pools.Pool) []Instance {
			return []Instance{{ID: pools.MachineID(p, "a-1"), State: Deleting}}
		}},
		{"a Machine is not reported as Deleting when spec.removals has its name with an earlier Machine's UID", func(p *pools.Pool) {
			m := p.Machine("a-1")
			p.Remove(&v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Name: m.Name, UID: "earlier"}})
		}, 1, func(p *pools.Pool) []Instance {
			return []Instance{{ID: pools.MachineID(p, "a-1"), State: Creating}}
		}},
		{"a Machine whose node is gone is reported as Creating, with its placeholder's ID (CA-C52)", func(p *pools.Pool) {
			p.Node("a-1")
			p.World.Nodes = nil
		}, 1, func(p *pools.Pool) []Instance {
			return []Instance{{ID: pools.MachineID(p, "a-1"), State: Creating}}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := pools.NewWorld()
			p := w.Pool("a", tc.size, 0, 5)
			tc.build(p)
			got := snapshotOf(t, w).Groups[p.ID()].Shown()
			if diff := cmp.Diff(tc.want(p), got); diff != "" {
				t.Errorf("instances (-want +got):\n%s", diff)
			}
		})
	}
}

// annotated returns a change that sets an annotation of a Machine.
func annotated(key, value string) func(*v1alpha1.Machine) {
	return func(m *v1alpha1.Machine) { m.Annotations = map[string]string{key: value} }
}

func TestAFailedMachineThatTheAutoscalerAskedToRemoveShowsNoErrorUntilItFailsAgain(t *testing.T) {
	w := pools.NewWorld()
	p := w.Pool("a", 1, 1, 5)
	m := p.Machine("a-1", pools.Failed(fault.CodeQuotaExceeded, "no more cores"))
	s := snapshotOf(t, w)
	s = s.WithSeen(s.Groups[p.ID()], s.Groups[p.ID()].Members)
	again := m.DeepCopy()
	s = s.Apply([]membership.Event{{Object: again}}, pools.Noon)
	if e := s.Groups[p.ID()].instances[0].Error; e != nil {
		t.Errorf("CA-C69 the autoscaler has acted upon it, and is shown %+v", e)
	}
	again = m.DeepCopy()
	again.Status.LastOperation.LastUpdated = ptr.To(metav1.NewTime(pools.Noon))
	if e := s.Apply([]membership.Event{{Object: again}}, pools.Noon).Groups[p.ID()].instances[0].Error; e == nil {
		t.Error("CA-C69 the next failed attempt is not shown")
	}
}

func TestTheAutoscalerReceivesShortErrorMessages(t *testing.T) {
	t.Run("a Machine's long error message becomes one line of at most 256 bytes (CA-C54)", func(t *testing.T) {
		w := pools.NewWorld()
		p := w.Pool("a", 1, 1, 5)
		p.Machine("a-1", pools.Failed(fault.CodeNoValidHost, "first line\nsecond\t"+strings.Repeat("ü", 400)))
		message := snapshotOf(t, w).Groups[p.ID()].instances[0].Error.Message
		if len(message) > 256 || strings.ContainsAny(message, "\n\t") {
			t.Errorf("CA-C54 the message has %d bytes: %q", len(message), message)
		}
	})
}

func TestTheInstancesOfALargeGroupFitIntoOneResponse(t *testing.T) {
	t.Run("the instances of 30,000 failed Machines fit into a response of 4 MiB (CA-C55, CA-C08)", func(t *testing.T) {
		const machines, limit = 30_000, 4 << 20
		w := pools.NewWorld()
		p := w.Pool("general-purpose", machines, 0, machines)
		long := strings.Repeat("x", 400)
		for i := range machines {
			p.Machine(fmt.Sprintf("general-purpose-7d9c6bb8f4-%05d", i), pools.Failed(fault.CodeNoValidHost, long))
		}
		size := 0
		for _, i := range snapshotOf(t, w).Groups[p.ID()].instances {
			// 16 bytes approximate what protobuf adds to an instance: the tags and lengths of the three texts, the state and the error
			// class.
			size += len(i.ID) + len(i.Error.Code) + len(i.Error.Message) + 16
		}
		if size > limit {
			t.Errorf("CA-C55 the answer has about %d bytes, the client takes %d", size, limit)
		}
	})
}

func TestWhatTheTargetSizeOfAGroupIs(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(p *pools.Pool)
		want   int32
	}{
		{"the target size is spec.replicas (CA-C36)", func(*pools.Pool) {}, 3},
		{"the target size does not count Machines that are being deleted (CA-C37)", func(p *pools.Pool) {
			for _, name := range []string{"a-1", "a-2", "a-3"} {
				p.Node(name)
			}
			p.Node("a-4", pools.Deleting)
		}, 3},
		{"without spec.replicas the target size is the last known size", func(p *pools.Pool) {
			p.Deployment.Spec.Replicas, p.Deployment.Status.LastReplicas = nil, ptr.To[int32](4)
		}, 4},
		{"without spec.replicas the target size is the maximum when the last known size is above the maximum", func(p *pools.Pool) {
			p.Deployment.Spec.Replicas, p.Deployment.Status.LastReplicas = nil, ptr.To[int32](40)
		}, 5},
		{"the target size of a new group without spec.replicas is its minimum", func(p *pools.Pool) { p.Deployment.Spec.Replicas = nil }, 2},
		{"the target size is spec.replicas even above the maximum", func(p *pools.Pool) { p.Deployment.Spec.Replicas = ptr.To[int32](9) }, 9},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := pools.NewWorld()
			p := w.Pool("a", 3, 2, 5)
			tc.change(p)
			if got := snapshotOf(t, w).Groups[p.ID()].Target; got != tc.want {
				t.Errorf("the target size is %d, want %d", got, tc.want)
			}
		})
	}
}

func TestReplicasWhoseMachinesTheAPIServerDoesNotCreateShowItsError(t *testing.T) {
	// shown returns the errors of the instances of a group of three replicas without Machines, whose set has failed with a code for a time.
	shown := func(t *testing.T, code fault.Code, minimum int32, ago time.Duration) (errs []*InstanceError, awaited int32) {
		t.Helper()
		w := pools.NewWorld()
		p := w.Pool("a", 3, minimum, 5)
		p.Set.Status.ErrorReason, p.Set.Status.ErrorMessage = ptr.To(string(code)), ptr.To("the API server's text")
		p.Set.Status.Conditions = []metav1.Condition{{
			Type: v1alpha1.ConditionReplicaFailure, Status: metav1.ConditionTrue, Reason: string(code), LastTransitionTime: metav1.NewTime(pools.Noon.Add(-ago)),
		}}
		g := snapshotOf(t, w).Groups[p.ID()]
		for _, i := range g.Shown() {
			errs = append(errs, i.Error)
		}
		return errs, g.Awaited
	}
	for name, tt := range map[string]struct {
		code           fault.Code
		minimum        int32
		ago            time.Duration
		failed         int
		outOfResources bool
	}{
		"an exceeded object quota is shown at once, as out of resources (F-148)":                         {fault.CodeObjectQuotaExceeded, 0, 0, 3, true},
		"the refusal of a webhook is shown at once (F-148)":                                              {fault.CodeMachineRefused, 0, 0, 3, false},
		"replicas below the minimum show no error, because the autoscaler cannot remove them (F-148)":    {fault.CodeMachineRefused, 2, 0, 1, false},
		"a failure that may end on its own is not shown in its first five minutes":                       {fault.CodeCreateError, 0, 4 * time.Minute, 0, false},
		"a failure that may end on its own is shown after five minutes (F-148)":                          {fault.CodeCreateError, 0, 5 * time.Minute, 3, false},
		"the replicas of a set that waits for the servers of its first Machines show no error of theirs": {"WaitingForServers", 0, time.Hour, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			errs, awaited := shown(t, tt.code, tt.minimum, tt.ago)
			want := make([]*InstanceError, 3)
			for i := range tt.failed {
				want[i] = &InstanceError{Code: string(tt.code), Message: "the API server's text", OutOfResources: tt.outOfResources}
			}
			if diff := cmp.Diff(want, errs); diff != "" || int(awaited) != 3-tt.failed {
				t.Errorf("%d replicas are awaited, errors (-want +got):\n%s", awaited, diff)
			}
		})
	}
}
