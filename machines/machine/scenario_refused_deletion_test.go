package machine_test

import (
	"strings"
	"testing"
	"time"

	"k8s.io/utils/ptr"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
)

// unavailable is the error of a call that the cloud answered with 503 and without Retry-After.
func unavailable() error {
	return fault.New(fault.Transient, fault.CodeCloudUnavailable, "deleting server: the cloud answered 503")
}

// eachSecond reconciles the Machine five times a second for the given time, as when many events arrive.
func (b *bench) often(d time.Duration) {
	b.t.Helper()
	for range int(d / (200 * time.Millisecond)) {
		b.pass()
		b.wait(200 * time.Millisecond)
	}
}

func TestARefusedDeletionBacksOff(t *testing.T) {
	// inTurns refuses each call of the given name; before every second refusal the call waits behind other calls of drover.
	inTurns := func(b *bench, name string) {
		calls := 0
		b.cloud.failing = func(call string) error {
			if call != name {
				return nil
			}
			if calls++; calls%2 == 0 {
				return inLine()
			}
			return unavailable()
		}
	}
	for _, tt := range []struct {
		call  string
		setup func(b *bench)
	}{
		{"DeleteServer", func(*bench) {}},
		{"Release", func(b *bench) { b.cloud.change("u", func(s *fakeServer) { s.exists = false }) }},
	} {
		t.Run("a minute of 503 for "+tt.call+" costs few calls, two writes and one Event for each Machine (F-62)", func(t *testing.T) {
			b := joined(t, nil)
			b.end()
			tt.setup(b)
			inTurns(b, tt.call)
			b.events()
			b.written = tally{}
			b.often(time.Minute)
			events := b.events()
			t.Logf("%d calls, %d writes, events %q", b.cloud.count(tt.call), b.written.all(), events)
			if n := b.cloud.count(tt.call); n > 12 || n < 5 {
				t.Errorf("%d calls, want 5 to 12", n)
			}
			if n := b.written.made["patch *v1alpha1.Machine"]; n > 2 {
				t.Errorf("%d writes of the Machine, want at most 2: %v", n, b.written.made)
			}
			if n := strings.Count(events, "503"); n != 1 {
				t.Errorf("%d Events, want 1: %q", n, events)
			}
			if m := b.read(); ptr.Deref(m.Status.ErrorReason, "") != string(fault.CodeCloudUnavailable) || !strings.Contains(b.deleting().Message, "503") {
				t.Errorf("the Machine shows %v and %+v", m.Status.ErrorReason, b.deleting())
			}
		})
	}
	t.Run("a minute of 503 for the look-up of a server that lists lack costs two writes and one Event for each Machine (F-62)", func(t *testing.T) {
		b := joined(t, nil)
		b.end()
		inTurns(b, "Observe")
		b.events()
		b.written = tally{}
		b.often(time.Minute)
		if n := b.written.made["patch *v1alpha1.Machine"]; n > 2 {
			t.Errorf("%d writes of the Machine, want at most 2: %v", n, b.written.made)
		}
		if events := b.events(); strings.Count(events, "503") != 1 {
			t.Errorf("Events %q, want one", events)
		}
		if !strings.Contains(b.deleting().Message, "503") {
			t.Errorf("the Machine shows %+v", b.deleting())
		}
	})
	t.Run("a deletion that the cloud accepts in the end shows no error any more and ends (F-62)", func(t *testing.T) {
		b := joined(t, nil)
		b.cloud.slow = true
		b.end()
		inTurns(b, "DeleteServer")
		b.often(10 * time.Second)
		b.cloud.failing = nil
		b.wait(time.Minute)
		b.shown()
		if m := b.read(); m.Status.ErrorReason != nil || b.deleting().Reason != "DeletingServer" {
			t.Errorf("the Machine shows %v and %+v", m.Status.ErrorReason, b.deleting())
		}
		b.cloud.change("u", func(s *fakeServer) { s.exists = false })
		b.pass()
		if m := b.read(); m.Name != "" {
			t.Errorf("the Machine still exists: %+v", m.Status)
		}
	})
	t.Run("the Node of a server that is gone is deleted although the release of its ports backs off (F-62)", func(t *testing.T) {
		b := joined(t, nil)
		b.end()
		inTurns(b, "Release")
		b.cloud.slow = true
		b.pass()
		b.cloud.change("u", func(s *fakeServer) { s.exists = false })
		b.pass()
		if n := b.node(); n.Name != "" {
			t.Error("the Node still exists")
		}
	})
	t.Run("a forced deletion does not wait for a back-off (F-62)", func(t *testing.T) {
		b := joined(t, nil)
		b.end()
		b.cloud.failing = func(call string) error {
			if call == "DeleteServer" {
				return unavailable()
			}
			return nil
		}
		b.pass()
		before := b.cloud.count("DeleteServer")
		b.annotate(v1alpha1.AnnotationForceDelete, "true")
		b.cloud.change("u", func(s *fakeServer) { s.State = cloud.ServerActive })
		b.pass()
		if n := b.cloud.count("DeleteServer") - before; n != 1 {
			t.Errorf("%d requests to delete the server, want 1", n)
		}
	})
	t.Run("credentials that can be read again end the wait of a deletion at once (F-62)", func(t *testing.T) {
		b := joined(t, nil)
		b.end()
		b.cloud.refuse["m"] = fault.New(fault.Auth, fault.CodeCredentialsMissing, "no Secret")
		b.often(30 * time.Second)
		delete(b.cloud.refuse, "m")
		b.pass()
		if n := b.cloud.count("DeleteServer"); n != 1 {
			t.Errorf("%d requests to delete the server, want 1", n)
		}
	})
}
