package machine_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/bootstrap"
	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/machine"
)

// newUserDataBench returns a bench with a cluster's DNS Service. Its controller finds all facts of user data in the cluster.
func newUserDataBench(t *testing.T) *bench {
	b := newBench(t, nil)
	b.create(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kube-dns"}, Spec: corev1.ServiceSpec{ClusterIPs: []string{"10.96.0.10"}}})
	source := bootstrap.New(bootstrap.Options{Control: b.memory, Target: b.memory, Clock: b.clock, APIServer: "https://127.0.0.1:1"})
	b.start(machine.Options{Control: b.memory, Target: b.memory, Cloud: b.cloud, Bootstrap: source, Clock: b.clock})
	return b
}

func TestEachErrorAboutUserDataIsShownWithItsClass(t *testing.T) {
	// The calls that user data needs are those before the server is created. Writes of the Machine have a row of their own.
	var calls []string
	b := newUserDataBench(t)
	b.failing = func(call string) error {
		if m := b.cloud.servers; len(m) == 0 && !slices.Contains(calls, call) && !strings.Contains(call, "v1alpha1") {
			calls = append(calls, call)
		}
		return nil
	}
	for range 3 {
		b.pass()
	}
	for _, want := range []string{"GET *v1.ConfigMap", "LIST *v1.ServiceList", "CREATE *v1.Secret"} {
		if !slices.Contains(calls, want) {
			t.Fatalf("user data needs the calls %q, which lack %s", calls, want)
		}
	}
	refused := schema.GroupResource{Resource: "things"}
	for _, call := range calls {
		for _, tc := range []struct {
			name  string
			err   error
			code  fault.Code
			class fault.Class
		}{
			{"refused", apierrors.NewForbidden(refused, "it", errors.New("no such right")), fault.CodeForbidden, fault.Auth},
			{"not answered", apierrors.NewInternalError(errors.New("etcd is away")), fault.CodeBootstrapPending, fault.Transient},
		} {
			t.Run("a call for user data that is "+tc.name+" is shown with its class: "+call+" (F-154)", func(t *testing.T) {
				b := newUserDataBench(t)
				b.failing = func(this string) error {
					if this == call {
						return tc.err
					}
					return nil
				}
				for range 3 {
					b.pass()
					b.wait(time.Minute)
				}
				m := b.read()
				code := fault.Code(ptr.Deref(m.Status.ErrorReason, ""))
				if code != tc.code || fault.ClassOf(code) != tc.class || !strings.Contains(ptr.Deref(m.Status.ErrorMessage, ""), tc.err.Error()) {
					t.Errorf("the error is %q: %s", code, ptr.Deref(m.Status.ErrorMessage, ""))
				}
				if lacks := unexplained(m); lacks != "" {
					t.Errorf("the Machine lacks %s: %s", lacks, m.Condition(v1alpha1.ConditionReady).Message)
				}
				b.failing = nil
				b.wait(10 * time.Minute)
				for range 3 {
					b.pass()
				}
				if m := b.read(); m.Spec.ProviderID == nil || m.Status.ErrorReason != nil {
					t.Errorf("after the failure, the Machine has no server, or still an error: %+v", m.Status)
				}
			})
		}
	}
}
