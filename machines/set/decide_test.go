package set

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/rollout"
)

func TestASetDecidesWhatToCreateAndDelete(t *testing.T) {
	listing := func(set *v1alpha1.MachineSet, names ...string) *v1alpha1.MachineSet {
		for _, n := range names {
			set.Spec.Removals = append(set.Spec.Removals, v1alpha1.Removal{Name: n, UID: types.UID(n)})
		}
		return set
	}
	tests := map[string]struct {
		set      *v1alpha1.MachineSet
		machines []*v1alpha1.Machine
		create   int
		remove   []string
	}{
		"creates the Machines that are missing (MC-32)":                                                                           {testSet(3), []*v1alpha1.Machine{machine("a", 1)}, 2, nil},
		"creates a replacement while a Machine is being deleted (MC-33)":                                                          {testSet(2), []*v1alpha1.Machine{machine("a", 1), deleting(machine("b", 1))}, 1, nil},
		"deletes the Machine without a Node first (MC-36)":                                                                        {testSet(1), []*v1alpha1.Machine{machine("a", 1), machine("b", -1)}, 0, []string{"b"}},
		"deletes a Machine in spec.removals, and creates no replacement when the other Machines are as many as the size (CA-C88)": {listing(testSet(1), "a"), []*v1alpha1.Machine{machine("a", 1), machine("b", -1)}, 0, []string{"a"}},
		"deletes a Machine in spec.removals, and creates a replacement when the other Machines are fewer than the size (MCM-30)":  {listing(testSet(2), "a"), []*v1alpha1.Machine{machine("a", 1), machine("b", 1)}, 1, []string{"a"}},
		"ignores a Machine in spec.removals that is being deleted already (CA-C68)":                                               {listing(testSet(1), "a"), []*v1alpha1.Machine{deleting(machine("a", 1)), machine("b", 1)}, 0, nil},
		"deletes a Machine in spec.rolloutRemovals, and creates no replacement when the others are as many as the size (MC-17, F-33)": {func() *v1alpha1.MachineSet {
			s := testSet(1)
			s.Spec.RolloutRemovals = []v1alpha1.Removal{{Name: "a", UID: "a"}}
			return s
		}(), []*v1alpha1.Machine{machine("a", 1), machine("b", -1)}, 0, []string{"a"}},
		"keeps a Machine when an entry of spec.removals has the Machine's name but another UID": {func() *v1alpha1.MachineSet {
			s := listing(testSet(1), "a")
			s.Spec.Removals[0].UID = "former"
			return s
		}(), []*v1alpha1.Machine{machine("a", 1)}, 0, nil},
		"deletes a Machine in spec.removals, and one more Machine when the others still exceed the size": {listing(testSet(1), "a"), []*v1alpha1.Machine{machine("a", 1), machine("b", 1), machine("c", 1)}, 0, []string{"a", "b"}},
		"creates no Machine when the set is an old set of a deployment with the strategy OnDelete": {func() *v1alpha1.MachineSet {
			s := testSet(2)
			s.Annotations = map[string]string{v1alpha1.AnnotationNoCreate: "true"}
			return s
		}(), nil, 0, nil},
		"creates no Machine of a template whose provider spec is above 64 KiB (F-96)": {func() *v1alpha1.MachineSet {
			s := testSet(2)
			s.Spec.Template.Spec.ProviderSpec.Value = &runtime.RawExtension{Raw: make([]byte, 70<<10)}
			return s
		}(), nil, 0, nil},
		"deletes surplus Machines of a template whose provider spec is above 64 KiB (F-96)": {func() *v1alpha1.MachineSet {
			s := testSet(1)
			s.Spec.Template.Spec.ProviderSpec.Value = &runtime.RawExtension{Raw: make([]byte, 70<<10)}
			return s
		}(), []*v1alpha1.Machine{machine("a", 1), machine("b", -1)}, 0, []string{"b"}},
		"creates only a limited number of Machines in one reconcile": {testSet(maxPerReconcile + 7), nil, maxPerReconcile, nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			d := decide(observe(tt.set, tt.machines, tt.set.Spec.Removals, unconfirmed{}, start))
			var removed []string
			for _, m := range d.remove {
				removed = append(removed, m.Name)
			}
			if d.create != tt.create || !slices.Equal(removed, tt.remove) {
				t.Errorf("decide() creates %d and removes %v, want %d and %v", d.create, removed, tt.create, tt.remove)
			}
		})
	}
}

