package machine_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/fault"
)

// waitsForNode brings a Machine to the point at which it has an ACTIVE server without a Node and all of that is written.
func (b *bench) waitsForNode() {
	b.t.Helper()
	b.passes(2)
	b.cloud.change("u", b.cloud.active)
	b.pass()
	b.wait(longestUnwritten)
	b.pass()
	if phase := ptr.Deref(b.read().Status.Phase, ""); phase != v1alpha1.PhaseProvisioning {
		b.t.Fatalf("phase %s before the restart, want %s", phase, v1alpha1.PhaseProvisioning)
	}
}

func TestANewLeaderWritesNoStatusBeforeItsFirstListOfServers(t *testing.T) {
	for name, until := range map[string]func(*bench){
		"does not change the status of a Machine whose server boots":          (*bench).waitsForNode,
		"does not change the status of a Machine whose Node is Ready":         (*bench).reachesReady,
		"does not change the status of a Machine whose server is being built": func(b *bench) { b.passes(2) },
	} {
		t.Run(name, func(t *testing.T) {
			b := born(t)
			until(b)
			before := b.read()
			b.written = tally{}
			b.start(b.options)
			b.cloud.unsynced = true
			b.passes(3)
			b.wait(longestUnwritten)
			b.passes(2)
			if diff := cmp.Diff(before.Status, b.read().Status); diff != "" || b.written.all() != 0 {
				t.Errorf("%d writes before the first list, want none; status (-before +after):\n%s", b.written.all(), diff)
			}
			b.cloud.unsynced = false
			b.passes(3)
			b.wait(longestUnwritten)
			b.passes(2)
			if diff := cmp.Diff(before.Status, b.read().Status); diff != "" || b.written.all() != 0 {
				t.Errorf("%d writes after the first list, want none; status (-before +after):\n%s", b.written.all(), diff)
			}
		})
	}
}

func TestANewLeaderShowsThatItCannotListServers(t *testing.T) {
	b := born(t)
	b.waitsForNode()
	b.start(b.options)
	b.cloud.unsynced = true
	b.pass()
	b.cloud.failing = func(call string) error {
		if call == "Observe" {
			return fault.New(fault.Transient, fault.CodeCloudUnavailable, "listing servers: 503")
		}
		return nil
	}
	b.wait(time.Minute)
	b.pass()
	t.Run("the conditions show why the list failed, and the phase of a Machine whose server boots stays unchanged", func(t *testing.T) {
		m := b.read()
		if got := ptr.Deref(m.Status.Phase, ""); got != v1alpha1.PhaseProvisioning {
			t.Errorf("phase = %s, want %s", got, v1alpha1.PhaseProvisioning)
		}
		if c := find(m, v1alpha1.ConditionServerReady); !strings.HasPrefix(c.Message, "listing servers: 503") {
			t.Errorf("condition ServerReady = %+v, want the message of the failed list", c)
		}
		if c := find(m, v1alpha1.ConditionReady); c.Reason != "ServerUnknown" || !strings.HasPrefix(c.Message, "listing servers: 503") {
			t.Errorf("condition Ready = %+v, want ServerUnknown and the message of the failed list", c)
		}
	})
}
