package kubelet

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
)

// metadataService serves the metadata of the server with this ID, and answers 404 to requests of other servers.
func metadataService(t *testing.T, id, userData string) string {
	t.Helper()
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Instance-ID") != id {
			http.NotFound(w, r)
			return
		}
		body := userData
		if strings.HasSuffix(r.URL.Path, "/meta_data.json") {
			body = `{"uuid":"` + id + `","name":"n1"}`
		}
		_, _ = w.Write([]byte(body))
	}))
	t.Cleanup(service.Close)
	return service.URL
}

func TestTheConsoleShowsWhyAServerCannotJoinTheCluster(t *testing.T) {
	for name, c := range map[string]struct{ id, userData, want string }{
		"the console shows that the metadata service has no data for the server's ID": {"other", "#cloud-config\n", "fetching instance metadata: /openstack/latest/meta_data.json answers 404"},
		"the console names a necessary file that is missing in the user data":         {"i1", "#cloud-config\nwrite_files: []\n", BootstrapFile + ": the user data writes no such file"},
		"the console shows the beginning of user data in an unknown format":           {"i1", "hello", `begins with "hello"`},
	} {
		t.Run(name, func(t *testing.T) {
			var console []string
			err := Run(t.Context(), Options{
				MetadataURL: metadataService(t, "i1", c.userData), InstanceID: c.id,
				Console: func(line string) { console = append(console, line) },
			})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if want := []string{"cloud-init: " + err.Error()}; !slices.Equal(console, want) {
				t.Errorf("console: got %q, want %q", console, want)
			}
		})
	}
}

func nodeOf(name, providerID string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.NodeSpec{ProviderID: providerID, Taints: []corev1.Taint{
			{Key: UninitializedTaint, Effect: corev1.TaintEffectNoSchedule}, {Key: "other", Effect: corev1.TaintEffectNoSchedule},
		}},
	}
}