func TestAfterAScaleDownTheSetDeletesMachinesOnceTheCacheShowsAllThatItCreated(t *testing.T) {
	shown := []*v1alpha1.Machine{machine("a", 1), machine("b", 1)}
	for name, tt := range map[string]struct {
		unseen   int
		machines []*v1alpha1.Machine
		remove   []string
	}{
		"no Machine is deleted while the cache does not show a Machine that the set has created": {1, shown, nil},
		"the newest Machine, which has no Node, is deleted once the cache shows it":              {0, append(slices.Clone(shown), machine("new", -1)), []string{"new"}},
	} {
		t.Run(name, func(t *testing.T) {
			set := testSet(2)
			var removed []string
			for _, m := range decide(observe(set, tt.machines, nil, unconfirmed{created: tt.unseen}, start)).remove {
				removed = append(removed, m.Name)
			}
			if !slices.Equal(removed, tt.remove) {
				t.Errorf("decide() removes %v, want %v", removed, tt.remove)
			}
		})
	}
}

func TestASizeThatAClientRemovedFromTheSpecIsRestoredAsTheNumberOfMachines(t *testing.T) {
	set := testSet(0)
	set.Spec.Replicas = nil
	if n, restore := wanted(set, 0); n != 1 || !restore {
		t.Errorf("wanted() of a new set = %d, restore %v", n, restore)
	}
	set.Status.ObservedGeneration = 3
	if n, restore := wanted(set, 5); n != 5 || !restore {
		t.Errorf("wanted() of a set with 5 Machines = %d, restore %v", n, restore)
	}
}

func TestHowManyMachinesASetCreatesBeforeItIsFrozen(t *testing.T) {
	// of returns the numbers of a set of a deployment of the given size with a surge of one.
	of := func(living, size, own int) crowd { return crowd{living: living, most: size + 1, own: own} }
	for name, tt := range map[string]struct {
		create, wanted int
		crowd          crowd
		up, want       int
	}{
		"a new set without a deployment creates all its Machines (MCM-35)":                                              {100, 100, crowd{}, 2, 100},
		"a set of size 100 that has lost 100 Machines creates 100 new ones (MCM-35)":                                    {100, 100, crowd{own: 100}, 2, 100},
		"a set of size 1 that has lost three Machines creates its missing one (MCM-35)":                                 {1, 1, crowd{own: 3}, 2, 1},
		"a set of size 1 that has lost four Machines, twice its size plus --safety-up, creates none (MCM-35, MCM-72)":   {1, 1, crowd{own: 4}, 2, 0},
		"a set of size 1 that has lost 50 Machines creates none (MCM-35, MCM-72)":                                       {1, 1, crowd{own: 50}, 2, 0},
		"a set creates only some of the missing Machines when more would exceed its limit (MCM-35)":                     {20, 20, crowd{own: 37}, 2, 5},
		"a set creates its missing Machines when they bring it exactly to its limit (MCM-35)":                           {2, 10, crowd{own: 20}, 2, 2},
		"the new set of a rollout creates its Machines while the deployment has size plus surge":                        {1, 2, of(5, 5, 1), 2, 1},
		"a set creates the last Machine below size plus surge plus --safety-up (MCM-70)":                                {1, 5, of(7, 5, 4), 2, 1},
		"a set creates none while its deployment has size plus surge plus --safety-up living Machines (MCM-70, MCM-74)": {1, 5, of(8, 5, 4), 2, 0},
		"a set creates none while its deployment has far more living Machines (MCM-70, MCM-74)":                         {2, 5, of(100, 5, 3), 2, 0},
		"a set creates only as many as its deployment may still have (MCM-70, MCM-74)":                                  {5, 5, of(5, 5, 0), 2, 3},
		"a set creates one more when --safety-up is greater by one (MCM-70)":                                            {1, 5, of(8, 5, 4), 3, 1},
		"the limit of the set itself holds for a set of a deployment, too (MCM-35)":                                     {1, 5, of(4, 5, 12), 2, 0},
		"a set whose deployment has written no size and surge is limited by its own size alone":                         {5, 5, crowd{living: 100}, 2, 5},
		"a deployment of the largest size and surge has no limit that overflows":                                        {1, 1, crowd{living: 8, most: 2 * v1alpha1.MaxReplicas, own: 0}, 2, 1},
	} {
		t.Run(name, func(t *testing.T) {
			d := decision{wanted: tt.wanted, create: tt.create}
			d.freeze(tt.crowd, tt.up)
			if d.create != tt.want || (d.frozen == "") != (tt.want == tt.create) || (d.held == "") != (d.frozen == "" || d.create > 0) {
				t.Errorf("creates %d of %d, want %d; %q", d.create, tt.create, tt.want, d.frozen)
			}
		})
	}
}

