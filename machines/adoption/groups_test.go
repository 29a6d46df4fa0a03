package adoption

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/machine"
	"github.com/drover-project/drover/machines/machine/lifecycle"
	"github.com/drover-project/drover/machines/rollout"
)

// group returns a deployment with one set of two Machines.
func group(change ...func(*v1alpha1.MachineDeployment, *rollout.SetState)) rollout.Snapshot {
	labels := map[string]string{"a": "b"}
	template := v1alpha1.MachineTemplateSpec{Metadata: v1alpha1.EmbeddedMetadata{Labels: labels}}
	template.Spec.Versions.Kubelet = "1.37.1"
	template.Spec.ProviderSpec.Value = &runtime.RawExtension{Raw: []byte(`{"cloudProvider":"openstack","cloudProviderSpec":{"flavor":"m1.small"}}`)}
	d := &v1alpha1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "d", UID: "d"}}
	d.Spec.Replicas, d.Spec.Selector.MatchLabels, d.Spec.Template = ptr.To[int32](2), labels, template
	s := &v1alpha1.MachineSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "d-1", UID: "s", Annotations: map[string]string{v1alpha1.AnnotationRevision: "1"}}}
	s.Spec.Replicas, s.Spec.Selector.MatchLabels, s.Spec.Template = ptr.To[int32](2), labels, *template.DeepCopy()
	state := rollout.SetState{Set: s, Machines: []*v1alpha1.Machine{machineNamed("m1"), machineNamed("m2")}}
	for _, c := range change {
		c(d, &state)
	}
	return rollout.Snapshot{Deployment: d, Sets: []rollout.SetState{state}, Now: time.Unix(1000, 0)}
}

func TestTheAdoptionReportPredictsWhatDroverDoesToADeployment(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*v1alpha1.MachineDeployment, *rollout.SetState)
		want   Outcome
		says   string
	}{
		"drover keeps a deployment whose set has the deployment's template and size (MC-19)": {func(*v1alpha1.MachineDeployment, *rollout.SetState) {}, Kept, ""},
		"drover keeps a deployment whose set has the same provider spec with the JSON keys in another order (MC-19)": {func(d *v1alpha1.MachineDeployment, _ *rollout.SetState) {
			d.Spec.Template.Spec.ProviderSpec.Value.Raw = []byte(`{"cloudProviderSpec":{"flavor":"m1.small","region":""},"cloudProvider":"openstack"}`)
		}, Kept, ""},
		"drover replaces a deployment's Machines when its set has another flavor, and the report names both flavors (MC-18)": {func(d *v1alpha1.MachineDeployment, _ *rollout.SetState) {
			d.Spec.Template.Spec.ProviderSpec.Value.Raw = []byte(`{"cloudProvider":"openstack","cloudProviderSpec":{"flavor":"m1.large"}}`)
		}, Rolled, "flavor: m1.small → m1.large"},
		"drover creates Machines when the deployment is larger than its set (MC-32)":  {func(d *v1alpha1.MachineDeployment, _ *rollout.SetState) { d.Spec.Replicas = ptr.To[int32](5) }, Made, "from 2 to 5"},
		"drover deletes Machines when the deployment is smaller than its set (MC-29)": {func(d *v1alpha1.MachineDeployment, _ *rollout.SetState) { d.Spec.Replicas = ptr.To[int32](1) }, Deleted, "from 2 to 1"},
		"drover refuses a deployment whose selector does not match its template (MC-2)": {func(d *v1alpha1.MachineDeployment, _ *rollout.SetState) {
			d.Spec.Selector.MatchLabels = map[string]string{"x": "y"}
		}, Refused, "selector"},
		"drover leaves a paused deployment alone (CAPI-54)": {func(d *v1alpha1.MachineDeployment, _ *rollout.SetState) {
			d.Annotations = map[string]string{"cluster.k8s.io/paused": "true"}
		}, Left, "paused"},
		"drover creates a set when a deployment without Machines has a new template (MC-32)": {func(d *v1alpha1.MachineDeployment, s *rollout.SetState) {
			s.Machines = nil
			d.Spec.Template.Spec.Versions.Kubelet = "1.37.2"
		}, Made, "first set"},
		"drover continues the deletion of a deployment that is being deleted (MC-31)": {func(d *v1alpha1.MachineDeployment, _ *rollout.SetState) {
			d.DeletionTimestamp = ptr.To(metav1.Unix(1, 0))
		}, Deleted, "already"},
	} {
		t.Run(name, func(t *testing.T) {
			if e := OfDeployment(group(tt.change)); e.Outcome != tt.want || !strings.Contains(e.Why, tt.says) {
				t.Errorf("OfDeployment() = %+v, want outcome %s and a reason with %q", e, tt.want, tt.says)
			}
		})
	}
}