func TestTheCloudControllerManagerInitializesNewNodes(t *testing.T) {
	for name, before := range map[string]*corev1.Node{
		"a Node is initialized from the server that its provider ID names":             nodeOf("n1", "openstack:///u1"),
		"a Node without a provider ID is initialized from the server of the same name": nodeOf("n1", ""),
	} {
		t.Run(name, func(t *testing.T) {
			client := fake.NewClientset([]runtime.Object{before}...)
			servers := func() []Server {
				return []Server{{ID: "u1", Name: "n1", Flavor: "m1.small", Zone: "z", Region: "r",
					Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.1"}}}}
			}
			if err := syncNodes(t.Context(), client, servers); err != nil {
				t.Fatal(err)
			}
			n, err := client.CoreV1().Nodes().Get(t.Context(), "n1", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if n.Spec.ProviderID != "openstack:///u1" || len(n.Spec.Taints) != 1 || n.Spec.Taints[0].Key != "other" {
				t.Errorf("spec: got %+v", n.Spec)
			}
			labels := n.Labels[corev1.LabelInstanceTypeStable] + " " + n.Labels[corev1.LabelTopologyZone] + " " + n.Labels[corev1.LabelTopologyRegion]
			if labels != "m1.small z r" || len(n.Status.Addresses) != 1 {
				t.Errorf("labels %q, addresses %v", labels, n.Status.Addresses)
			}
		})
	}
}

func TestTheCloudControllerManagerWritesNewAddressesOfAServerToItsNode(t *testing.T) {
	node := nodeOf("n1", "openstack:///u1")
	node.Spec.Taints = nil
	client := fake.NewClientset(node)
	want := []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.1"}, {Type: corev1.NodeExternalIP, Address: "203.0.113.1"}}
	if err := syncNodes(t.Context(), client, func() []Server { return []Server{{ID: "u1", Name: "n1", Addresses: want}} }); err != nil {
		t.Fatal(err)
	}
	n, err := client.CoreV1().Nodes().Get(t.Context(), "n1", metav1.GetOptions{})
	if err != nil || !slices.Equal(n.Status.Addresses, want) {
		t.Errorf("addresses %v (%v), want %v", n.Status.Addresses, err, want)
	}
}

func TestTheCloudControllerManagerTaintsANodeThatIsNotReadyWhileItsServerIsShutDown(t *testing.T) {
	node := nodeOf("n1", "openstack:///u1")
	node.Spec.Taints = []corev1.Taint{{Key: "other", Effect: corev1.TaintEffectNoSchedule}}
	client := fake.NewClientset(node)
	for _, step := range []struct {
		ready             corev1.ConditionStatus
		shutDown, tainted bool
	}{
		{corev1.ConditionTrue, true, false}, {corev1.ConditionUnknown, true, true}, {corev1.ConditionUnknown, false, true}, {corev1.ConditionTrue, false, false},
	} {
		n, err := client.CoreV1().Nodes().Get(t.Context(), "n1", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: step.ready}}
		if _, err := client.CoreV1().Nodes().UpdateStatus(t.Context(), n, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := syncNodes(t.Context(), client, func() []Server { return []Server{{ID: "u1", Name: "n1", ShutDown: step.shutDown}} }); err != nil {
			t.Fatal(err)
		}
		if n, err = client.CoreV1().Nodes().Get(t.Context(), "n1", metav1.GetOptions{}); err != nil || has(n, shutdownTaint) != step.tainted || !has(n, "other") {
			t.Errorf("with Ready %s, and the server shut down is %v: taints %v (%v), want the taint: %v", step.ready, step.shutDown, n.Spec.Taints, err, step.tainted)
		}
	}
}

func TestTheCloudControllerManagerDeletesTheNodeOfAVanishedServerUnlessTheNodeIsReady(t *testing.T) {
	ready := nodeOf("ready", "openstack:///u2")
	ready.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	client := fake.NewClientset(nodeOf("gone", "openstack:///u1"), ready, nodeOf("foreign", "other:///u1"), nodeOf("joining", ""))
	if err := syncNodes(t.Context(), client, func() []Server { return nil }); err != nil {
		t.Fatal(err)
	}
	nodes, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, n := range nodes.Items {
		left = append(left, n.Name)
	}
	slices.Sort(left)
	if !slices.Equal(left, []string{"foreign", "joining", "ready"}) {
		t.Errorf("got %v", left)
	}
}

func TestWhichOutputOfSystemdUnitsAServersConsoleShows(t *testing.T) {
	files := map[string]string{
		unitFolder + setupUnit:   "[Unit]\nDescription=Setup\n[Service]\nExecStart=/opt/setup\n",
		unitFolder + kubeletUnit: "[Service]\nExecStart=/usr/bin/other\n",
		// systemd merges drop-ins into the unit.
		unitFolder + kubeletUnit + ".d/zz.conf": "[Service]\nExecStart=\nExecStart=/opt/bin/kubelet --config=x\n",
		unitFolder + reportUnit:                 "[Service]\nExecStart=/opt/report\nStandardOutput=journal+console\n",
		"/opt/report":                           "#!/bin/bash\n",
	}
	for name, tc := range map[string]struct {
		output string
		want   []string
	}{
		"when drover's setup unit fails and prints only to the journal, the console shows only systemd's message (F-53)": {"journal", []string{
			"[FAILED] Failed to start drover-setup.service - Setup.", "See 'systemctl status drover-setup.service' for details.",
		}},
		"when drover's setup unit fails and prints to journal and console, the console shows the reason (F-53)": {"journal+console", []string{
			"setup: 404", "setup: downloading https://dl.k8s.io/release/v1.37.1/bin/linux/amd64/kubelet failed",
			"[FAILED] Failed to start drover-setup.service - Setup.", "See 'systemctl status drover-setup.service' for details.",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			boot := &Boot{Files: maps.Clone(files), Units: []string{setupUnit, kubeletUnit, reportUnit}}
			boot.Files[unitFolder+setupUnit] += "StandardOutput=" + tc.output + "\n"
			ctx, cancel := context.WithCancel(t.Context())
			var console []string
			o := Options{
				Console:  func(line string) { console = append(console, line) },
				Download: func(string) error { cancel(); return errors.New("404") },
			}.withDefaults()
			if h := (&host{options: o, boot: boot}); h.setup(ctx, "v1.37.1") {
				t.Error("the setup succeeded")
			}
			if !slices.Equal(console, tc.want) {
				t.Errorf("console: %q", console)
			}
		})
	}
	t.Run("while the kubelet has not joined the cluster, drover's report unit prints the kubelet's last output to the console (F-53)", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var console []string
			o := Options{Console: func(line string) { console = append(console, line) }}.withDefaults()
			h := &host{options: o, boot: &Boot{Files: files, Units: []string{setupUnit, kubeletUnit, reportUnit}}}
			if !h.setup(t.Context(), "v1.37.1") {
				t.Fatal("the setup failed")
			}
			h.print(kubeletUnit, "no route to host")
			go h.report(t.Context())
			time.Sleep(reportEvery + time.Second)
			want := []string{"report: the kubelet has not joined the cluster; its last 1 lines:", "report: kubelet: no route to host"}
			if !slices.Equal(console, want) {
				t.Errorf("console: %q", console)
			}
			h.hasJoined()
			time.Sleep(time.Hour)
			if len(console) != len(want) {
				t.Errorf("console of a kubelet that has joined: %q", console)
			}
		})
	})
}
