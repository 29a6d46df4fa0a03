package machine_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/test/kubelet"
)

// powered simulates the boot of a server with its user data. The output of the simulated system becomes the server's console output.
// gone is the error of every download; nil means that downloads succeed.
func (b *bench) powered(id, name string, userData []byte, gone error) {
	metadata := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, in *http.Request) {
		if strings.HasSuffix(in.URL.Path, "user_data") {
			_, _ = out.Write(userData)
			return
		}
		_ = json.NewEncoder(out).Encode(map[string]string{"uuid": id, "name": name})
	}))
	var running sync.WaitGroup
	b.t.Cleanup(func() {
		running.Wait()
		metadata.Close()
	})
	printed, ended := make(chan struct{}, 1000), make(chan error, 1)
	running.Go(func() {
		ended <- kubelet.Run(b.t.Context(), kubelet.Options{
			MetadataURL: metadata.URL, InstanceID: id,
			Download: func(string) error { return gone },
			Console: func(line string) {
				b.cloud.mu.Lock()
				b.cloud.console += line + "\n"
				b.cloud.mu.Unlock()
				if strings.Contains(line, "systemctl status") {
					printed <- struct{}{}
				}
			},
		})
	})
	select {
	case <-printed:
	case err := <-ended:
		b.t.Fatalf("the server did not boot: %v", err)
	}
}

func TestConditionsShowWhyTheSetupOfAServerFailed(t *testing.T) {
	notFound := errors.New("curl: (22) The requested URL returned error: 404")
	for _, system := range []string{"ubuntu", "flatcar"} {
		t.Run("before the join deadline, conditions Console and Ready show the download that failed on "+system+" (F-53)", func(t *testing.T) {
			b := newBench(t, deployed)
			b.cloud.system = system
			var boot func()
			b.cloud.onServer = func(id, name string, userData []byte) { boot = func() { b.powered(id, name, userData, notFound) } }
			b.pass()
			boot()
			b.cloud.change("u", func(s *fakeServer) { b.cloud.active(s) })
			b.pass()
			if b.cloud.count("ConsoleOutput") != 0 {
				t.Error("the console was looked at at once")
			}
			b.wait(5 * time.Minute)
			b.pass()
			m := b.read()
			console, ready := find(m, v1alpha1.ConditionConsole), find(m, v1alpha1.ConditionReady)
			if console.Status != corev1.ConditionTrue || console.Reason != "WaitingForNode" || !strings.Contains(console.Message, notFound.Error()) {
				t.Errorf("Console: %+v", console)
			}
			if m.DeletionTimestamp != nil || ready.Reason != "WaitingForNode" || !strings.Contains(ready.Message, "; the console shows: drover-setup: downloading https://dl.k8s.io/release/v1.37.1/") {
				t.Errorf("Ready: %+v", ready)
			}
		})
	}
}

func TestProgressOutputIsLeftOutOfConditionConsole(t *testing.T) {
	t.Run("the condition shows the lines of the setup, and not systemd's progress lines after them (F-53)", func(t *testing.T) {
		b := newBench(t, deployed)
		const cause = "drover-setup[513]: curl: (22) The requested URL returned error: 404"
		b.cloud.console = "[\x1b[0;32m  OK  \x1b[0m] Started \x1b[0;1;39mcontainerd.service\x1b[0m.\r\n" + cause + "\r\n"
		for second := range 180 {
			for _, format := range []string{
				"\x1bM\r\x1b[K[ \x1b[0;31m*\x1b[0;1;31m*\x1b[0m\x1b[0;31m*  \x1b[0m] Job drover-setup.service/start running (%d s / no limit)\r\n\r\n",
				"\x1bM\r\x1b[K[     \x1b[0;31m*\x1b[0m] (2 of 3) A start job is running for Make this host ready (%d s / no limit)\r\n\r\n",
			} {
				b.cloud.console += fmt.Sprintf(format, second)
			}
		}
		b.pass()
		b.cloud.change("u", func(s *fakeServer) { b.cloud.active(s) })
		b.wait(5 * time.Minute)
		b.pass()
		c := find(b.read(), v1alpha1.ConditionConsole)
		if want := "[  OK  ] Started containerd.service.\n" + cause; c.Status != corev1.ConditionTrue || !strings.HasSuffix(c.Message, ": "+want) {
			t.Errorf("the condition is %s: %q", c.Status, c.Message)
		}
	})
}

