package main

import (
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/deploy"
	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/fault"
	sim "github.com/drover-project/drover/test/openstack"
)

// droverAccount is drover's user in a cluster with the shipped manifests.
const droverAccount = "system:serviceaccount:drover:drover"

// TestMessagesOfDroverWithTheShippedRoles runs drover under the roles of deploy/rbac.
func TestMessagesOfDroverWithTheShippedRoles(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	must(t, deploy.Apply(t.Context(), p.client))
	const team = "team"
	must(t, p.client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: team}}))
	cmd := p.replicaAs(droverAccount, []string{"system:authenticated"})

	t.Run("the status of a Machine whose Secret drover may not read names the Secret and the command that grants access (F-44)", func(t *testing.T) {
		p.in(t).forbiddenSecret(t, team)
	})
	t.Run("a message that is too long for an Event is complete in the status and cut in the Event (F-45)", func(t *testing.T) {
		p.in(t).longMessage(t)
	})
	t.Run("every line of drover's log is JSON (F-46)", func(t *testing.T) {
		must(t, cmd.Process.Signal(syscall.SIGTERM))
		_ = cmd.Wait()
		jsonLines(t, cmd.Stdout.(*strings.Builder).String())
	})
	t.Run("the error with which drover ends is logged as JSON (F-46)", func(t *testing.T) {
		cmd := p.replica("ends", "--features=no-leader-election", "--grpc-address=unix:///nowhere/deep/grpc")
		_ = cmd.Wait()
		log := cmd.Stdout.(*strings.Builder).String()
		jsonLines(t, log)
		if !strings.Contains(log, "/nowhere/deep/grpc") || cmd.ProcessState.ExitCode() != 1 {
			t.Errorf("exit code %d, log:\n%s", cmd.ProcessState.ExitCode(), log)
		}
	})
}

// in returns the pair, with its cluster and its cloud, for a subtest.
func (p *pair) in(t *testing.T) *pair {
	of := *p
	of.T = t
	return &of
}

func (p *pair) forbiddenSecret(t *testing.T, team string) {
	m := &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: "m"}}
	m.Spec.Versions.Kubelet = "1.37.1"
	m.Spec.ProviderSpec.Value = &runtime.RawExtension{Raw: []byte(strings.Replace(providerSpec, `"cloudProviderSpec":{`,
		`"cloudProviderSpec":{"username":"drover","password":{"secretKeyRef":{"namespace":"team","name":"openstack","key":"password"}},`, 1))}
	must(t, p.client.Create(t.Context(), m))
	says := func(code fault.Code) func() bool {
		return func() bool {
			must(t, p.client.Get(t.Context(), client.ObjectKeyFromObject(m), m))
			return ptr.Deref(m.Status.ErrorReason, "") == string(code)
		}
	}
	p.until("the Machine says that the Secret is forbidden", says(fault.CodeReferenceForbidden))
	message := ptr.Deref(m.Status.ErrorMessage, "")
	const command = "kubectl create rolebinding drover:references --clusterrole=drover:references --serviceaccount=drover:drover -n team"
	for _, want := range []string{"Machine team/m: ", "cloudProviderSpec.password: ", "Secret team/openstack", "Forbidden", command} {
		if !strings.Contains(message, want) {
			t.Errorf("%q does not hold %q", message, want)
		}
	}
	if got := conditionOf(m, v1alpha1.ConditionServerReady).Message; got != message {
		t.Errorf("the condition says %q", got)
	}
	p.until("an Event holds the command", func() bool { return strings.Contains(p.noteOf(m), command) })
	if out, err := p.kube.Kubectl(t.Context(), strings.Fields(command)[1:]...); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	p.until("drover may read, and says that the Secret does not exist", says(fault.CodeCredentialsMissing))
}

func (p *pair) longMessage(t *testing.T) {
	var names []string
	for range 40 {
		names = append(names, p.cloud.AddImage(sim.Image{Name: "twice"}))
	}
	m := &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "long"}}
	m.Spec.Versions.Kubelet = "1.37.1"
	m.Spec.ProviderSpec.Value = &runtime.RawExtension{Raw: []byte(strings.Replace(providerSpec, sim.MetaKubeImage, "twice", 1))}
	must(t, p.client.Create(t.Context(), m))
	p.until("the Machine lists every image of that name", func() bool {
		must(t, p.client.Get(t.Context(), client.ObjectKeyFromObject(m), m))
		for _, id := range names {
			if !strings.Contains(ptr.Deref(m.Status.ErrorMessage, ""), id) {
				return false
			}
		}
		return true
	})
	p.until("and an Event the beginning of it", func() bool { return strings.HasSuffix(p.noteOf(m), "…") && len(p.noteOf(m)) <= mostNote })
}

// noteOf returns the note of the last Event about a Machine; empty when there is no Event.
func (p *pair) noteOf(m *v1alpha1.Machine) (note string) {
	var list corev1.EventList
	must(p.T, p.client.List(p.Context(), &list, client.InNamespace(m.Namespace)))
	for i := range list.Items {
		if list.Items[i].InvolvedObject.UID == m.UID {
			note = list.Items[i].Message
		}
	}
	return note
}

func conditionOf(m *v1alpha1.Machine, kind string) v1alpha1.MachineCondition {
	for _, c := range m.Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return v1alpha1.MachineCondition{}
}
