package adoption

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/machine"
	"github.com/drover-project/drover/machines/machine/lifecycle"
	"github.com/drover-project/drover/machines/rollout"
)

func machineNamed(name string, change ...func(*v1alpha1.Machine)) *v1alpha1.Machine {
	m := &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)}}
	for _, c := range change {
		c(m)
	}
	return m
}

func deleting(m *v1alpha1.Machine) { m.DeletionTimestamp = ptr.To(metav1.Unix(1, 0)) }

func TestOfMachine(t *testing.T) {
	server := &cloud.Server{ID: "s"}
	for name, tt := range map[string]struct {
		machine  *v1alpha1.Machine
		forecast machine.Forecast
		want     Outcome
		says     string
	}{
		"one at rest is kept (CAPI-54)":                             {machineNamed("a"), machine.Forecast{Step: lifecycle.Rest, Reason: lifecycle.ReasonJoined, Server: server}, Kept, ""},
		"one without a server gets one (CAPI-54)":                   {machineNamed("a"), machine.Forecast{Step: lifecycle.MakeUserData, Reason: lifecycle.ReasonCreating}, Made, "no server"},
		"one whose server has no Node waits (CAPI-54)":              {machineNamed("a"), machine.Forecast{Step: lifecycle.AwaitNode, Reason: lifecycle.ReasonWaitingForNode, Server: server}, Waits, "no Node"},
		"one that is late is replaced (MC-57)":                      {machineNamed("a"), machine.Forecast{Step: lifecycle.GiveUp, Reason: lifecycle.ReasonJoinTimeout, Server: server}, Deleted, "join timeout"},
		"one whose server is gone is replaced (MC-66)":              {machineNamed("a"), machine.Forecast{Step: lifecycle.LoseServer, Reason: lifecycle.ReasonServerGone}, Deleted, "gone"},
		"one whose server failed gets another (MC-49)":              {machineNamed("a"), machine.Forecast{Step: lifecycle.ReplaceServer, Reason: lifecycle.ReasonServerError, Detail: "No valid host", Server: server}, Deleted, "No valid host"},
		"one that is being deleted goes on (CAPI-37)":               {machineNamed("a", deleting), machine.Forecast{Step: lifecycle.DrainNode, Reason: lifecycle.ReasonDraining}, Deleted, "already"},
		"a paused one is left, also while it is deleted (CAPI-54)":  {machineNamed("a", deleting), machine.Forecast{Step: lifecycle.Rest, Reason: lifecycle.ReasonPaused}, Left, "paused"},
		"one whose server is another's is left, with why (F-1)":     {machineNamed("a"), machine.Forecast{Step: lifecycle.Wait, Reason: lifecycle.ReasonForeign, Detail: "server s belongs to x"}, Left, "server s belongs to x"},
		"one of another controller is left (MC-79)":                 {machineNamed("a"), machine.Forecast{Step: lifecycle.Rest, Reason: lifecycle.ReasonOtherController}, Left, "another program"},
		"one with a spec that cannot be read is refused (F-37)":     {machineNamed("a"), machine.Forecast{Step: lifecycle.Fail, Reason: "InvalidSpec", Detail: "flavr: unknown field"}, Refused, "flavr"},
		"a step that no row has is left, and named, never silently": {machineNamed("a"), machine.Forecast{Step: "Unheard", Reason: "Of"}, Left, "Unheard"},
	} {
		t.Run(name, func(t *testing.T) {
			if e := OfMachine(tt.machine, tt.forecast); e.Outcome != tt.want || !strings.Contains(e.Why, tt.says) {
				t.Errorf("got %+v, want %s and %q", e, tt.want, tt.says)
			}
		})
	}
}

// group is a deployment with a set of a number of Machines.
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

