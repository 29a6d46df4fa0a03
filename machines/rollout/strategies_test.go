package rollout

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

func TestASmallerSizeUnderOnDelete(t *testing.T) {
	t.Run("when the size is lowered from 12 to 6, 6 of the 9 old Machines are deleted, and none of the 3 current ones (MC-28, F-30)", func(t *testing.T) {
		w := settled(shape{12, "1", "0"})
		w.d.Spec.Strategy.Type = v1alpha1.OnDelete
		w.template("B")
		for range 3 {
			w.delete(w.first("A"))
		}
		w.settle(&strings.Builder{})
		if got := w.sizes(); got != "[A=9 B=3]" {
			t.Fatalf("sizes %s", got)
		}
		w.scale(6)
		w.settle(&strings.Builder{})
		if got := w.sizes(); got != "[A=3 B=3]" {
			t.Errorf("sizes %s, want [A=3 B=3]", got)
		}
	})
}

func TestAMarkedMachineGoesFirstWhicheverSetHasIt(t *testing.T) {
	for name, key := range map[string]string{"machine-controller's": v1alpha1.AnnotationDeleteMachine, "Cluster API's": v1alpha1.AnnotationDeleteMachineCAPI} {
		t.Run("under OnDelete, a Machine of the current set with "+name+" annotation goes before old ones (F-163)", func(t *testing.T) {
			w := settled(shape{4, "1", "0"})
			w.d.Spec.Strategy.Type = v1alpha1.OnDelete
			w.template("B")
			w.delete(w.first("A"))
			w.delete(w.first("A"))
			w.settle(nothing())
			marked := w.first("B")
			marked.Annotations = map[string]string{key: ""}
			w.scale(3)
			w.settle(nothing())
			if got := w.sizes(); got != "[A=2 B=1]" || !w.deleted[marked.Name] {
				t.Errorf("sizes %s, the marked Machine is deleted: %v", got, w.deleted[marked.Name])
			}
		})
	}
	t.Run("while a rollout is paused, a marked Machine goes before the sets shrink by their shares (F-163)", func(t *testing.T) {
		w := settled(shape{6, "1", "0"})
		w.template("B")
		w.plan()
		w.act(w.sets[1])
		w.d.Spec.Paused = true
		w.settle(nothing())
		marked := w.first("B")
		marked.Annotations = map[string]string{v1alpha1.AnnotationDeleteMachine: ""}
		w.scale(5)
		w.settle(nothing())
		if !w.deleted[marked.Name] {
			t.Errorf("sizes %s, and the marked Machine is not deleted", w.sizes())
		}
	})
}

func TestASetGrowsAfterAnotherHasShrunk(t *testing.T) {
	for name, set := range map[string]func(*simulation){
		"under OnDelete, the current set grows only when the old set has deleted its surplus Machines (MCM-70)": func(w *simulation) {
			w.d.Spec.Strategy.Type = v1alpha1.OnDelete
		},
		"while the deployment is paused, the newest set grows only when the old set has deleted its surplus Machines (MCM-70)": func(w *simulation) {
			w.d.Spec.Paused = true
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := settled(shape{3, "0", "1"})
			w.d.Spec.Strategy.Type = v1alpha1.OnDelete
			w.template("B")
			w.plan()
			set(w)
			w.scale(0)
			w.plan()
			w.scale(2)
			if w.plan(); w.sizes() != "[A=0 B=0]" {
				t.Errorf("sizes %s while A has 3 living Machines, want [A=0 B=0]", w.sizes())
			}
			w.act(w.sets[0])
			if w.plan(); w.sizes() != "[A=0 B=2]" {
				t.Errorf("sizes %s after A has deleted its Machines, want [A=0 B=2]", w.sizes())
			}
		})
	}
}

