//go:build cluster

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/handover"
	"github.com/drover-project/drover/test/doccommands"
	"github.com/drover-project/drover/test/machinecontroller"
)

// This test runs the commands of docs/migrate-from-machine-controller.md in the order of the page. Between the
// commands, the test itself starts and stops drover, and renews the lease of machine-controller while that would run.
func TestTheCommandsOfTheMigrationPageWork(t *testing.T) {
	t.Parallel()
	l := newLegacy(t)
	l.predecessor()
	s := doccommands.NewShell(t, l.kube.Kubeconfig, l.path())
	s.Env = []string{"OS_AUTH_URL=" + l.cloud.AuthURL()}
	stopped := l.rival()
	foretold, err := s.Try(t.Context(), "docs/migrate-from-machine-controller.md#adopt")
	for _, want := range []string{
		"machine-controller runs", "refuses every write of machines", "refuses every write of machinedeployments",
		"kubectl delete mutatingwebhookconfiguration " + machinecontroller.WebhookName,
		"may not get secrets cloud-init-settings/managed-kube-system-bootstrap-config, which a new Machine of kube-system/managed",
		"Machines: 7 deleted, 2 made, 5 waits, 86 kept", "MachineDeployments: 1 refused, 5 kept", "a new Machine would get no server: spec.versions.kubelet 1.33.4",
	} {
		if !strings.Contains(foretold, want) {
			t.Errorf("the dry run does not say %q:\n%s", want, foretold)
		}
	}
	if err == nil || !strings.Contains(err.Error(), "exit status 1") {
		t.Errorf("the dry run ends with %v, want exit code 1, since Machines are being deleted", err)
	}
	if text := s.Run(t, "docs/migrate-from-machine-controller.md#hosts"); text != "" {
		t.Errorf("pods are spread over physical hosts: %s", text)
	}
	s.Run(t, "docs/install.md#mine")
	s.Run(t, "docs/migrate-from-machine-controller.md#install")
	if n := l.replicas("drover", "drover"); n != 0 {
		t.Errorf("%d replicas of drover are wanted before it is started", n)
	}
	if text, _ := s.Try(t.Context(), "docs/migrate-from-machine-controller.md#adopt"); strings.Contains(text, "may not get") || strings.Contains(text, "lacks") {
		t.Errorf("after step 1 the dry run still lists missing rights:\n%s", text)
	}
	l.user, l.groups = "system:serviceaccount:drover:drover", []string{"system:serviceaccounts", "system:serviceaccounts:drover", "system:authenticated"}
	s.Run(t, "docs/migrate-from-machine-controller.md#start")
	drover := l.starts()
	l.until("drover stands by", func() bool {
		return strings.Contains(s.Run(t, "docs/migrate-from-machine-controller.md#waiting"), "MachineControllerRuns")
	})
	if text := s.Run(t, "docs/migrate-from-machine-controller.md#waiting"); !strings.Contains(text, "machine-controller-7d4f_1") {
		t.Errorf("while drover waits the page's commands say:\n%s", text)
	}
	s.Run(t, "docs/migrate-from-machine-controller.md#stop")
	stopped()
	l.gone(machinecontroller.Webhook())
	l.until("93 Machines are left, and those with a Node run", func() bool {
		text := s.Run(t, "docs/migrate-from-machine-controller.md#check")
		return strings.HasPrefix(text, "drover/drover\n") && len(l.look().machines) == 93
	})
	l.refused()
	s.Run(t, "docs/migrate-from-machine-controller.md#stop")
	l.until("the Machine that was deleted has been replaced", func() bool { return len(l.deleting()) == 0 && len(l.look().machines) == 93 })
	l.kubectl("-n", metav1.NamespaceSystem, "scale", "machinedeployment", "managed", "--replicas=3")
	l.until("a new Machine of operating-system-manager's deployment has a server", func() bool {
		made := 0
		for _, m := range l.look().machines {
			if strings.HasPrefix(m.Name, "managed-") && m.Spec.ProviderID != nil {
				made++
			}
		}
		return made == 3
	})
	s.Run(t, "docs/migrate-from-machine-controller.md#tidy")
	s.Run(t, "docs/migrate-from-machine-controller.md#autoscaler")
	if n := l.replicas(metav1.NamespaceSystem, "cluster-autoscaler"); n != 1 {
		t.Errorf("%d replicas of the autoscaler are wanted in the end", n)
	}
	if text := s.Run(t, "docs/migrate-from-machine-controller.md#removals"); text != "" {
		t.Errorf("removals are open: %s", text)
	}
	s.Run(t, "docs/migrate-from-machine-controller.md#back")
	drover()
	open, err := os.ReadFile("../../deploy/testdata/open-crds.yaml")
	must(t, err)
	must(t, os.WriteFile(filepath.Join(s.Dir, "machine-controller-crds.yaml"), open, 0o600))
	s.Run(t, "docs/migrate-from-machine-controller.md#crds")
	s.Run(t, "docs/migrate-from-machine-controller.md#owners")
	for _, m := range l.look().machines {
		node := &corev1.Node{}
		if m.Status.NodeRef == nil || l.client.Get(t.Context(), client.ObjectKey{Name: m.Status.NodeRef.Name}, node) != nil {
			continue
		}
		if node.Labels[v1alpha1.LabelOwnedBy] != string(m.UID) {
			t.Errorf("node %s has the labels %v on the way back", node.Name, node.Labels)
		}
	}
	s.Run(t, "docs/migrate-from-machine-controller.md#restart")
	if a, b := l.replicas("drover", "drover"), l.replicas(metav1.NamespaceSystem, "machine-controller"); a != 0 || b != 1 {
		t.Errorf("in the end %d replicas of drover and %d of machine-controller are wanted", a, b)
	}
	restored := &admissionv1.MutatingWebhookConfiguration{}
	must(t, l.client.Get(t.Context(), client.ObjectKeyFromObject(machinecontroller.Webhook()), restored))
	if n := len(restored.Webhooks); n != 2 {
		t.Errorf("the webhook configuration has %d webhooks on the way back, want 2", n)
	}
	defer l.rival()()
	var lease coordinationv1.Lease
	must(t, l.client.Get(t.Context(), client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: "machine-controller"}, &lease))
	if *lease.Spec.HolderIdentity != "machine-controller-7d4f_1" {
		t.Errorf("the lease is %s's", *lease.Spec.HolderIdentity)
	}
}

