//go:build cluster

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/drover-project/drover/autoscale"
	"github.com/drover-project/drover/deploy"
	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/nodegroup"
	"github.com/drover-project/drover/nodegroup/model/membership"
	"github.com/drover-project/drover/proto"
	"github.com/drover-project/drover/test/kube/memory"
	"github.com/drover-project/drover/test/memorycloud"
)

// between is a transport to an API server that misbehaves as load balancers and proxies do.
type between struct {
	next http.RoundTripper
	// lost makes all requests fail. refuses is a resource that drover may not read, and refused counts the refusals. noBookmarks drops the
	// bookmarks of all watches. keepsBack is how many bytes of events a watch keeps back until it passes them on.
	lost, noBookmarks  atomic.Bool
	refuses            atomic.Pointer[string]
	refused, keepsBack atomic.Int64
}

func (b *between) RoundTrip(r *http.Request) (*http.Response, error) {
	if b.lost.Load() {
		return nil, errors.New("connect: connection refused")
	}
	if name := b.refuses.Load(); name != nil && strings.Contains(r.URL.Path+"/", "/"+*name+"/") {
		b.refused.Add(1)
		refusal := apierrors.NewForbidden(schema.GroupResource{Resource: *name}, "", errors.New("this user cannot list or watch it")).Status()
		body, err := json.Marshal(&refusal)
		return &http.Response{
			StatusCode: http.StatusForbidden, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(body)), Request: r,
		}, err
	}
	answer, err := b.next.RoundTrip(r)
	if watch, _ := strconv.ParseBool(r.URL.Query().Get("watch")); err == nil && watch {
		answer.Body = &watchBody{between: b, lines: bufio.NewReader(answer.Body), Closer: answer.Body}
	}
	return answer, err
}

// watchBody is the body of a watch, one event a line, as a between passes it on.
type watchBody struct {
	between *between
	lines   *bufio.Reader
	// kept holds the events that are kept back, and left those that are passed on.
	kept, left []byte
	io.Closer
}

// Read implements io.Reader.
func (w *watchBody) Read(into []byte) (int, error) {
	for len(w.left) == 0 {
		line, err := w.lines.ReadBytes('\n')
		if err != nil {
			return copy(into, line), err
		}
		if w.between.noBookmarks.Load() && bytes.HasPrefix(line, []byte(`{"type":"BOOKMARK"`)) {
			continue
		}
		if w.kept = append(w.kept, line...); int64(len(w.kept)) >= w.between.keepsBack.Load() {
			w.left, w.kept = w.kept, nil
		}
	}
	n := copy(into, w.left)
	w.left = w.left[n:]
	return n, nil
}

// apart is a drover in virtual time, with a between to its API server.
type apart struct {
	*testing.T
	*between
	server *memory.Server
	client client.Client
	groups *nodegroup.Groups
	// running is what ends with ctx. ended is true when drover has ended.
	ctx     context.Context
	running sync.WaitGroup
	ended   atomic.Bool
	log     *sharedLog
}

// sharedLog is the log of the drovers of a process.
type sharedLog struct {
	mu   sync.Mutex
	text strings.Builder
}

// take returns the log since the last call.
func (l *sharedLog) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.text.Reset()
	return l.text.String()
}

// logToTest makes all loggers of the process write to the returned log.
func logToTest() *sharedLog {
	l := &sharedLog{}
	logger := funcr.New(func(prefix, args string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.text.WriteString(prefix + " " + args + "\n")
	}, funcr.Options{})
	ctrl.SetLogger(logger)
	klog.SetLogger(logger)
	return l
}

// playApart runs a drover in a bubble. spoil is called before drover starts.
func playApart(t *testing.T, log *sharedLog, spoil, play func(*apart)) {
	t.Helper()
	metrics.Registry = prometheus.NewRegistry()
	a := &apart{log: log}
	synctest.Test(t, func(t *testing.T) {
		a.T = t
		kinds, err := deploy.Objects("crds")
		must(t, err)
		catalog, err := memory.NewCatalog(kinds...)
		must(t, err)
		a.server, err = memory.New(memory.Options{Catalog: catalog})
		must(t, err)
		a.client, err = client.New(a.server.Config("admin", "system:masters"), client.Options{Scheme: knownKinds()})
		must(t, err)
		must(t, a.client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "drover"}}))
		a.between = &between{next: a.server.RoundTripper("drover", "system:masters")}
		var stop func()
		a.ctx, stop = context.WithCancel(context.Background())
		defer a.running.Wait()
		defer stop()
		spoil(a)
		serving := make(chan *nodegroup.Groups, 1)
		a.running.Go(func() {
			defer a.ended.Store(true)
			o := defaults()
			o.metricsAddress, o.healthAddress, o.features, o.grpcAddress = off, off, []string{grpcInsecure}, autoscale.DefaultAddress
			must(t, serve(a.ctx, o, surroundings{
				cluster: tuned(a.server.ConfigOver(a.between)), cloud: memorycloud.New(0), several: true,
				local: func(_ *autoscale.Server, groups *nodegroup.Groups) { serving <- groups },
			}))
		})
		a.groups = <-serving
		play(a)
	})
}