func TestRecreateUnderAStaleCache(t *testing.T) {
	t.Run("the new set gets Machines only after the old set has reported that it has none (MCM-19, F-32)", func(t *testing.T) {
		w := settled(shape{3, "1", "0"})
		w.d.Spec.Strategy.Type = v1alpha1.Recreate
		w.template("B")
		shown := w.machines
		w.machines = nil
		w.plan()
		if w.sizes() != "[A=0 B=0]" {
			t.Errorf("sizes %s although the Machines of A may exist", w.sizes())
		}
		w.plan()
		w.machines = shown
		w.plan()
		if w.sizes() != "[A=0 B=0]" {
			t.Errorf("sizes %s although the Machines of A exist", w.sizes())
		}
		w.settle(nothing())
		w.expect(t, 0, 0, 3, 0)
	})
}

func TestASmallerSizeInTheMiddleOfARollout(t *testing.T) {
	for _, s := range []shape{{10, "1", "0"}, {10, "50%", "0"}, {10, "100%", "50%"}, {10, "0", "100%"}} {
		t.Run("leads to no negative size of a set, and the rollout ends with it, with a surge of "+s.surge+" (report 87)", func(t *testing.T) {
			for size := range s.replicas + 1 {
				w := midRoll(s)
				w.onPlan = func(_ Snapshot, p Plan) {
					for _, c := range p.Changes {
						if c.Replicas < 0 {
							t.Errorf("size %d: the set %s gets %d replicas", size, c.Set.Name, c.Replicas)
						}
					}
				}
				w.scale(size)
				w.settle(nothing())
				w.slow = false
				w.settle(nothing())
				w.expect(t, 0, 0, int(size), 0)
			}
		})
	}
}

func TestWholeRolloutsOfAllSmallShapes(t *testing.T) {
	shapes := func(do func(shape)) {
		for replicas := range int32(6) {
			for _, surge := range []string{"0", "1", "50%"} {
				for _, unavailable := range []string{"0", "1", "50%", "100%"} {
					do(shape{replicas, surge, unavailable})
				}
			}
		}
	}
	t.Run("each rollout goes on after its first new Machine, and ends with new ones only (report 86)", func(t *testing.T) {
		shapes(func(s shape) {
			w := settled(s)
			w.template("B")
			w.settle(nothing())
			if a, _ := w.servers("A"); a != 0 {
				t.Errorf("%+v: %d old Machines are left", s, a)
			}
			if b, _ := w.servers("B"); b != int(s.replicas) {
				t.Errorf("%+v: there are %d new Machines", s, b)
			}
		})
	})
	t.Run("the numbers of the status belong to one state of the Machines and to the newest generation (report 146, report 147)", func(t *testing.T) {
		shapes(func(s shape) {
			w := settled(s)
			w.onPlan = func(_ Snapshot, p Plan) {
				st := p.Status
				if st.ObservedGeneration != w.d.Generation || st.AvailableReplicas > st.ReadyReplicas || st.ReadyReplicas > st.Replicas || st.UpdatedReplicas > st.Replicas || st.UnavailableReplicas < s.replicas-st.AvailableReplicas {
					t.Errorf("%+v: the status is %+v in generation %d", s, st, w.d.Generation)
				}
			}
			ends := func(available int32) {
				if st := w.d.Status; st.Replicas != s.replicas || st.UpdatedReplicas != s.replicas || st.AvailableReplicas != available || st.UnavailableReplicas != s.replicas-available {
					t.Errorf("%+v: with %d available Machines the status ends with %+v", s, available, st)
				}
			}
			w.template("B")
			w.settle(nothing())
			ends(s.replicas)
			for n, m := range w.machines {
				w.ready(m, false)
				w.plan()
				ends(s.replicas - int32(n) - 1)
			}
			for _, m := range w.machines {
				w.ready(m, true)
			}
			w.plan()
			ends(s.replicas)
		})
	})
}

func TestThePlanThatAnOldCacheLeadsTo(t *testing.T) {
	t.Run("names the set that was created already, so that the API server refuses a second one (report 88)", func(t *testing.T) {
		w := settled(shape{3, "1", "0"})
		w.template("B")
		w.plan()
		made := w.sets[1].Name
		w.sets = w.sets[:1]
		if p := must(Compute(w.snapshot())); p.Create == nil || p.Create.Name != made {
			t.Errorf("it creates %+v, want again %s", p.Create, made)
		}
	})
}

