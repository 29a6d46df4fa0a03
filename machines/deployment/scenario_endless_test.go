package deployment_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/ownership"
	"github.com/drover-project/drover/machines/rollout"
)

// admission changes the objects of one resource in the create calls of the controllers, as a mutating admission policy does.
type admission struct {
	http.RoundTripper
	resource string
	change   func(o *unstructured.Unstructured)
}

func (a admission) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/"+a.resource) {
		return a.RoundTripper.RoundTrip(r)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	var o unstructured.Unstructured
	if err := json.Unmarshal(body, &o); err != nil {
		return nil, err
	}
	a.change(&o)
	if body, err = json.Marshal(&o); err != nil {
		return nil, err
	}
	r = r.Clone(r.Context())
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return a.RoundTripper.RoundTrip(r)
}

// admit runs a scenario in virtual time while change is applied to each created object of the resource.
func admit(t *testing.T, resource string, change func(*unstructured.Unstructured), scenario func(h *harness)) {
	t.Helper()
	admitSeenAfter(t, 0, resource, change, scenario)
}

// admitSeenAfter does the same while the controllers' watch of MachineSets is late by lag.
func admitSeenAfter(t *testing.T, lag time.Duration, resource string, change func(*unstructured.Unstructured), scenario func(h *harness)) {
	t.Helper()
	active := false
	over := func(next http.RoundTripper) http.RoundTripper {
		return admission{next, resource, func(o *unstructured.Unstructured) {
			if active {
				change(o)
			}
		}}
	}
	late := func(resource string) time.Duration { return map[string]time.Duration{"machinesets": lag}[resource] }
	inFlipOver(t, late, over, func(h *harness) {
		active = true
		scenario(h)
	})
}

// all returns all sets and all living Machines of the namespace.
func (h *harness) all() (sets []v1alpha1.MachineSet, living int) {
	h.t.Helper()
	var list v1alpha1.MachineSetList
	var machines v1alpha1.MachineList
	for _, l := range []client.ObjectList{&list, &machines} {
		if err := h.client.List(h.t.Context(), l, client.InNamespace("default")); err != nil {
			h.t.Fatal(err)
		}
	}
	for i := range machines.Items {
		if machines.Items[i].DeletionTimestamp.IsZero() {
			living++
		}
	}
	return list.Items, living
}

// stays checks for ten minutes that there are at most so many sets and living Machines.
func (h *harness) stays(sets, machines int) {
	h.t.Helper()
	for range 1200 {
		time.Sleep(500 * time.Millisecond)
		if found, living := h.all(); len(found) > sets || living > machines {
			h.t.Fatalf("there are %d sets and %d living Machines, want at most %d and %d", len(found), living, sets, machines)
		}
	}
}

func (h *harness) condition(name, kind string) metav1.Condition {
	h.t.Helper()
	if c := meta.FindStatusCondition(h.get(name).Status.Conditions, kind); c != nil {
		return *c
	}
	return metav1.Condition{}
}

// setOf returns the only set of a deployment.
func (h *harness) setOf(name string) *v1alpha1.MachineSet {
	h.t.Helper()
	var list v1alpha1.MachineSetList
	if err := h.client.List(h.t.Context(), &list, client.MatchingLabels{"group": name}); err != nil || len(list.Items) != 1 {
		h.t.Fatalf("%d sets of %s, error %v", len(list.Items), name, err)
	}
	return &list.Items[0]
}

func (h *harness) edit(o client.Object, body string) {
	h.t.Helper()
	if err := h.client.Patch(h.t.Context(), o, client.RawPatch(types.MergePatchType, []byte(body))); err != nil {
		h.t.Fatal(err)
	}
}

