//go:build cluster

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/rollout"
	"github.com/drover-project/drover/test/autoscaler"
	"github.com/drover-project/drover/test/sandbox"
	"github.com/drover-project/drover/test/sandbox/scenario"
)

const (
	rolling = "rolling"
	// settles is how long the numbers of Machines and servers may lag behind a change of the group's size.
	settles = 5 * time.Second
)

// TestARolloutWhileTheAutoscalerScales rolls a group while the autoscaler scales it up, then down, and watches the
// group throughout.
func TestARolloutWhileTheAutoscalerScales(t *testing.T) {
	t.Parallel()
	s := sandbox.ForTest(t, sandbox.Options{Drover: drover, BootTime: time.Second, Scaling: autoscaler.Options{
		ScaleDownUnneededTime: 2 * time.Second, ScaleDownDelayAfterAdd: time.Second,
	}})
	t.Run("the number of nodes stays within maxSurge and maxUnavailable, and DeleteNodes removes the nodes that it names (MC-16, MC-17, MCM-7, MCM-8, CA-C80, CA-C88)", func(t *testing.T) { rolloutWhileScaled(t, s) })
	t.Run("drover serves the plans of the rollout at /plans, and computing a plan again yields the same plan", func(t *testing.T) { plansAreServed(t, s) })
	t.Run("deleting the deployment leaves none of its objects and none of its servers (MC-31, MCM-23)", func(t *testing.T) { nothingIsLeft(t, s) })
}

func rolloutWhileScaled(t *testing.T, s *sandbox.Sandbox) {
	d, err := scenario.NewDemo(s)
	if err != nil {
		t.Fatal(err)
	}
	group := badGroup{name: rolling, replicas: "3", old: "  selector:", new: "  strategy: {rollingUpdate: {maxSurge: 2, maxUnavailable: 0}}\n  selector:"}
	apply(t, s, rolling, group.manifest(t, d))
	load(t, s, 3)
	before := &watcher{s: s}
	eventually(t, func(ctx context.Context) (string, error) {
		now, err := before.look(ctx)
		if err != nil || now.available == 3 {
			return "", err
		}
		return fmt.Sprintf("3 nodes, %d are available", now.available), nil
	})

	w := watch(t, s)
	patch := `{"spec":{"template":{"spec":{"metadata":{"labels":{"roll":"second"}}}}}}`
	if err := s.Client.Patch(t.Context(), deployment(), client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		t.Fatal(err)
	}
	load(t, s, 5)
	eventually(t, w.until("5 wanted, and a new one available", func(l look) bool { return l.replicas >= 5 && l.updated > 0 }))
	load(t, s, 2)
	eventually(t, w.until("the autoscaler to remove some in the roll", func(l look) bool { return l.removed > 0 }))
	eventually(t, w.until("the roll to end", func(l look) bool {
		return l.replicas <= 3 && l.inFlight == 0 && l.living == l.replicas && l.available == l.replicas && l.updated == l.replicas && l.servers == l.replicas
	}))
	w.judge(t)
}

// nothingIsLeft deletes the deployment and waits until neither the cluster nor the cloud holds anything of it.
func nothingIsLeft(t *testing.T, s *sandbox.Sandbox) {
	if err := s.Client.Delete(t.Context(), deployment()); err != nil {
		t.Fatal(err)
	}
	eventually(t, func(ctx context.Context) (string, error) {
		var left []string
		for _, list := range []client.ObjectList{&v1alpha1.MachineDeploymentList{}, &v1alpha1.MachineSetList{}, &v1alpha1.MachineList{}, &corev1.NodeList{}} {
			if err := s.Client.List(ctx, list); err != nil {
				return "", err
			}
			if n := meta.LenList(list); n > 0 {
				left = append(left, fmt.Sprintf("%d in %T", n, list))
			}
		}
		cloud := s.Cloud.Leftovers()
		if n := len(cloud.Servers) + len(cloud.Ports) + len(cloud.FloatingIPs) + len(cloud.Volumes); n > 0 {
			left = append(left, fmt.Sprintf("in the cloud %+v", cloud))
		}
		return strings.Join(left, ", "), nil
	})
}

// plansAreServed reads the plans of the rollout from the running drover. It checks that drover's decision is the same
// when each plan is computed again.
func plansAreServed(t *testing.T, s *sandbox.Sandbox) {
	t.Helper()
	url := "http://" + s.MetricsAddress() + "/plans?group=MachineDeployment/" + metav1.NamespaceSystem + "/" + rolling
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	var records []rollout.Record
	if err := json.NewDecoder(answer.Body).Decode(&records); err != nil || len(records) < 3 {
		t.Fatalf("%s: %d plans, %v", answer.Status, len(records), err)
	}
	for _, record := range records {
		again, err := record.Replay()
		if err != nil || !slices.Equal(again.Steps, record.Steps) {
			t.Errorf("%v: was %v, made again %v", err, record.Steps, again.Steps)
		}
	}
}

// load creates pods that each need a node of their own, or changes their number.
func load(t *testing.T, s *sandbox.Sandbox, pods int32) {
	t.Helper()
	labels := map[string]string{"app": "load"}
	grace := int64(1)
	work := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "load", Namespace: corev1.NamespaceDefault},
		Spec: appsv1.DeploymentSpec{Replicas: &pods, Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec: corev1.PodSpec{TerminationGracePeriodSeconds: &grace, Containers: []corev1.Container{{
				Name: "load", Image: "example.invalid/load",
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1100m")}},
			}}},
		}},
	}
	err := s.TargetClient.Create(t.Context(), work)
	if client.IgnoreAlreadyExists(err) == nil && err != nil {
		err = s.TargetClient.Patch(t.Context(), work, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, pods)))
	}
	if err != nil {
		t.Fatal(err)
	}
}

