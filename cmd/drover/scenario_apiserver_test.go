//go:build cluster

package main

import (
	"fmt"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/nodegroup/model/membership"
	"github.com/drover-project/drover/proto"
	"github.com/drover-project/drover/test/kube"
)

// behind starts a drover that reaches the API server only through a proxy that the test can make misbehave. spoil, when it is not nil, does
// so before drover starts. The address is that of /readyz and /healthz.
func (p *pair) behind(user string, spoil func(*kube.Between)) (between *kube.Between, drover *exec.Cmd, address string) {
	p.Helper()
	config, err := p.kube.ConfigForUser(user, "system:masters")
	must(p.T, err)
	between, err = kube.NewBetween(config)
	must(p.T, err)
	p.Cleanup(func() { _ = between.Close() })
	if spoil != nil {
		spoil(between)
	}
	address = "http://" + freePort(p.T)
	return between, p.replicaWith(user, between.Config, "--health-address="+strings.TrimPrefix(address, "http://")), address
}

// log ends a drover and returns its log.
func (p *pair) log(drover *exec.Cmd) string {
	p.Helper()
	must(p.T, drover.Process.Signal(syscall.SIGTERM))
	must(p.T, drover.Wait())
	return fmt.Sprint(drover.Stdout)
}

// leads reports whether a drover holds the lease.
func (p *pair) leads() bool { h := p.lease().Spec.HolderIdentity; return h != nil && *h != "" }

func TestAReplicaThatLosesTheAPIServerForGoodIsNotReady(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.replica("healthy")
	p.until("the healthy replica leads", p.leads)
	between, _, address := p.behind("lost", nil)
	answers := func(page string, want int) func() bool {
		return func() bool { return status(t, address+page) == want }
	}
	p.until("the other replica is ready", answers("/readyz", http.StatusOK))
	must(t, between.Close())
	t.Run("a replica that has lost the API server is not ready after 30 s, and still alive (F-145, MC-77)", func(t *testing.T) {
		p := p.in(t)
		p.until("it is not ready", answers("/readyz", http.StatusInternalServerError))
		if code := status(t, address+"/healthz"); code != http.StatusOK {
			t.Errorf("/healthz answers %d", code)
		}
	})
}

func TestAReplicaThatMayNotReadAKindDoesNotLead(t *testing.T) {
	t.Parallel()
	const kind = "certificatesigningrequests"
	p := newPair(t)
	between, drover, address := p.behind("refused", func(b *kube.Between) { b.Refuse(kind) })
	t.Run("a replica that may not read the certificate requests is not ready and does not take the lease (F-147)", func(t *testing.T) {
		p := p.in(t)
		// A replica that led would watch the certificate requests only after it has taken the lease.
		p.until("its lists have been refused", func() bool { return between.Refused.Load() >= 4 })
		if p.leads() || status(t, address+"/readyz") != http.StatusInternalServerError {
			t.Errorf("it leads: %v; /readyz answers %d", p.leads(), status(t, address+"/readyz"))
		}
	})
	t.Run("the replica leads once it has the right (F-147)", func(t *testing.T) {
		p := p.in(t)
		between.Refuse("")
		p.until("it leads", p.leads)
		p.until("it is ready", func() bool { return status(t, address+"/readyz") == http.StatusOK })
	})
	t.Run("its log names the missing right and the object that grants it (F-147)", func(t *testing.T) {
		if log := p.in(t).log(drover); !strings.Contains(log, "Lacking a right") || !strings.Contains(log, kind) || !strings.Contains(log, "ClusterRole drover") {
			t.Errorf("it does not:\n%s", log)
		}
	})
}

func TestAProxyThatDropsWatchBookmarks(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	_, drover, address := p.behind("proxied", (*kube.Between).DropBookmarks)
	t.Run("drover becomes ready although the bookmarks that end streaming lists never come (F-146)", func(t *testing.T) {
		p := p.in(t)
		p.until("it is ready", func() bool { return status(t, address+"/readyz") == http.StatusOK })
	})
	t.Run("the log says what drops the bookmarks, and how to avoid the wait (F-146)", func(t *testing.T) {
		if log := p.in(t).log(drover); !strings.Contains(log, "KUBE_FEATURE_WatchListClient=false") {
			t.Errorf("it does not:\n%s", log)
		}
	})
}