func TestADeploymentWhoseSelectorNamesTheHashLabelCreatesNothing(t *testing.T) {
	for name, change := range map[string]func(*v1alpha1.MachineDeployment){
		"in matchLabels": func(d *v1alpha1.MachineDeployment) {
			d.Spec.Selector.MatchLabels[v1alpha1.LabelTemplateHash] = "5d9f7c8b6"
			d.Spec.Template.Metadata.Labels = maps.Clone(d.Spec.Selector.MatchLabels)
		},
		"in matchExpressions": func(d *v1alpha1.MachineDeployment) {
			d.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: v1alpha1.LabelTemplateHash, Operator: metav1.LabelSelectorOpDoesNotExist}}
		},
	} {
		t.Run("the label is "+name+": a condition reports the label, and no set is created (F-106)", func(t *testing.T) {
			inFlip(t, 0, func(h *harness) {
				d := group("copied", size(2))
				change(d)
				h.create(d)
				h.stays(1, 3) // those of the deployment flip
				if c := h.condition("copied", v1alpha1.ConditionProgressing); c.Reason != rollout.ReasonInvalid || !strings.Contains(c.Message, v1alpha1.LabelTemplateHash) {
					t.Errorf("the condition is %+v", c)
				}
			})
		})
	}
}

func TestADeploymentWhoseSetsAreStoredWithOtherLabels(t *testing.T) {
	relabel := func(o *unstructured.Unstructured) { o.SetLabels(map[string]string{"group": "platform"}) }
	t.Run("never has more Machines than replicas and surge, creates three sets at most, and names them in a condition (F-107)", func(t *testing.T) {
		admit(t, "machinesets", relabel, func(h *harness) {
			h.create(group("a", size(2)))
			h.stays(4, 6)
			if c := h.condition("a", v1alpha1.ConditionDegraded); c.Reason != rollout.ReasonSetsLost || !strings.Contains(c.Message, "no further set is created") {
				t.Errorf("the condition is %+v", c)
			}
		})
	})
	t.Run("has its Machines, once the policy is gone and the sets that it lost are deleted (F-107)", func(t *testing.T) {
		wrong := true
		change := func(o *unstructured.Unstructured) {
			if wrong {
				relabel(o)
			}
		}
		admit(t, "machinesets", change, func(h *harness) {
			h.create(group("a", size(2)))
			time.Sleep(time.Minute)
			wrong = false
			if err := h.client.DeleteAllOf(h.t.Context(), &v1alpha1.MachineSet{}, client.InNamespace("default"), client.MatchingLabels{"group": "platform"}); err != nil {
				t.Fatal(err)
			}
			h.settled("a", 2)
		})
	})
}

func TestADeploymentWhoseSetsAreStoredWithAnotherTemplate(t *testing.T) {
	annotate := func(o *unstructured.Unstructured) {
		_ = unstructured.SetNestedField(o.Object, "platform", "spec", "template", "metadata", "annotations", "team")
	}
	t.Run("keeps the set and its Machines, and reports the difference in a condition (F-107)", func(t *testing.T) {
		admit(t, "machinesets", annotate, func(h *harness) {
			h.create(group("a", size(2)))
			h.settled("a", 2)
			before := names(h.machines("a"))
			h.stays(2, 5)
			if now := names(h.machines("a")); !maps.Equal(now, before) {
				t.Errorf("the Machines %v became %v", before, now)
			}
			c := h.condition("a", v1alpha1.ConditionWarnings)
			if c.Reason != ownership.ReasonStoredDifferently || !strings.Contains(c.Message, "annotations.team: not set → platform") {
				t.Errorf("the condition is %+v", c)
			}
		})
	})
	t.Run("rolls to a new template once (F-107)", func(t *testing.T) {
		admit(t, "machinesets", annotate, func(h *harness) {
			h.template("1.37.2")
			h.settled("flip", 3)
			h.stays(2, 3)
		})
	})
	t.Run("has Machines of its own template after a person has edited the template of its set (F-107)", func(t *testing.T) {
		admit(t, "machinesets", annotate, func(h *harness) {
			h.create(group("a", size(2)))
			h.settled("a", 2)
			h.edit(h.setOf("a"), `{"spec":{"template":{"spec":{"versions":{"kubelet":"1.36.0"}}}}}`)
			h.settled("a", 2)
			time.Sleep(time.Minute)
			for _, m := range h.machines("a") {
				if m.Spec.Versions.Kubelet != "1.37.1" {
					t.Errorf("Machine %s has the version %s", m.Name, m.Spec.Versions.Kubelet)
				}
			}
		})
	})
	for _, lag := range []time.Duration{0, 300 * time.Millisecond, 3 * time.Second} {
		t.Run(fmt.Sprintf("creates three sets at most even when drover's record of the difference cannot be stored, seen after %v (F-107)", lag), func(t *testing.T) {
			n := 0
			change := func(o *unstructured.Unstructured) {
				n++
				_ = unstructured.SetNestedField(o.Object, fmt.Sprint(n), "spec", "template", "metadata", "annotations", "n")
			}
			admitSeenAfter(t, lag, "machinesets", change, func(h *harness) {
				forget := func() {
					sets, _ := h.all()
					for i := range sets {
						h.edit(&sets[i], fmt.Sprintf(`{"metadata":{"annotations":{%q:null}}}`, v1alpha1.AnnotationStoredTemplate))
					}
				}
				h.create(group("a", size(2)))
				for range 600 {
					time.Sleep(100 * time.Millisecond)
					forget()
				}
				if sets, living := h.all(); len(sets) > 4 || living > 6 {
					t.Errorf("there are %d sets and %d Machines", len(sets), living)
				}
			})
		})
	}
}