func deployment() *v1alpha1.MachineDeployment {
	return &v1alpha1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Name: rolling, Namespace: metav1.NamespaceSystem}}
}

// look is one observation of the group: numbers of Machines by their state, and the number of servers.
type look struct {
	at                                                      time.Time
	replicas, living, available, updated, removed, inFlight int
	servers                                                 int
	// going holds the available Machines that are being deleted although no entry of spec.removals named them.
	going map[string]bool
}

// watcher observes the group repeatedly, and notes violations of the rules.
type watcher struct {
	s *sandbox.Sandbox

	mu    sync.Mutex
	looks []look
	// named holds the Machines that entries of spec.removals have named. there holds the Machines in the last observation.
	named, there map[string]bool
	updated      map[string]bool
	usable       map[string]bool
	wrong        []string
}

func watch(t *testing.T, s *sandbox.Sandbox) *watcher {
	w := &watcher{s: s, named: map[string]bool{}, there: map[string]bool{}, updated: map[string]bool{}, usable: map[string]bool{}}
	ctx, cancel := context.WithCancel(t.Context())
	var work sync.WaitGroup
	work.Go(func() {
		ticker := time.NewTicker(pollEvery)
		defer ticker.Stop()
		for {
			if now, err := w.look(ctx); err == nil {
				w.note(now)
			}
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
		}
	})
	t.Cleanup(func() {
		cancel()
		work.Wait()
	})
	return w
}

func (w *watcher) look(ctx context.Context) (look, error) {
	l := look{at: time.Now(), going: map[string]bool{}}
	d := deployment()
	if err := w.s.Client.Get(ctx, client.ObjectKeyFromObject(d), d); err != nil {
		return l, err
	}
	var machines v1alpha1.MachineList
	if err := w.s.Client.List(ctx, &machines, client.MatchingLabels{"group": rolling}); err != nil {
		return l, err
	}
	for _, server := range w.s.Cloud.Servers() {
		if strings.HasPrefix(server.Name, rolling+"-") {
			l.servers++
		}
	}
	if d.Spec.Replicas != nil {
		l.replicas = int(*d.Spec.Replicas)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range d.Spec.Removals {
		if w.named != nil {
			w.named[r.Name] = true
		}
	}
	l.removed = len(d.Spec.Removals)
	w.there = map[string]bool{}
	for i := range machines.Items {
		w.count(&l, &machines.Items[i])
	}
	return l, nil
}

// count adds one Machine to an observation of the group.
func (w *watcher) count(l *look, m *v1alpha1.Machine) {
	w.there[m.Name] = true
	f := rollout.Facts(m, 0, l.at)
	if m.Spec.Metadata.Labels["roll"] == "second" && w.updated != nil {
		w.updated[m.Name] = true
	}
	switch {
	case w.named[m.Name]:
		l.inFlight++
	case !m.DeletionTimestamp.IsZero():
		if w.usable[m.Name] {
			l.going[m.Name] = true
		}
	default:
		l.living++
		if !f.Available {
			return
		}
		l.available++
		if w.usable != nil {
			w.usable[m.Name] = true
		}
		if w.updated[m.Name] {
			l.updated++
		}
	}
}

// note checks an observation of the group against the rules. Machines and servers follow a new size only after some
// time, so the rules use the smallest and the largest size of the last seconds.
func (w *watcher) note(now look) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.looks = append(w.looks, now)
	low, high, inFlight := now.replicas, now.replicas, now.inFlight
	for _, l := range slices.Backward(w.looks) {
		if now.at.Sub(l.at) > settles {
			break
		}
		low, high, inFlight = min(low, l.replicas), max(high, l.replicas), max(inFlight, l.inFlight)
	}
	if len(w.looks) > 1 {
		last := w.looks[len(w.looks)-2]
		for name := range now.going {
			if !last.going[name] && now.available < low {
				w.wrong = append(w.wrong, fmt.Sprintf("MC-16 %s goes and %d of %d are available", name, now.available, low))
			}
		}
	}
	const surge = 2
	if now.servers > high+surge+inFlight {
		w.wrong = append(w.wrong, fmt.Sprintf("MC-17 %d servers, the size is %d, surge %d, %d removals are under way", now.servers, high, surge, inFlight))
	}
}

// until returns a check that succeeds when reached returns true for the last observation of the group.
func (w *watcher) until(what string, reached func(look) bool) func(context.Context) (string, error) {
	return func(context.Context) (string, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if len(w.looks) == 0 {
			return what, nil
		}
		if last := w.looks[len(w.looks)-1]; !reached(last) {
			return fmt.Sprintf("%s: now %+v", what, last), nil
		}
		return "", nil
	}
}

// judge reports all violations: those that were noted, named Machines that still exist, and Machines of the new template
// that were deleted although they were not named.
func (w *watcher) judge(t *testing.T) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, wrong := range w.wrong {
		t.Error(wrong)
	}
	for name := range w.named {
		if w.there[name] {
			t.Errorf("CA-C80 %s was named and is still there", name)
		}
	}
	for name := range w.updated {
		if !w.there[name] && !w.named[name] {
			t.Errorf("CA-C88 %s, of the new template, went although nothing named it", name)
		}
	}
	t.Logf("%d looks, %d removals, %d Machines of the new template", len(w.looks), len(w.named), len(w.updated))
}
