package openstack

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

func TestNodeGroupOfAMachineIsItsDeploymentOrBareSet(t *testing.T) {
	owned := func(set, hash string) *v1alpha1.Machine {
		m := &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "m"}}
		if set != "" {
			m.OwnerReferences = []metav1.OwnerReference{{Name: set, Controller: ptr.To(true)}}
		}
		if hash != "" {
			m.Labels = map[string]string{v1alpha1.LabelTemplateHash: hash}
		}
		return m
	}
	for want, m := range map[string]*v1alpha1.Machine{
		"n/workers": owned("workers-12345", "12345"), "n/bare": owned("bare", ""), "n/": owned("", ""),
	} {
		if got := groupOfMachine(m); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestWarningsListTheSpecFieldsThatHaveNoEffect(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	m := newMachine(t, "a", seedFields().with("trustDevicePath", true).with("NodeVolumeAttachLimit", 25))
	got := b.instance(m).Warnings()
	if len(got) != 2 || got[0] != "Machine kube-system/a: spec.providerSpec.value.cloudProviderSpec.NodeVolumeAttachLimit: has no effect (the limit is an option of the Cinder CSI driver); you may remove it" {
		t.Errorf("got %q", got)
	}
	m = newMachine(t, "a", seedFields().with("flaver", "x"))
	m.Spec.ProviderID = ptr.To("openstack:///" + "11111111-0000-0000-0000-000000000001")
	if got := b.instance(m).Warnings(); len(got) != 1 {
		t.Errorf("an unknown key of a Machine with a server is a warning: %q", got)
	}
	if got := b.instance(newMachine(t, "a", seedFields())).Warnings(); len(got) != 0 {
		t.Errorf("got %q", got)
	}
}