func TestASetOfAnotherVersionOfDrover(t *testing.T) {
	for name, change := range map[string]func(*v1alpha1.MachineTemplateSpec){
		"that has computed another hash for the template (report 90)": func(*v1alpha1.MachineTemplateSpec) {},
		"that did not know a field, which is empty now (report 90)":   raw(`{"cloudProvider":"openstack","cloudProviderSpec":{"flavor":"m1.small","tags":{"team":"a"},"image":"Ubuntu","newField":null,"newList":[]},"newSection":{}}`),
		"that wrote no defaults (report 91)": func(t *v1alpha1.MachineTemplateSpec) {
			t.Spec.ProviderSpec.Value.Raw = []byte(`{"cloudProviderSpec":{"flavor":"m1.small","tags":{"team":"a"},"image":"Ubuntu","region":""},"cloudProvider":"openstack","operatingSystemSpec":{}}`)
			t.Spec.Taints, t.Spec.Metadata.Annotations = []corev1.Taint{}, map[string]string{}
		},
	} {
		t.Run("is the set of the template, and nothing is rolled, with a set of a version "+name, func(t *testing.T) {
			w := settled(shape{3, "1", "0"})
			made := w.made
			for _, o := range []*v1alpha1.MachineTemplateSpec{&w.d.Spec.Template, &w.sets[0].Spec.Template} {
				o.Spec.ProviderSpec.Value = &runtime.RawExtension{Raw: []byte(document)}
			}
			// The stored set has the older form, and a hash that this version does not compute.
			change(&w.sets[0].Spec.Template)
			w.sets[0].Labels[v1alpha1.LabelTemplateHash] = "0ld"
			w.sets[0].Spec.Template.Metadata.Labels[v1alpha1.LabelTemplateHash] = "0ld"
			w.d.Generation++
			w.settle(nothing())
			if len(w.sets) != 1 || w.made != made || len(w.deleted) != 0 {
				t.Errorf("there are %d sets, %d Machines were made and %d deleted", len(w.sets), w.made-made, len(w.deleted))
			}
		})
	}
}

func TestADeclaredCapacityThatChanges(t *testing.T) {
	t.Run("makes no set and no Machine (report 92)", func(t *testing.T) {
		w := settled(shape{3, "1", "0"})
		made := w.made
		for _, memory := range []string{"8Gi", "16Gi", ""} {
			metav1.SetMetaDataAnnotation(&w.d.ObjectMeta, v1alpha1.AnnotationCapacity+"memory", memory)
			w.d.Generation++
			w.settle(nothing())
		}
		if len(w.sets) != 1 || w.made != made || len(w.deleted) != 0 {
			t.Errorf("there are %d sets, %d Machines were made and %d deleted", len(w.sets), w.made-made, len(w.deleted))
		}
	})
}

func TestARolloutWhileNoMachineIsAvailable(t *testing.T) {
	for _, tt := range []struct {
		shape
		left int
	}{{shape{4, "1", "0"}, 4}, {shape{4, "1", "1"}, 3}, {shape{4, "0", "50%"}, 2}} {
		t.Run("keeps as many old Machines as must be available, with a surge of "+tt.surge+" and "+tt.unavailable+" unavailable (report 89)", func(t *testing.T) {
			w := settled(tt.shape)
			for _, m := range w.machines {
				w.ready(m, false)
			}
			w.broken["B"] = true
			w.template("B")
			w.settle(nothing())
			if living, _ := w.servers("A"); living != tt.left {
				t.Errorf("%d old Machines are left, want %d; sizes %s", living, tt.left, w.sizes())
			}
		})
	}
}

func TestARemovalWhileAnotherMachineIsNotReady(t *testing.T) {
	t.Run("deletes only the Machine that the autoscaler has named (report 93)", func(t *testing.T) {
		w := settled(shape{5, "1", "0"})
		named := w.machines[3].Name
		w.ready(w.machines[0], false)
		w.remove(w.machines[3])
		w.settle(nothing())
		if len(w.deleted) != 1 || !w.deleted[named] || w.made != 5 {
			t.Errorf("deleted are %v, and %d were made; want only %s deleted", w.deleted, w.made, named)
		}
	})
}