func TestTheMessageOfAFreeze(t *testing.T) {
	for name, tt := range map[string]struct {
		crowd crowd
		parts []string
	}{
		"names the living Machines of the deployment, its limit, and the annotation that lifts the freeze (MCM-70)": {crowd{living: 12, most: 6, own: 4}, []string{"have 12 living Machines", "from 8 on", v1alpha1.AnnotationUnfreeze}},
		"names the Machines of a set with those that it has lost, its limit, and what ends the freeze (MCM-35)":     {crowd{own: 13}, []string{"has 13 Machines", "from 12 on", "do not belong to it any more", v1alpha1.AnnotationUnfreeze}},
	} {
		t.Run(name, func(t *testing.T) {
			d := decision{wanted: 5, create: 1}
			d.freeze(tt.crowd, 2)
			for _, part := range tt.parts {
				if !strings.Contains(d.frozen, part) {
					t.Errorf("the message is %q, want it to contain %q", d.frozen, part)
				}
			}
		})
	}
}

func TestTheLabelFreezeDecidesNothing(t *testing.T) {
	t.Run("a set with the label of a frozen set creates what it lacks (MCM-78)", func(t *testing.T) {
		s := testSet(3)
		s.Labels = map[string]string{v1alpha1.LabelFreeze: v1alpha1.Frozen}
		if d := decide(observe(s, []*v1alpha1.Machine{machine("a", 1)}, nil, unconfirmed{}, start)); d.create != 2 {
			t.Errorf("decide() = %+v", d)
		}
	})
}

func TestASetWaitsForServersBeforeItMakesASecondThousandOfMachines(t *testing.T) {
	// living returns count Machines of different ages. The given number of the oldest ones have servers.
	living := func(count, servers int) (all []rollout.MachineFacts) {
		for i := range count {
			m := machine(strconv.Itoa(i), -1)
			m.CreationTimestamp = metav1.NewTime(start.Add(time.Duration(i) * time.Second))
			if i < servers {
				m.Spec.ProviderID = ptr.To("openstack:///" + m.Name)
			}
			all = append(all, rollout.MachineFacts{Machine: m})
		}
		return all
	}
	for name, tt := range map[string]struct{ create, living, servers, unseen, want int }{
		"a new set makes its first thousand Machines before it has a server (F-96)":                         {1000, 0, 0, 0, 1000},
		"a set of 1000 Machines without servers makes no more (F-96)":                                       {1000, 1000, 0, 0, 0},
		"a set of 1000 Machines whose newest hundred have no server makes no more (F-96)":                   {1000, 1000, 900, 0, 0},
		"a set of 1000 Machines makes more when one of the newest hundred has a server (F-96)":              {1000, 1000, 901, 0, 1000},
		"a set of 950 Machines without servers makes 50 more (F-96)":                                        {1000, 950, 0, 0, 50},
		"Machines that the cache does not show yet count, and have no server (F-96)":                        {1000, 900, 900, 100, 0},
		"the newest hundred are those that the cache does not show yet and the newest of the others (F-96)": {1000, 950, 950, 50, 1000},
		"a set of 2000 Machines with servers replaces one of them (F-96)":                                   {1, 1999, 1999, 0, 1},
		"a set of 99 Machines without servers makes what it lacks (F-96)":                                   {1, 99, 0, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := afterServers(tt.create, living(tt.living, tt.servers), tt.unseen)
			if got != tt.want || (err == nil) != (got == tt.create) {
				t.Errorf("afterServers() allows %d of %d, error %v; want %d", got, tt.create, err, tt.want)
			}
		})
	}
}
