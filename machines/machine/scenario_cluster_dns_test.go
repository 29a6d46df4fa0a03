package machine_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/bootstrap"
	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/machine"
)

func TestAMachineWaitsForTheClustersDNSService(t *testing.T) {
	t.Run("a Machine waits while the cluster has no DNS Service, says how to go on, and gets its server within a minute of the Service (F-152)", func(t *testing.T) {
		b := newBench(t, nil)
		source := bootstrap.New(bootstrap.Options{Control: b.memory, Target: b.memory, Clock: b.clock, APIServer: "https://127.0.0.1:1"})
		b.start(machine.Options{Control: b.memory, Target: b.memory, Cloud: b.cloud, Bootstrap: source, Clock: b.clock})
		for range 20 {
			b.pass()
			b.wait(time.Minute)
		}
		m := b.read()
		ready := m.Condition(v1alpha1.ConditionReady)
		if m.Spec.ProviderID != nil || ready.Status != corev1.ConditionFalse || ptr.Deref(m.Status.ErrorReason, "") != string(fault.CodeBootstrapPending) {
			t.Fatalf("after 20 minutes without a DNS Service, the error is %v and Ready is %+v", m.Status.ErrorReason, ready)
		}
		for _, part := range []string{"create Service kube-dns", "--cluster-dns"} {
			if !strings.Contains(ready.Message, part) {
				t.Errorf("the message lacks %q: %s", part, ready.Message)
			}
		}
		if lacks := unexplained(m); lacks != "" {
			t.Errorf("the Machine lacks %s: %s", lacks, ready.Message)
		}
		b.create(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kube-dns"}, Spec: corev1.ServiceSpec{ClusterIPs: []string{"10.96.0.10"}}})
		b.wait(time.Minute)
		for range 3 {
			b.pass()
		}
		if m := b.read(); m.Spec.ProviderID == nil {
			t.Errorf("a minute after the Service appeared, the Machine has no server: %+v", m.Condition(v1alpha1.ConditionReady))
		}
	})
}
