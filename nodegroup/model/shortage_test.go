package model

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/test/pools"
)

func TestWhenTheAutoscalerSeesTheErrorOfAFailedServer(t *testing.T) {
	for name, tc := range map[string]struct {
		failures int32
		code     string
	}{
		"the error of the first failed server is not shown, because the next server may work (F-50)":               {1, ""},
		"the error of the second failed server in a row is shown at once, on all Machines without a server (F-50)": {2, "Unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			w := pools.NewWorld()
			p := w.Pool("a", 2, 0, 5)
			p.Machine("a-1")
			p.Machine("a-2")
			p.Deployment.Status.Backoffs = []v1alpha1.GroupBackoff{{
				Class: string(fault.Unknown), Code: string(fault.CodeUnknown), Message: "server 1 went to ERROR: disk on fire",
				Step: tc.failures, Until: metav1.NewTime(pools.Noon.Add(fault.GroupWait(fault.Unknown, fault.CodeUnknown, tc.failures))),
			}}
			for _, i := range snapshotOf(t, w).Groups[p.ID()].instances {
				code := ""
				if i.Error != nil {
					code = i.Error.Code
				}
				if code != tc.code || i.Error != nil && i.Error.OutOfResources {
					t.Errorf("%s shows %+v, want %q", i.ID, i.Error, tc.code)
				}
			}
		})
	}
}

func TestHowLongTheAutoscalerSeesTheErrorOfAGroupsBackOff(t *testing.T) {
	short := func(d *v1alpha1.MachineDeployment, flavor string, until time.Duration) {
		d.Status.Backoffs = []v1alpha1.GroupBackoff{{
			Class: string(fault.Quota), Code: string(fault.CodeQuotaExceeded), Message: "no cores left", Flavor: flavor,
			Until: metav1.NewTime(pools.Noon.Add(until)), Step: 2,
		}}
	}
	w := pools.NewWorld()
	p := w.Pool("a", 4, 1, 5)
	p.Node("a-1")
	p.Machine("a-2")
	p.Machine("a-3", pools.WithServer)
	spec := p.Machine("a-4")
	spec.Spec.ProviderSpec.Value = pools.RawSpec(`{"cloudProviderSpec":{"Flavor":"other"}}`)
	short(p.Deployment, "m1", time.Minute)
	shown := func(s *Snapshot) string {
		var names string
		for _, i := range s.Groups[p.ID()].instances {
			if i.Error != nil {
				if i.Error.Code != string(fault.CodeQuotaExceeded) || !i.Error.OutOfResources || i.Error.Message != "no cores left" {
					t.Errorf("the error is %+v", i.Error)
				}
				names += i.ID + " "
			}
		}
		return names
	}
	s := snapshotOf(t, w)
	if got := shown(s); got != pools.MachineID(p, "a-2")+" " {
		t.Errorf("CA-C46 CA-C48 the error is shown for %q", got)
	}
	t.Run("the error is still shown an hour after the end of the back-off when no new attempt was made (CA-C49)", func(t *testing.T) {
		for _, later := range []time.Duration{59 * time.Second, time.Minute, time.Hour} {
			if got := shown(s.Apply(nil, pools.Noon.Add(later))); got != pools.MachineID(p, "a-2")+" " {
				t.Errorf("CA-C49 after %s it is shown for %q", later, got)
			}
		}
	})
	t.Run("the error is not shown for a Machine that is created at the end of the back-off", func(t *testing.T) {
		p.Machine("a-5", func(m *v1alpha1.Machine) { m.CreationTimestamp = metav1.NewTime(pools.Noon.Add(time.Minute)) })
		p.Deployment.Spec.Replicas = ptr.To[int32](5)
		if got := shown(snapshotOf(t, w).Apply(nil, pools.Noon.Add(time.Minute))); got != pools.MachineID(p, "a-2")+" " {
			t.Errorf("the error is shown for %q", got)
		}
	})
	t.Run("the error is no longer shown once the back-off is removed from the deployment's status (CA-C49)", func(t *testing.T) {
		p.Deployment.Status.Backoffs = nil
		if got := shown(snapshotOf(t, w)); got != "" {
			t.Errorf("it is shown still for %q", got)
		}
	})
	t.Run("when a group has two back-offs, only the error of the one that ends last is shown", func(t *testing.T) {
		short(p.Deployment, "m1", time.Minute)
		p.Deployment.Status.Backoffs = append([]v1alpha1.GroupBackoff{{
			Class: string(fault.NoCapacity), Code: string(fault.CodeNoValidHost), Message: "over", Flavor: "m1", Until: metav1.NewTime(pools.Noon), Step: 1,
		}}, p.Deployment.Status.Backoffs...)
		if got := shown(snapshotOf(t, w)); got != pools.MachineID(p, "a-2")+" " {
			t.Errorf("the error is shown for %q", got)
		}
	})
}

func TestTheErrorOfAGroupsBackOffNamesTheMachineThatReportedIt(t *testing.T) {
	w := pools.NewWorld()
	p := w.Pool("a", 2, 0, 5)
	p.Machine("a-1")
	p.Machine("a-2")
	p.Deployment.Status.Backoffs = []v1alpha1.GroupBackoff{{
		Class: string(fault.Quota), Code: string(fault.CodeQuotaExceeded), Machine: "a-1", Message: "creating server a-1: no cores left",
		Until: metav1.NewTime(pools.Noon.Add(time.Minute)), Step: 1,
	}}
	for _, gone := range []bool{false, true} {
		name := "the group's other Machines show the error with the name of the Machine that reported it (F-27)"
		if gone {
			name = "all Machines show the error with the name of its reporter when the reporter is gone (F-27)"
			p.Deployment.Status.Backoffs[0].Machine = "a-0"
		}
		t.Run(name, func(t *testing.T) {
			reporter := p.Deployment.Status.Backoffs[0].Machine
			for _, i := range snapshotOf(t, w).Groups[p.ID()].instances {
				want := "Machine " + reporter + " of the same group reported: creating server a-1: no cores left"
				if i.ID == pools.MachineID(p, reporter) {
					want = "creating server a-1: no cores left"
				}
				if i.Error == nil || i.Error.Message != want {
					t.Errorf("%s shows %+v, want %q", i.ID, i.Error, want)
				}
			}
		})
	}
}
