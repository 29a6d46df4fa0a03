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

// fact is a Machine with a Ready node, age hours old.
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

func TestDeletionOrder(t *testing.T) {
	tests := map[string]struct {
		machines []MachineFacts
		policy   v1alpha1.DeletePolicy
		removals []v1alpha1.Removal
		want     []string
	}{
		"MC-36 MCM-26 MCM-28 listed, marked, priority, no node, NotReady, the rest": {
			[]MachineFacts{fact("healthy", 1), fact("notready", 1, notReady), fact("nonode", 1, noNode), fact("low", 1, priority("1")), fact("marked", 1, marked), fact("listed", 1)},
			"", []v1alpha1.Removal{{Name: "listed", UID: "listed"}},
			[]string{"listed", "marked", "low", "nonode", "notready", "healthy"}},
		"MC-35 MC-36 Ready but not yet available goes before the policy is asked, and after NotReady (F-32)": {
			[]MachineFacts{fact("oldest", 9), fact("young", 1, young), fact("notready", 2, notReady)}, v1alpha1.DeleteOldest, nil,
			[]string{"notready", "young", "oldest"}},
		"MC-36 failed ranks with no node":                     {[]MachineFacts{fact("a", 1), fact("b", 1, failed), fact("c", 1, noNode)}, "", nil, []string{"c", "b", "a"}},
		"MC-36 ties go by name":                               {[]MachineFacts{fact("c", 1), fact("a", 9), fact("b", 5)}, v1alpha1.DeleteRandom, nil, []string{"a", "b", "c"}},
		"MC-35 Newest":                                        {[]MachineFacts{fact("old", 9), fact("new", 1)}, v1alpha1.DeleteNewest, nil, []string{"new", "old"}},
		"MC-35 Oldest":                                        {[]MachineFacts{fact("new", 1), fact("old", 9)}, v1alpha1.DeleteOldest, nil, []string{"old", "new"}},
		"MC-35 Default is newest first":                       {[]MachineFacts{fact("old", 9), fact("new", 1)}, v1alpha1.DeleteDefault, nil, []string{"new", "old"}},
		"MC-35 without a time: last under Oldest":             {[]MachineFacts{fact("none", 0, noBirth), fact("old", 9)}, v1alpha1.DeleteOldest, nil, []string{"old", "none"}},
		"MC-35 without a time: first under Newest":            {[]MachineFacts{fact("old", 9), fact("none", 0, noBirth)}, v1alpha1.DeleteNewest, nil, []string{"none", "old"}},
		"MC-36 400 days old never equals marked under Oldest": {[]MachineFacts{fact("ancient", 400*24), fact("marked", 1, marked)}, v1alpha1.DeleteOldest, nil, []string{"marked", "ancient"}},
		"MCM-27 a priority that is no number is 3":            {[]MachineFacts{fact("b", 1), fact("a", 1, priority("high")), fact("c", 1, priority("4")), fact("d", 1, priority("2"))}, "", nil, []string{"d", "a", "b", "c"}},
		"an empty mark is none":                               {[]MachineFacts{fact("b", 1, annotated(v1alpha1.AnnotationDeleteMachine, "")), fact("a", 1)}, "", nil, []string{"a", "b"}},
		"deleting ones are going already":                     {[]MachineFacts{fact("a", 1, dying), fact("b", 1)}, "", nil, []string{"b"}},
		"a name with another UID is not listed":               {[]MachineFacts{fact("b", 1), fact("a", 1)}, "", []v1alpha1.Removal{{Name: "b", UID: "former"}}, []string{"a", "b"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := namesOf(DeletionOrder(tt.machines, tt.policy, tt.removals)); !slices.Equal(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

func TestUnfulfilled(t *testing.T) {
	listed := func(f *MachineFacts) { f.Listed = true }
	got := namesOf(Unfulfilled([]MachineFacts{
		fact("registered", 1), fact("registered-failed", 1, failed), fact("notready", 1, notReady),
		fact("server-old", 5, noNode, withServer), fact("server-new", 1, noNode, withServer),
		fact("failed-server", 3, noNode, withServer, failed),
		fact("none-old", 9, noNode), fact("none-new", 2, noNode), fact("none-failed", 4, noNode, failed),
		fact("dying", 1, noNode, dying), fact("listed", 1, noNode, listed),
	}))
	want := []string{"none-new", "none-failed", "none-old", "failed-server", "server-new", "server-old"}
	if !slices.Equal(got, want) {
		t.Errorf("CA-C84 CA-C85 got %v, want %v", got, want)
	}
}

func TestCheckDeletePolicy(t *testing.T) {
	if err := CheckDeletePolicy("Sometimes"); err == nil {
		t.Error("MC-38 an unknown policy is accepted")
	}
}