func TestTheConsoleIsReadWhileANodeIsAwaited(t *testing.T) {
	t.Run("reads the console twice before the join deadline and once at the deadline, even when drover restarts (F-53)", func(t *testing.T) {
		b := newBench(t, deployed)
		b.cloud.console = "[   12.3] ACPI Error: harmless\ncloud-init: all is well\n"
		b.pass()
		b.cloud.change("u", func(s *fakeServer) { b.cloud.active(s) })
		looks := map[int]int{0: 0, 299: 0, 300: 1, 301: 1, 449: 1, 450: 2, 599: 2, 600: 3}
		for second := range 601 {
			b.pass()
			if second%50 == 0 {
				b.restart()
			}
			if want, ok := looks[second]; ok && b.cloud.count("ConsoleOutput") != want {
				t.Errorf("after %d s: %d reads of the console, want %d", second, b.cloud.count("ConsoleOutput"), want)
			}
			if c := find(b.read(), v1alpha1.ConditionConsole); second == 599 && c.Status != corev1.ConditionFalse {
				t.Errorf("a console without a failure is shown: %+v", c)
			}
			b.wait(time.Second)
		}
	})
	t.Run("requeues the Machine for the time of the next read of the console (F-53)", func(t *testing.T) {
		b := newBench(t, deployed)
		b.pass()
		b.cloud.change("u", func(s *fakeServer) { b.cloud.active(s) })
		b.wait(299 * time.Second)
		if result := b.pass(); result.RequeueAfter != time.Second {
			t.Errorf("the next reconcile is after %v", result.RequeueAfter)
		}
	})
	t.Run("sets condition Console to False when the Node registers after a read of the console (F-53)", func(t *testing.T) {
		b := newBench(t, deployed)
		b.cloud.console = "kubelet: failed to do something\n"
		b.pass()
		b.cloud.change("u", func(s *fakeServer) { b.cloud.active(s) })
		b.wait(5 * time.Minute)
		b.pass()
		b.create(b.nodeOf())
		b.pass()
		if c := find(b.read(), v1alpha1.ConditionConsole); c.Status != corev1.ConditionFalse || c.Message != "" {
			t.Errorf("%+v", c)
		}
	})
}

func TestMessageOfConditionReadyWhileTheNodeIsAwaited(t *testing.T) {
	for name, tc := range map[string]struct{ timeout, until string }{
		"the message names the Node, the start and the deadline of the wait, and where to look for the cause (F-54)": {"10m", "until 2026-01-02T03:14:05Z"},
		"the message reports that the wait has no deadline when the join timeout is 0 (F-54)":                        {"0", "without a deadline"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, func(m *v1alpha1.Machine) {
				m.Annotations = map[string]string{v1alpha1.AnnotationJoinTimeout: tc.timeout}
			})
			b.pass()
			b.cloud.change("u", func(s *fakeServer) { b.cloud.active(s) })
			b.shown()
			c := find(b.read(), v1alpha1.ConditionReady)
			want := fmt.Sprintf("waiting for node m to register; its server %s was made at 2026-01-02T03:04:05Z, and drover waits %s; "+
				"look at the console of the server and at the CertificateSigningRequests of system:node:m",
				strings.TrimPrefix(ptr.Deref(b.read().Spec.ProviderID, ""), "openstack:///"), tc.until)
			if c.Reason != "WaitingForNode" || c.Message != want {
				t.Errorf("%s: %s", c.Reason, c.Message)
			}
		})
	}
}