// within waits until something holds, for at most the given time. When it does not, the process ends: a manager that is stopped before its
// caches are synced spins, and then time would stand still in the bubble.
func (a *apart) within(limit time.Duration, what string, ok func() bool) {
	a.Helper()
	for began := time.Now(); !ok(); time.Sleep(100 * time.Millisecond) {
		if time.Since(began) > limit {
			a.Logf("not within %s: %s; the log is\n%s", limit, what, a.log.take())
			os.Exit(1)
		}
	}
}

// ready reports whether /readyz would answer that drover is ready: it serves when its node groups are synced.
func (a *apart) ready() bool {
	select {
	case <-a.groups.Synced():
		return a.groups.Trusted() == nil
	default:
		return false
	}
}

// isReady waits until drover is ready, or until it is not.
func (a *apart) isReady(want bool, limit time.Duration) {
	a.Helper()
	a.within(limit, fmt.Sprintf("ready: %v", want), func() bool { return a.ready() == want })
}

// logged fails the test unless the log has the texts.
func (a *apart) logged(texts ...string) {
	a.Helper()
	log := a.log.take()
	for _, text := range texts {
		if !strings.Contains(log, text) {
			a.Errorf("the log lacks %q:\n%s", text, log)
		}
	}
}

// leads reports whether a drover holds the lease.
func (a *apart) leads() bool {
	l := &coordinationv1.Lease{}
	err := a.client.Get(a.Context(), client.ObjectKey{Namespace: "drover", Name: leaseName}, l)
	must(a.T, client.IgnoreNotFound(err))
	return ptr.Deref(l.Spec.HolderIdentity, "") != ""
}

// anotherLeads makes another replica hold the lease until the test ends.
func (a *apart) anotherLeads() {
	l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "drover", Name: leaseName}}
	l.Spec.HolderIdentity, l.Spec.LeaseDurationSeconds = ptr.To("another"), ptr.To(int32(leaseLife/time.Second))
	must(a.T, a.client.Create(a.Context(), l))
	a.running.Go(func() {
		for ; a.ctx.Err() == nil; time.Sleep(leaseRetry) {
			l.Spec.RenewTime = ptr.To(metav1.NowMicro())
			_ = a.client.Update(a.ctx, l)
		}
	})
}

// This test has a process of its own, because a drover uses global registries.
func TestAReplicaWhoseConnectionToTheAPIServerIsTroubled(t *testing.T) {
	if !ownProcess(t) {
		return
	}
	const kind = "certificatesigningrequests"
	log := logToTest()
	for name, tt := range map[string]struct{ spoil, play func(*apart) }{
		"a replica that has lost the API server is not ready after 30 s, and does not end (F-145, MC-77)": {(*apart).anotherLeads, func(a *apart) {
			a.isReady(true, time.Minute)
			a.lost.Store(true)
			a.server.CutWatches()
			a.isReady(false, 45*time.Second)
			if time.Sleep(time.Minute); a.ended.Load() {
				a.Error("it has ended")
			}
		}},
		"a replica that may not read the certificate requests does not lead until it has the right, and logs what grants it (F-147)": {
			func(a *apart) { a.refuses.Store(ptr.To(kind)) },
			func(a *apart) {
				// A replica that led would watch the certificate requests only after it has taken the lease.
				a.within(2*time.Minute, "its lists have been refused", func() bool { return a.refused.Load() >= 4 })
				if a.leads() || a.ready() {
					a.Errorf("it leads: %v; ready: %v", a.leads(), a.ready())
				}
				a.refuses.Store(nil)
				a.within(2*time.Minute, "it leads", a.leads)
				a.isReady(true, time.Minute)
				a.logged("Lacking a right", kind, "ClusterRole drover")
			},
		},
		"drover becomes ready although the bookmarks that end streaming lists never come, and logs how to avoid the wait (F-146)": {
			func(a *apart) { a.noBookmarks.Store(true) },
			func(a *apart) {
				a.isReady(true, time.Minute)
				a.logged("KUBE_FEATURE_WatchListClient=false")
			},
		},
		"drover is not ready while a change has not arrived for 30 s, until the watches deliver it, and logs that a proxy may buffer (F-145, F-146)": {
			func(*apart) {},
			func(a *apart) {
				a.isReady(true, time.Minute)
				d := &v1alpha1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "buffered"}}
				d.Spec.Replicas, d.Spec.Selector.MatchLabels = ptr.To[int32](0), map[string]string{"a": "b"}
				d.Spec.Template.Metadata.Labels = d.Spec.Selector.MatchLabels
				must(a.T, a.client.Create(a.Context(), d))
				change := func(value string) {
					must(a.T, a.client.Patch(a.Context(), d, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"example.com/changed":"`+value+`"}}}`))))
				}
				time.Sleep(time.Minute) // by then the caches have the deployment, and drover has written all that it writes
				a.keepsBack.Store(1 << 20)
				change("while watches are buffered")
				// Each kind is compared with the API server every 20 s, and the 30 s begin with the first difference.
				a.isReady(false, 2*time.Minute)
				a.keepsBack.Store(0)
				change("now")
				a.isReady(true, time.Minute)
				a.logged("may buffer its answers")
			},
		},
	} {
		t.Run(name, func(t *testing.T) { playApart(t, log, tt.spoil, tt.play) })
	}
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
