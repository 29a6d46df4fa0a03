package deployment_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// by edits an object under the name of a field manager, as kubectl or an autoscaler of pods does.
func (h *harness) by(manager string, o client.Object, body string) {
	h.t.Helper()
	if err := h.client.Patch(h.t.Context(), o, client.RawPatch("application/merge-patch+json", []byte(body)), client.FieldOwner(manager)); err != nil {
		h.t.Fatal(err)
	}
}

// scaleSet writes a set's size, as an HPA does.
func (h *harness) scaleSet(set *v1alpha1.MachineSet, replicas int32) {
	h.t.Helper()
	h.by("hpa", set, fmt.Sprintf(`{"spec":{"replicas":%d}}`, replicas))
}

// eventOf returns the note of the last Event with a reason; "" when there is none.
func (h *harness) eventOf(reason string) string {
	h.t.Helper()
	var list eventsv1.EventList
	if err := h.client.List(h.t.Context(), &list, client.InNamespace("default")); err != nil {
		h.t.Fatal(err)
	}
	note := ""
	for i := range list.Items {
		if list.Items[i].Reason == reason {
			note = list.Items[i].Note
		}
	}
	return note
}

// keeps checks for a minute that exactly these Machines exist.
func (h *harness) keeps(before map[string]bool) {
	h.t.Helper()
	for range 600 {
		time.Sleep(100 * time.Millisecond)
		if now := names(h.machines("flip")); !maps.Equal(now, before) {
			h.t.Fatalf("the Machines %v became %v", before, now)
		}
	}
}

func TestASetOfADeploymentThatAnotherClientScales(t *testing.T) {
	for _, replicas := range []int32{0, 2, 9} {
		t.Run(fmt.Sprintf("to %d is set back before it acts, and an Event names the writer and what to scale (F-162)", replicas), func(t *testing.T) {
			inFlip(t, 0, func(h *harness) {
				before := names(h.machines("flip"))
				h.scaleSet(h.setOf("flip"), replicas)
				h.keeps(before)
				if got := ptr.Deref(h.setOf("flip").Spec.Replicas, -1); got != 3 {
					t.Errorf("the size of the set is %d", got)
				}
				note := h.eventOf("SizeSetBack")
				if !strings.Contains(note, fmt.Sprintf("field manager hpa set spec.replicas to %d", replicas)) || !strings.Contains(note, "kubectl scale machinedeployment flip") {
					t.Errorf("the Event is %q", note)
				}
			})
		})
	}
	t.Run("keeps its Machines while its deployment is paused, and its condition says what it waits for (F-162)", func(t *testing.T) {
		inFlip(t, 0, func(h *harness) {
			before := names(h.machines("flip"))
			h.patch("flip", `{"metadata":{"annotations":{"cluster.k8s.io/paused":"yes"}}}`)
			h.scaleSet(h.setOf("flip"), 0)
			h.keeps(before)
			c := meta.FindStatusCondition(h.setOf("flip").Status.Conditions, v1alpha1.ConditionAvailable)
			if c == nil || !strings.Contains(c.Message, "spec.replicas is 0, and MachineDeployment flip decided 3") {
				t.Errorf("the condition is %+v", c)
			}
			h.patch("flip", `{"metadata":{"annotations":{"cluster.k8s.io/paused":null}}}`)
			h.keeps(before)
			h.settled("flip", 3)
		})
	})
	t.Run("replaces a Machine that is deleted while its deployment is paused (F-162)", func(t *testing.T) {
		inFlip(t, 0, func(h *harness) {
			h.patch("flip", `{"metadata":{"annotations":{"cluster.k8s.io/paused":"yes"}}}`)
			gone := h.machines("flip")[0]
			if err := h.client.Delete(h.t.Context(), &gone); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
			if now := names(h.machines("flip")); len(now) != 3 || now[gone.Name] {
				t.Errorf("the Machines are %v without %s", now, gone.Name)
			}
		})
	})
	t.Run("during a rollout has the share that the rollout gave it (F-162)", func(t *testing.T) {
		inFlip(t, 0, func(h *harness) {
			h.actor.hold("flip", creates) // the new Machines do not become Ready
			h.template("1.37.2")
			time.Sleep(time.Minute)
			sets, living := h.all()
			for i := range sets {
				h.scaleSet(&sets[i], 0)
			}
			h.stays(2, 4)
			if _, now := h.all(); now != living {
				t.Errorf("%d living Machines became %d", living, now)
			}
			h.actor.letGo("flip")
			h.settled("flip", 3)
		})
	})
}