func TestADeploymentWhoseSetLosesItsLabelsOrItsOwner(t *testing.T) {
	for name, body := range map[string]string{
		"its label":             `{"metadata":{"labels":{"group":"other"}}}`,
		"its label and owner":   `{"metadata":{"labels":{"group":null},"ownerReferences":null}}`,
		"its owner to another":  `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"other","uid":"UID","controller":true}]}}`,
		"its labels altogether": `{"metadata":{"labels":null}}`,
	} {
		t.Run("the set loses "+name+": its Machines count towards replicas and surge until it is deleted (F-106)", func(t *testing.T) {
			inFlip(t, 0, func(h *harness) {
				other := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "other", Namespace: "default"}}
				if err := h.client.Create(h.t.Context(), other); err != nil {
					t.Fatal(err)
				}
				set := h.setOf("flip")
				h.edit(set, strings.Replace(body, "UID", string(other.UID), 1))
				h.stays(2, 4)
				if c := h.condition("flip", v1alpha1.ConditionDegraded); c.Reason != rollout.ReasonSetsLost || !strings.Contains(c.Message, set.Name+" (3 Machines)") {
					t.Errorf("the condition is %+v", c)
				}
				if err := h.client.Delete(h.t.Context(), set); err != nil {
					t.Fatal(err)
				}
				h.settled("flip", 3)
			})
		})
	}
}

func TestWhichSetsWithoutAnOwnerADeploymentAdopts(t *testing.T) {
	t.Run("a deployment that is deleted without its sets and created again has the same Machines (F-106)", func(t *testing.T) {
		inFlip(t, 0, func(h *harness) {
			before := names(h.machines("flip"))
			d := h.get("flip")
			if err := h.client.Delete(h.t.Context(), d, client.PropagationPolicy(metav1.DeletePropagationOrphan)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
			again := group("flip", size(3))
			h.create(again)
			h.settled("flip", 3)
			if now := names(h.machines("flip")); !maps.Equal(now, before) {
				t.Errorf("the Machines %v became %v", before, now)
			}
		})
	})
	t.Run("a deployment whose selector matches another deployment's set does not adopt the set, because the set's name is not made from its own (F-106)", func(t *testing.T) {
		inFlip(t, 0, func(h *harness) {
			d := h.get("flip")
			if err := h.client.Delete(h.t.Context(), d, client.PropagationPolicy(metav1.DeletePropagationOrphan)); err != nil {
				t.Fatal(err)
			}
			before := names(h.machines("flip"))
			other := group("flip", size(1))
			other.Name = "other"
			h.create(other)
			time.Sleep(time.Minute)
			left := names(h.machines("flip"))
			for name := range before {
				if !left[name] {
					t.Errorf("Machine %s of another deployment was deleted", name)
				}
			}
		})
	})
}