func TestOfDeployment(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*v1alpha1.MachineDeployment, *rollout.SetState)
		want   Outcome
		says   string
	}{
		"one whose set has its template and size is kept (MC-19)": {func(*v1alpha1.MachineDeployment, *rollout.SetState) {}, Kept, ""},
		"one that lost the order of its keys is kept (MC-19)": {func(d *v1alpha1.MachineDeployment, _ *rollout.SetState) {
			d.Spec.Template.Spec.ProviderSpec.Value.Raw = []byte(`{"cloudProviderSpec":{"flavor":"m1.small","region":""},"cloudProvider":"openstack"}`)
		}, Kept, ""},
		"one with another flavor rolls, and the field is named (MC-18)": {func(d *v1alpha1.MachineDeployment, _ *rollout.SetState) {
			d.Spec.Template.Spec.ProviderSpec.Value.Raw = []byte(`{"cloudProvider":"openstack","cloudProviderSpec":{"flavor":"m1.large"}}`)
		}, Rolled, "flavor: m1.small → m1.large"},
		"one with a size that its set does not have grows (MC-32)": {func(d *v1alpha1.MachineDeployment, _ *rollout.SetState) { d.Spec.Replicas = ptr.To[int32](5) }, Made, "from 2 to 5"},
		"one with a smaller size shrinks (MC-29)":                  {func(d *v1alpha1.MachineDeployment, _ *rollout.SetState) { d.Spec.Replicas = ptr.To[int32](1) }, Deleted, "from 2 to 1"},
		"one that cannot be followed is refused (MC-2)": {func(d *v1alpha1.MachineDeployment, _ *rollout.SetState) {
			d.Spec.Selector.MatchLabels = map[string]string{"x": "y"}
		}, Refused, "selector"},
		"a paused one is left (CAPI-54)": {func(d *v1alpha1.MachineDeployment, _ *rollout.SetState) {
			d.Annotations = map[string]string{"cluster.k8s.io/paused": "true"}
		}, Left, "paused"},
		"one without Machines gets its first set (MC-32)": {func(d *v1alpha1.MachineDeployment, s *rollout.SetState) {
			s.Machines = nil
			d.Spec.Template.Spec.Versions.Kubelet = "1.37.2"
		}, Made, "first set"},
		"one that is being deleted is reported (MC-31)": {func(d *v1alpha1.MachineDeployment, _ *rollout.SetState) {
			d.DeletionTimestamp = ptr.To(metav1.Unix(1, 0))
		}, Deleted, "already"},
	} {
		t.Run(name, func(t *testing.T) {
			if e := OfDeployment(group(tt.change)); e.Outcome != tt.want || !strings.Contains(e.Why, tt.says) {
				t.Errorf("got %+v, want %s and %q", e, tt.want, tt.says)
			}
		})
	}
}

func TestOfSet(t *testing.T) {
	for name, tt := range map[string]struct {
		replicas int32
		want     Outcome
		says     string
	}{
		"one with as many Machines as it should have is kept (MC-33)": {2, Kept, ""},
		"one that lacks Machines gets them (MC-32)":                   {3, Made, "lacks 1"},
		"one with too many loses some, by name (MC-35)":               {1, Deleted, "m"},
	} {
		t.Run(name, func(t *testing.T) {
			state := group().Sets[0]
			state.Set.Spec.Replicas = &tt.replicas
			if e := OfSet(state.Set, state.Machines, time.Unix(1000, 0)); e.Outcome != tt.want || !strings.Contains(e.Why, tt.says) {
				t.Errorf("got %+v, want %s and %q", e, tt.want, tt.says)
			}
		})
	}
}

func TestReport(t *testing.T) {
	r := Report{
		Entries: []Entry{
			{Kind: "Machine", Namespace: "ns", Name: "kept", Outcome: Kept, Node: "n"},
			{Kind: "Machine", Namespace: "ns", Name: "rolled", Outcome: Rolled, Why: "a template"},
		},
		Findings: []Finding{{Subject: "webhook", Message: "it is dead", Remedy: "kubectl delete it"}},
	}
	r.Sort()
	var text, all, document strings.Builder
	if err := r.WriteText(&text, false); err != nil {
		t.Fatal(err)
	}
	if err := r.WriteText(&all, true); err != nil {
		t.Fatal(err)
	}
	if err := r.WriteJSON(&document); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(text.String(), "ns/kept") || !strings.Contains(all.String(), "ns/kept") || !strings.Contains(text.String(), "Machines: 1 rolled, 1 kept") ||
		!strings.Contains(text.String(), "kubectl delete it") || !strings.Contains(text.String(), "would be rolled or deleted: see above") {
		t.Errorf("the text is\n%s\nand all of it\n%s", text.String(), all.String())
	}
	if !strings.Contains(document.String(), `"disruptive": true`) || !r.Disruptive() {
		t.Errorf("the document is %s", document.String())
	}
	r.Entries = r.Entries[1:]
	if r.Disruptive() {
		t.Error("a Machine that is kept is no disruption")
	}
}