func TestASetOfADeploymentWhoseTemplateAnotherClientEdits(t *testing.T) {
	t.Run("has its template back, and no Machine is replaced (F-162)", func(t *testing.T) {
		inFlip(t, 0, func(h *harness) {
			before, set := names(h.machines("flip")), h.setOf("flip")
			h.by("kubectl-edit", set, `{"spec":{"template":{"metadata":{"annotations":{"team":"a"}},"spec":{"versions":{"kubelet":"1.36.0"}}}}}`)
			h.keeps(before)
			after := h.setOf("flip")
			if v := after.Spec.Template.Spec.Versions.Kubelet; v != "1.37.1" || after.Spec.Template.Metadata.Annotations["team"] != "" || after.UID != set.UID {
				t.Errorf("the template is %+v", after.Spec.Template)
			}
			if note := h.eventOf("TemplateSetBack"); !strings.Contains(note, "field manager kubectl-edit changed spec.template") || !strings.Contains(note, "kubelet: 1.37.1 → 1.36.0") {
				t.Errorf("the Event is %q", note)
			}
		})
	})
	t.Run("creates no Machine of that template while its deployment is paused, and says so (F-162)", func(t *testing.T) {
		inFlip(t, 0, func(h *harness) {
			h.patch("flip", `{"metadata":{"annotations":{"cluster.k8s.io/paused":"yes"}}}`)
			h.by("kubectl-edit", h.setOf("flip"), `{"spec":{"template":{"spec":{"versions":{"kubelet":"1.36.0"}}}}}`)
			if err := h.client.Delete(h.t.Context(), &h.machines("flip")[0]); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
			c := meta.FindStatusCondition(h.setOf("flip").Status.Conditions, v1alpha1.ConditionAvailable)
			if n := len(h.machines("flip")); n != 2 || c == nil || !strings.Contains(c.Message, "spec.template is not what MachineDeployment flip wrote") {
				t.Errorf("%d Machines, the condition is %+v", n, c)
			}
			h.patch("flip", `{"metadata":{"annotations":{"cluster.k8s.io/paused":null}}}`)
			h.settled("flip", 3)
			if n := len(h.ofKubelet("1.37.1")); n != 3 {
				t.Errorf("%d Machines have the deployment's version", n)
			}
		})
	})
}

func TestASetOfAnEarlierVersion(t *testing.T) {
	t.Run("has no record of what was decided: the deployment confirms its size, and no Machine changes (F-162)", func(t *testing.T) {
		inFlip(t, 0, func(h *harness) {
			before := names(h.machines("flip"))
			h.edit(h.setOf("flip"), fmt.Sprintf(`{"metadata":{"annotations":{%q:null}}}`, v1alpha1.AnnotationDecided))
			h.keeps(before)
			if got := h.setOf("flip").Annotations[v1alpha1.AnnotationDecided]; !strings.HasPrefix(got, "3.") {
				t.Errorf("the annotation is %q", got)
			}
			if note := h.eventOf("SizeSetBack"); note != "" {
				t.Errorf("an Event reports %q", note)
			}
		})
	})
	t.Run("was rolled on by a version that does not know the record: the stored sizes count (F-162)", func(t *testing.T) {
		inFlip(t, 0, func(h *harness) {
			before := names(h.machines("flip"))
			// The record is of a time when the set had 7 Machines, and that version made it 3.
			set := h.setOf("flip")
			_, hash, _ := strings.Cut(set.Annotations[v1alpha1.AnnotationDecided], ".")
			h.edit(set, fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, v1alpha1.AnnotationDecided, "7."+hash))
			h.keeps(before)
		})
	})
}

func TestABareSetObeysItsOwnSize(t *testing.T) {
	t.Run("a set whose deployment was deleted without it is scaled by hand (F-162)", func(t *testing.T) {
		inFlip(t, 0, func(h *harness) {
			if err := h.client.Delete(h.t.Context(), h.get("flip"), client.PropagationPolicy(metav1.DeletePropagationOrphan)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
			h.scaleSet(h.setOf("flip"), 1)
			time.Sleep(time.Minute)
			if n := len(h.machines("flip")); n != 1 {
				t.Errorf("there are %d Machines", n)
			}
		})
	})
}

func TestTwoWritersOfTheSizeOfADeployment(t *testing.T) {
	scale := func(h *harness, manager string, n int32) {
		h.by(manager, h.get("flip"), fmt.Sprintf(`{"spec":{"replicas":%d}}`, n))
		time.Sleep(10 * time.Second)
	}
	t.Run("an Event names both each time that the other one changes the size (F-164)", func(t *testing.T) {
		inFlip(t, 0, func(h *harness) {
			for range 2 {
				scale(h, "hpa", 4)
				scale(h, "argocd", 3)
				if note := h.eventOf("SizeWriters"); !strings.Contains(note, "argocd changed spec.replicas from 4, which field manager hpa had written, to 3") {
					t.Errorf("the Event is %q", note)
				}
				scale(h, "hpa", 5)
				if note := h.eventOf("SizeWriters"); !strings.Contains(note, "hpa changed spec.replicas from 3, which field manager argocd had written, to 5") {
					t.Errorf("the Event is %q", note)
				}
			}
		})
	})
	t.Run("no Event is about a size that one client changes (F-164)", func(t *testing.T) {
		inFlip(t, 0, func(h *harness) {
			scale(h, "hpa", 4)
			before := h.eventOf("SizeWriters")
			scale(h, "hpa", 5)
			scale(h, "hpa", 2)
			if note := h.eventOf("SizeWriters"); note != before {
				t.Errorf("the Event is %q", note)
			}
		})
	})
}
