package rollout

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

var birth = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// fact returns an available Machine with a Ready Node, altered by change. age is the Machine's age in hours.
func fact(name string, age int, change ...func(*MachineFacts)) MachineFacts {
	f := MachineFacts{NodeReady: true, NodeRegistered: true, Available: true, Machine: &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{
		Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(birth.Add(-time.Duration(age) * time.Hour)),
	}}}
	for _, c := range change {
		c(&f)
	}
	return f
}

func annotated(key, value string) func(*MachineFacts) {
	return func(f *MachineFacts) { f.Machine.Annotations = map[string]string{key: value} }
}

func marked(f *MachineFacts)   { annotated(v1alpha1.AnnotationDeleteMachine, "yes")(f) }
func noNode(f *MachineFacts)   { f.NodeReady, f.NodeRegistered, f.Available = false, false, false }
func notReady(f *MachineFacts) { f.NodeReady, f.Available = false, false }
func young(f *MachineFacts)    { f.Available = false }
func noBirth(f *MachineFacts)  { f.Machine.CreationTimestamp = metav1.Time{} }
func failed(f *MachineFacts)   { reason := "Quota"; f.Machine.Status.ErrorReason = &reason }
func withServer(f *MachineFacts) {
	id := "openstack:///x"
	f.Machine.Spec.ProviderID = &id
}
func dying(f *MachineFacts) {
	at := metav1.NewTime(birth)
	f.Machine.DeletionTimestamp = &at
}
func priority(p string) func(*MachineFacts) { return annotated(v1alpha1.AnnotationPriority, p) }

func namesOf(machines []*v1alpha1.Machine) []string {
	var names []string
	for _, m := range machines {
		names = append(names, m.Name)
	}
	return names
}

func TestDeletionOrderOfMachines(t *testing.T) {
	tests := map[string]struct {
		machines []MachineFacts
		policy   v1alpha1.DeletePolicy
		removals []v1alpha1.Removal
		want     []string
	}{
		"puts Machines in the order: in spec.removals, annotated for deletion, low priority, no Node, NotReady, others (MC-36, MCM-26, MCM-28)": {
			[]MachineFacts{fact("healthy", 1), fact("notready", 1, notReady), fact("nonode", 1, noNode), fact("low", 1, priority("1")), fact("marked", 1, marked), fact("listed", 1)},
			"", []v1alpha1.Removal{{Name: "listed", UID: "listed"}},
			[]string{"listed", "marked", "low", "nonode", "notready", "healthy"}},
		"puts a Ready, not yet available Machine after NotReady and before available ones, even under the policy Oldest (MC-35, MC-36, F-32)": {
			[]MachineFacts{fact("oldest", 9), fact("young", 1, young), fact("notready", 2, notReady)}, v1alpha1.DeleteOldest, nil,
			[]string{"notready", "young", "oldest"}},
		"puts a failed Machine with a Node after those without a Node and before working ones (MC-36)":                   {[]MachineFacts{fact("a", 1), fact("b", 1, failed), fact("c", 1, noNode)}, "", nil, []string{"c", "b", "a"}},
		"orders otherwise equal Machines by name under the policy Random (MC-36)":                                        {[]MachineFacts{fact("c", 1), fact("a", 9), fact("b", 5)}, v1alpha1.DeleteRandom, nil, []string{"a", "b", "c"}},
		"puts the newest Machine first under the delete policy Newest (MC-35)":                                           {[]MachineFacts{fact("old", 9), fact("new", 1)}, v1alpha1.DeleteNewest, nil, []string{"new", "old"}},
		"puts the oldest Machine first under the delete policy Oldest (MC-35)":                                           {[]MachineFacts{fact("new", 1), fact("old", 9)}, v1alpha1.DeleteOldest, nil, []string{"old", "new"}},
		"puts the newest Machine first under the delete policy Default (MC-35)":                                          {[]MachineFacts{fact("old", 9), fact("new", 1)}, v1alpha1.DeleteDefault, nil, []string{"new", "old"}},
		"puts a Machine without a creation time last under the delete policy Oldest (MC-35)":                             {[]MachineFacts{fact("none", 0, noBirth), fact("old", 9)}, v1alpha1.DeleteOldest, nil, []string{"old", "none"}},
		"puts a Machine without a creation time first under the delete policy Newest (MC-35)":                            {[]MachineFacts{fact("old", 9), fact("none", 0, noBirth)}, v1alpha1.DeleteNewest, nil, []string{"none", "old"}},
		"puts a Machine with the delete-machine annotation before a 400-day-old Machine under the policy Oldest (MC-36)": {[]MachineFacts{fact("ancient", 400*24), fact("marked", 1, marked)}, v1alpha1.DeleteOldest, nil, []string{"marked", "ancient"}},
		"treats a priority annotation that is not a number as the default priority 3 (MCM-27)":                           {[]MachineFacts{fact("b", 1), fact("a", 1, priority("high")), fact("c", 1, priority("4")), fact("d", 1, priority("2"))}, "", nil, []string{"d", "a", "b", "c"}},
		"counts an empty delete-machine annotation (F-163)":                                                              {[]MachineFacts{fact("b", 1, annotated(v1alpha1.AnnotationDeleteMachine, "")), fact("a", 1)}, "", nil, []string{"b", "a"}},
		"counts Cluster API's delete-machine annotation, also when it is empty (F-163)":                                  {[]MachineFacts{fact("b", 1, annotated(v1alpha1.AnnotationDeleteMachineCAPI, "")), fact("a", 1)}, "", nil, []string{"b", "a"}},
		"leaves out Machines that are being deleted":                                                                     {[]MachineFacts{fact("a", 1, dying), fact("b", 1)}, "", nil, []string{"b"}},
		"ignores a removal that has a Machine's name but another UID":                                                    {[]MachineFacts{fact("b", 1), fact("a", 1)}, "", []v1alpha1.Removal{{Name: "b", UID: "former"}}, []string{"a", "b"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := namesOf(DeletionOrder(tt.machines, tt.policy, tt.removals)); !slices.Equal(got, tt.want) {
				t.Errorf("DeletionOrder() = %v, want %v", got, tt.want)
			}
		})
	}
}

func TestCheckDeletePolicyRefusesUnknownPolicies_MC38(t *testing.T) {
	if err := CheckDeletePolicy("Sometimes"); err == nil {
		t.Error("CheckDeletePolicy() of an unknown policy = nil, want an error")
	}
}