func TestTheAdoptionReportPredictsWhatDroverDoesToASet(t *testing.T) {
	for name, tt := range map[string]struct {
		replicas int32
		want     Outcome
		says     string
	}{
		"drover keeps a set with the right number of Machines (MC-33)":                                          {2, Kept, ""},
		"drover creates Machines when a set has fewer Machines than its size (MC-32)":                           {3, Made, "lacks 1"},
		"drover deletes Machines when a set has more Machines than its size, and the report names them (MC-35)": {1, Deleted, "m"},
	} {
		t.Run(name, func(t *testing.T) {
			state := group().Sets[0]
			state.Set.Spec.Replicas = &tt.replicas
			if e := OfSet(state.Set, state.Machines, time.Unix(1000, 0)); e.Outcome != tt.want || !strings.Contains(e.Why, tt.says) {
				t.Errorf("OfSet() = %+v, want outcome %s and a reason with %q", e, tt.want, tt.says)
			}
		})
	}
}

func TestTheAdoptionReportPredictsWhetherTheNextMachineOfAGroupGetsAServer(t *testing.T) {
	made := machine.Forecast{Step: lifecycle.MakeUserData}
	for name, tt := range map[string]struct {
		before Outcome
		next   machine.Forecast
		names  error
		want   Outcome
		says   string
	}{
		"drover keeps a group whose next Machine would get a server (F-102)":                                  {Kept, made, nil, Kept, ""},
		"drover keeps a group whose next Machine would wait for its user data (F-102)":                        {Kept, machine.Forecast{Step: lifecycle.Wait, Detail: "Secret s does not exist"}, nil, Kept, ""},
		"a group is refused when its next Machine would be refused, and the report states the reason (F-102)": {Kept, machine.Forecast{Step: lifecycle.Fail, Detail: "kubelet 1.33.4"}, nil, Refused, "kubelet 1.33.4"},
		"a group that lacks Machines is refused when they would be refused (F-102)":                           {Made, machine.Forecast{Step: lifecycle.Fail, Detail: "kubelet 1.33.4"}, nil, Refused, "kubelet 1.33.4"},
		"a group is refused when the cloud lacks a name in its template (F-102)":                              {Kept, made, fault.New(fault.Invalid, fault.CodeFlavorNotFound, "no flavor x"), Refused, "no flavor x"},
		"a group is not refused because the cloud does not answer (F-102)":                                    {Kept, made, fault.New(fault.Transient, fault.CodeUnknown, "503"), Kept, ""},
		"a group that is rolled stays so, and the report adds the reason (F-102)":                             {Rolled, machine.Forecast{Step: lifecycle.Fail, Detail: "kubelet 1.33.4"}, nil, Rolled, "a template; a new Machine would get no server: kubelet 1.33.4"},
	} {
		t.Run(name, func(t *testing.T) {
			e := Entry{Outcome: tt.before}
			if tt.before == Rolled {
				e.Why = "a template"
			}
			if answered := e.AddNext(tt.next, tt.names); answered == fault.Is(tt.names, fault.Transient) {
				t.Errorf("AddNext() = %t with the error %v", answered, tt.names)
			}
			if e.Outcome != tt.want || !strings.Contains(e.Why, tt.says) || (e.Why == "") != (tt.says == "") {
				t.Errorf("AddNext() changes the entry to %+v, want outcome %s and a reason with %q", e, tt.want, tt.says)
			}
		})
	}
}

func TestTheAdoptionReportNamesFieldsWithoutEffect(t *testing.T) {
	warned := func(t *testing.T, e Entry, want ...string) {
		t.Helper()
		if !slices.Equal(e.Warnings, want) {
			t.Errorf("warnings: %q, want %q", e.Warnings, want)
		}
		var text strings.Builder
		if err := (&Report{Entries: []Entry{e}}).WriteText(&text, false); err != nil {
			t.Fatal(err)
		}
		for _, part := range want {
			if line := "WARNING " + e.Kind + " ns/" + e.Name + ": " + part; !strings.Contains(text.String(), line) {
				t.Errorf("the text lacks the line %q:\n%s", line, text.String())
			}
		}
	}
	t.Run("an unknown field, a former field and a name in the template of a deployment (F-115, F-117)", func(t *testing.T) {
		g := group(func(d *v1alpha1.MachineDeployment, _ *rollout.SetState) {
			d.Spec.Unknown, d.Spec.Template.Spec.Unknown = []string{"note"}, []string{"roles"}
			d.Spec.Template.Spec.Metadata.Name = "one"
		})
		e := OfDeployment(g)
		if e.Outcome != Kept {
			t.Errorf("outcome %s: %s", e.Outcome, e.Why)
		}
		warned(t, e, "spec.note: unknown field, which has no effect; remove it", "spec.template.spec.roles: has no effect any more; it may be removed",
			"spec.template.spec.metadata.name: has no effect, because each Machine has a name of its own; it may be removed")
	})
	t.Run("finalizers of machine-controller and of another program on a Machine (F-134)", func(t *testing.T) {
		m := machineNamed("a")
		m.Namespace, m.Finalizers = "ns", []string{v1alpha1.FinalizerServer, "kubermatic.io/red-hat-subscription", "example.com/inventory"}
		warned(t, OfMachine(m, machine.Forecast{Step: lifecycle.Rest, Reason: lifecycle.ReasonJoined}),
			"metadata.finalizers: kubermatic.io/red-hat-subscription is removed when the Machine has been deleted; what it stands for must be ended by hand",
			"metadata.finalizers: example.com/inventory keeps the deleted Machine until another program removes it")
	})
}
