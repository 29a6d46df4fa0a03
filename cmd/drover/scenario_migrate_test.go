//go:build cluster

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/test/doccommands"
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
		"machine-controller runs", "refuses every write of machines, machinedeployments", "kubectl delete mutatingwebhookconfiguration machine-controller.kubermatic.io",
		"Machines: 7 deleted, 2 made, 5 waits, 86 kept", "MachineDeployments: 4 kept",
	} {
		if !strings.Contains(foretold, want) {
			t.Errorf("the dry run does not say %q:\n%s", want, foretold)
		}
	}
	if err == nil || !strings.Contains(err.Error(), "exit status 1") {
		t.Errorf("the dry run ends with %v, want exit code 1, since Machines are being deleted", err)
	}
	s.Run(t, "docs/install.md#mine")
	s.Run(t, "docs/migrate-from-machine-controller.md#install")
	if n := l.replicas("drover", "drover"); n != 0 {
		t.Errorf("%d replicas of drover are wanted before it is started", n)
	}
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
	l.gone(&admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "machine-controller.kubermatic.io"}})
	l.until("93 Machines are left, and those with a Node run", func() bool {
		text := s.Run(t, "docs/migrate-from-machine-controller.md#check")
		return strings.HasPrefix(text, "drover/drover\n") && len(l.look().machines) == 93
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
	s.Run(t, "docs/migrate-from-machine-controller.md#restart")
	if a, b := l.replicas("drover", "drover"), l.replicas(metav1.NamespaceSystem, "machine-controller"); a != 0 || b != 1 {
		t.Errorf("in the end %d replicas of drover and %d of machine-controller are wanted", a, b)
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
	w := &admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "machine-controller.kubermatic.io"}}
	w.Webhooks = []admissionv1.MutatingWebhook{{
		Name: "all.machine-controller.kubermatic.io", SideEffects: ptr.To(admissionv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"},
		FailurePolicy: ptr.To(admissionv1.Fail),
		ClientConfig:  admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{Namespace: metav1.NamespaceSystem, Name: "machine-controller-webhook"}},
		Rules: []admissionv1.RuleWithOperations{{
			Operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Update},
			Rule:       admissionv1.Rule{APIGroups: []string{"cluster.k8s.io"}, APIVersions: []string{"v1alpha1"}, Resources: []string{"machines", "machinedeployments"}},
		}},
	}}
	must(l.T, l.client.Create(l.Context(), w))
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