// predecessor creates machine-controller's Deployments, and its webhook without the webhook's Service.
func (l *legacy) predecessor() {
	l.Helper()
	for _, name := range []string{"machine-controller", "machine-controller-webhook"} {
		labels := map[string]string{"app": name}
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: name}}
		d.Spec.Replicas, d.Spec.Selector = ptr.To[int32](1), &metav1.LabelSelector{MatchLabels: labels}
		d.Spec.Template.Labels, d.Spec.Template.Spec.Containers = labels, []corev1.Container{{Name: "c", Image: "example.invalid/c"}}
		must(l.T, l.client.Create(l.Context(), d))
	}
	must(l.T, l.client.Create(l.Context(), machinecontroller.Webhook()))
}

// refused creates machine-controller's webhook again, so that the API server refuses drover's writes, and deletes a Machine. It waits until an
// Event names the webhook, and fails the test when that takes as long as the wait between two regular checks.
func (l *legacy) refused() {
	l.Helper()
	must(l.T, l.client.Create(l.Context(), machinecontroller.Webhook()))
	l.kubectl("-n", metav1.NamespaceSystem, "delete", "machines.cluster.k8s.io", "managed-584598b977-01", "--wait=false")
	begun := time.Now()
	l.until("an Event names the webhook that does not answer (F-103)", func() bool {
		var all corev1.EventList
		must(l.T, l.client.List(l.Context(), &all))
		return slices.ContainsFunc(all.Items, func(e corev1.Event) bool {
			return e.Reason == handover.ReasonDeadWebhook && e.InvolvedObject.Name == machinecontroller.WebhookName
		})
	})
	if took := time.Since(begun); took > 30*time.Second {
		l.Errorf("the Event came after %s", took)
	}
}

// deleting returns the names of the Machines that are being deleted.
func (l *legacy) deleting() (names []string) {
	l.Helper()
	for _, m := range l.look().machines {
		if m.DeletionTimestamp != nil {
			names = append(names, m.Name)
		}
	}
	return names
}

// path returns a directory that contains a program named drover.
func (l *legacy) path() string {
	l.Helper()
	self, err := filepath.Abs(os.Args[0])
	must(l.T, err)
	dir := l.TempDir()
	script := fmt.Sprintf("#!/bin/sh\n%s=1 exec %s \"$@\"\n", asDrover, self)
	must(l.T, os.WriteFile(filepath.Join(dir, "drover"), []byte(script), 0o700))
	return dir
}

// replicas returns spec.replicas of a Deployment.
func (l *legacy) replicas(namespace, name string) int32 {
	l.Helper()
	var d appsv1.Deployment
	must(l.T, l.client.Get(l.Context(), client.ObjectKey{Namespace: namespace, Name: name}, &d))
	return *d.Spec.Replicas
}

// gone fails the test unless the object does not exist.
func (l *legacy) gone(o client.Object) {
	l.Helper()
	if err := l.client.Get(l.Context(), client.ObjectKeyFromObject(o), o); !apierrors.IsNotFound(err) {
		l.Errorf("%s exists: %v", o.GetName(), err)
	}
}
