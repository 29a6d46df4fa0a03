package rollout

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// TestAPlanComputedAgainFromItsRecordIsTheSame records the plans of every scenario, sends them through JSON, and computes them again.
func TestAPlanComputedAgainFromItsRecordIsTheSame(t *testing.T) {
	for _, s := range scenarios {
		t.Run("the plans are the same for a rollout from template A to B that "+s.name, func(t *testing.T) {
			w := newSimulation(s.shape)
			w.settle(&strings.Builder{})
			var kept [][]byte
			w.onPlan = func(before Snapshot, p Plan) {
				record, err := NewRecord(before, p)
				if err != nil {
					t.Fatal(err)
				}
				body, err := json.Marshal(record)
				if err != nil {
					t.Fatal(err)
				}
				kept = append(kept, body)
			}
			s.run(w, &strings.Builder{})
			if len(kept) == 0 {
				t.Fatal("no plan was made")
			}
			for _, body := range kept {
				var record Record
				if err := json.Unmarshal(body, &record); err != nil {
					t.Fatal(err)
				}
				p, err := record.Replay()
				if diff := cmp.Diff(record.Steps, p.Steps); err != nil || diff != "" || p.Replicas != record.Replicas {
					t.Errorf("%v: Replay() differs (-recorded +computed):\n%s", err, diff)
				}
			}
		})
	}
}

func TestARecordOfAPlanContainsNoSecrets(t *testing.T) {
	w := settled(shape{1, "1", "0"})
	secret := `{"cloudProviderSpec":{"password":"hunter2"}}`
	w.d.Annotations = map[string]string{corev1.LastAppliedConfigAnnotation: secret, "note": "seen"}
	w.d.Spec.Template.Spec.ProviderSpec.Value.Raw = []byte(secret)
	record, err := NewRecord(w.snapshot(), Plan{})
	if err != nil {
		t.Fatal(err)
	}
	body, err := json.Marshal(record)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(body), "hunter2") || !strings.Contains(string(body), "seen") {
		t.Errorf("the record is %s", body)
	}
	if string(w.d.Spec.Template.Spec.ProviderSpec.Value.Raw) != secret {
		t.Error("the deployment itself was changed")
	}
}

func TestATemplateKeepsItsHashWhenAFingerprintReplacesItsProviderSpec(t *testing.T) {
	plain, again := template(), template(raw(`{"cloudProviderSpec":{"image":"Ubuntu","tags":{"team":"a"},"flavor":"m1.small"},"cloudProvider":"openstack","x":null}`))
	for _, sealed := range []*v1alpha1.MachineTemplateSpec{plain.DeepCopy(), again.DeepCopy()} {
		if err := seal(sealed); err != nil {
			t.Fatal(err)
		}
		one, _ := templateHash(plain, 0)
		if other, err := templateHash(sealed, 0); err != nil || one != other {
			t.Errorf("the hash %s became %s, %v", one, other, err)
		}
		if fingerprint(sealed.Spec.ProviderSpec.Value.Raw) != fingerprint(plain.Spec.ProviderSpec.Value.Raw) {
			t.Error("the fingerprint changed")
		}
	}
}