func TestAProxyThatBuffersWatches(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	between, drover, address := p.behind("buffered", nil)
	answers := func(want int) func() bool { return func() bool { return status(t, address+"/readyz") == want } }
	p.until("drover is ready", answers(http.StatusOK))
	d := p.seed()
	d.ObjectMeta = metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "buffered"}
	must(t, p.client.Create(t.Context(), d))
	p.until("drover knows the deployment", func() bool {
		must(t, p.client.Get(t.Context(), client.ObjectKeyFromObject(d), d))
		return d.Status.NodeTemplate != nil
	})
	change := func(value string) {
		t.Helper()
		must(t, p.client.Patch(t.Context(), d, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"example.com/changed":"`+value+`"}}}`))))
	}
	t.Run("drover is not ready while a change has not arrived for 30 s, so that the autoscaler finds another replica (F-145)", func(t *testing.T) {
		p := p.in(t)
		between.Buffer(1 << 20)
		change("while watches are buffered")
		// Each kind is compared with the API server every 20 s, and the 30 s begin with the first difference.
		p.within(3*time.Minute, "it is not ready", answers(http.StatusInternalServerError))
	})
	t.Run("drover is ready again once the watches deliver their events (F-145)", func(t *testing.T) {
		p := p.in(t)
		between.Buffer(0)
		change("now")
		p.until("it is ready", answers(http.StatusOK))
	})
	t.Run("the log names proxies that buffer answers (F-146)", func(t *testing.T) {
		if log := p.in(t).log(drover); !strings.Contains(log, "may buffer its answers") {
			t.Errorf("it does not:\n%s", log)
		}
	})
}

func TestMachinesThatTheAPIServerDoesNotCreate(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.refuseMachines()
	address := socketAddress(t)
	p.replica("drover", "--grpc-address="+address)
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	must(t, err)
	t.Cleanup(func() { must(t, conn.Close()) })
	autoscaler := proto.NewCloudProviderClient(conn)
	for _, tt := range []struct {
		name, namespace, text string
		code                  fault.Code
		// shown is true when the autoscaler is shown the error at once.
		shown bool
	}{
		{"an object quota that is used up is shown on the deployment, in an Event, and to the autoscaler (F-148)", "quota", "exceeded quota", fault.CodeObjectQuotaExceeded, true},
		{"the refusal of an admission policy is shown on the deployment, in an Event, and to the autoscaler (F-148)", "policy", "no Machines here", fault.CodeMachineRefused, true},
		{"a webhook that nobody answers is shown on the deployment and in an Event (F-148)", "webhook", "failed calling webhook", fault.CodeCreateError, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := p.in(t)
			d := p.seed()
			d.ObjectMeta = metav1.ObjectMeta{Namespace: tt.namespace, Name: "refused", Annotations: map[string]string{v1alpha1.AnnotationsMinSize[0]: "0", v1alpha1.AnnotationsMaxSize[0]: "5"}}
			must(t, p.client.Create(t.Context(), d))
			p.until("the deployment names the cause of its missing Machines", func() bool {
				must(t, p.client.Get(t.Context(), client.ObjectKeyFromObject(d), d))
				c := meta.FindStatusCondition(d.Status.Conditions, v1alpha1.ConditionDegraded)
				return c != nil && c.Status == metav1.ConditionTrue && strings.Contains(c.Message, string(tt.code)) && strings.Contains(c.Message, tt.text)
			})
			p.until("an Event of the deployment says it", func() bool {
				var list eventsv1.EventList
				must(t, p.client.List(t.Context(), &list, client.InNamespace(tt.namespace)))
				return slices.ContainsFunc(list.Items, func(e eventsv1.Event) bool {
					return e.Regarding.Kind == v1alpha1.MachineDeploymentKind.Kind && e.Type == corev1.EventTypeWarning && strings.Contains(e.Note, tt.text)
				})
			})
			if !tt.shown {
				return
			}
			p.until("the autoscaler is shown the error", func() bool {
				// Only a Refresh makes a new group known at once.
				if _, err := autoscaler.Refresh(t.Context(), &proto.RefreshRequest{}); err != nil {
					return false
				}
				answer, err := autoscaler.NodeGroupNodes(t.Context(), &proto.NodeGroupNodesRequest{Id: membership.ID(tt.namespace, d.Name)})
				return err == nil && len(answer.GetInstances()) > 0 && answer.GetInstances()[0].GetStatus().GetErrorInfo().GetErrorCode() == string(tt.code)
			})
		})
	}
}

// refuseMachines makes the API server create no Machines in three namespaces, each for another reason.
func (p *pair) refuseMachines() {
	p.Helper()
	create := func(o client.Object) { must(p.T, p.client.Create(p.Context(), o)) }
	for _, name := range []string{"quota", "policy", "webhook"} {
		create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "quota", Name: "machines"}}
	quota.Spec.Hard = corev1.ResourceList{"count/machines.cluster.k8s.io": resource.MustParse("0")}
	create(quota)
	// Without a controller manager nobody else writes the status, by which the API server judges.
	quota.Status = corev1.ResourceQuotaStatus{Hard: quota.Spec.Hard, Used: quota.Spec.Hard}
	must(p.T, p.client.Status().Update(p.Context(), quota))
	in := func(namespace string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}}
	}
	machines := admissionv1.RuleWithOperations{Operations: []admissionv1.OperationType{admissionv1.Create}, Rule: admissionv1.Rule{
		APIGroups: []string{v1alpha1.GroupVersion.Group}, APIVersions: []string{"*"}, Resources: []string{"machines"},
	}}
	create(&admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "dead"}, Webhooks: []admissionv1.ValidatingWebhook{{
		Name: "dead.example.com", NamespaceSelector: in("webhook"), Rules: []admissionv1.RuleWithOperations{machines},
		ClientConfig: admissionv1.WebhookClientConfig{URL: ptr.To("https://127.0.0.1:1/")}, SideEffects: ptr.To(admissionv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"},
	}}})
	create(&admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "none"}, Spec: admissionv1.ValidatingAdmissionPolicySpec{
		MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: machines}}},
		Validations:      []admissionv1.Validation{{Expression: "false", Message: "no Machines here"}},
	}})
	create(&admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: "none"}, Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
		PolicyName: "none", ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny}, MatchResources: &admissionv1.MatchResources{NamespaceSelector: in("policy")},
	}})
	p.until("the policy is in force", func() bool {
		m := &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "policy", Name: "m"}}
		m.Spec.ProviderSpec.Value = &runtime.RawExtension{Raw: []byte(providerSpec)}
		err := p.client.Create(p.Context(), m, client.DryRunAll)
		return err != nil && strings.Contains(err.Error(), "no Machines here")
	})
}
