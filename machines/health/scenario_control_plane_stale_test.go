package health_test

import (
	"context"
	"errors"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/health"
)

// This file has parts of TestHealthChecksOnARealControlPlane and TestHealthChecksBesideDroversOtherControllers: those about another
// leader, a refused deletion, and reads that are out of date.

// dying is a client whose deletions fail, as if the process ended before it deletes anything.
type dying struct{ client.Client }

func (dying) Delete(context.Context, client.Object, ...client.DeleteOption) error {
	return errors.New("the process has ended")
}

func (w *world) testNewLeader() {
	names := w.group("leader", 5)
	w.health = w.leader(func(o *health.Options) { o.Control = handle{w.mgr, dying{w.mgr.GetClient()}} })
	w.report(corev1.ConditionFalse, names[3])
	w.later(time.Second)
	w.report(corev1.ConditionFalse, names[0])
	w.later(time.Second)
	w.later(10 * time.Minute)
	w.eventually("the replacement is recorded", func() (string, bool) {
		got := recorded(w.deployment("leader"))
		if got == "" {
			w.later(time.Second) // another client wrote the deployment at the same time
		}
		return got, got == names[3]
	})
	if gone := w.leaving(names); gone != nil {
		w.Fatalf("%v are gone although the deletion failed", gone)
	}
	w.health = w.leader(nil)
	w.later(time.Second)
	if gone := w.leaving(names); gone != nil {
		w.Fatalf("right after the change of leader, %v are gone", gone)
	}
	w.later(10 * time.Minute)
	w.replaces(names, names[3:4])
	w.report(corev1.ConditionTrue, names[0])
}

// refusing is a client for which the API server refuses to delete one Machine, as it does when a webhook denies the request.
type refusing struct {
	client.Client
	machine string
	tries   *int
}

func (r refusing) Delete(ctx context.Context, o client.Object, options ...client.DeleteOption) error {
	if o.GetName() != r.machine {
		return r.Client.Delete(ctx, o, options...)
	}
	*r.tries++
	return apierrors.NewForbidden(schema.GroupResource{Resource: "machines"}, o.GetName(), errors.New("a policy protects it"))
}

func (w *world) testRefused() {
	names := w.group("refused", 6)
	tries := 0
	w.health = w.leader(func(o *health.Options) { o.Control = handle{w.mgr, refusing{w.mgr.GetClient(), names[0], &tries}} })
	w.report(corev1.ConditionFalse, names[0])
	w.later(time.Second)
	w.report(corev1.ConditionFalse, names[1])
	w.later(time.Second)
	w.later(10 * time.Minute)
	// Events of other objects start a round each second. They must not repeat the deletion each time.
	for range 120 {
		w.later(time.Second)
	}
	if tries < 3 || tries > 15 {
		w.Errorf("%d attempts within two minutes", tries)
	}
	w.eventually("the condition shows the refusal", func() (string, bool) {
		c := w.healthy(names[0])
		if !strings.Contains(c.Message, "the API server refuses to delete it") {
			w.later(time.Second)
			return c.Message, false
		}
		return "", true
	})
	w.later(12 * time.Minute)
	w.replaces(names, names[1:2])
	w.report(corev1.ConditionTrue, names[0])
}

// blind is a cached client that shows a Node as not Ready although the Node is Ready.
type blind struct {
	client.Client
	node string
}

func (b blind) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	err := b.Client.List(ctx, list, options...)
	nodes, ok := list.(*corev1.NodeList)
	if !ok || err != nil {
		return err
	}
	for i := range nodes.Items {
		if nodes.Items[i].Name == b.node {
			n := nodes.Items[i].DeepCopy()
			n.Status.Conditions[0].Status = corev1.ConditionUnknown
			nodes.Items[i] = *n
		}
	}
	return nil
}

func (w *world) testStaleCache() {
	names := w.group("stale", 4)
	w.health = w.leader(func(o *health.Options) { o.Target = handle{w.mgr, blind{w.mgr.GetClient(), names[0]}} })
	w.later(time.Second)
	w.later(11 * time.Minute)
	w.later(time.Minute)
	if gone := w.leaving(names); gone != nil || recorded(w.deployment("stale")) != "" {
		w.Errorf("%v are gone, record %s", gone, recorded(w.deployment("stale")))
	}
}

// frozen is a cached client that shows the deployments as they were before.
type frozen struct {
	client.Client
	before v1alpha1.MachineDeploymentList
}

func (f frozen) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if deployments, ok := list.(*v1alpha1.MachineDeploymentList); ok {
		f.before.DeepCopyInto(deployments)
		return nil
	}
	return f.Client.List(ctx, list, options...)
}

func (w *world) testStaleRecord() {
	names := w.group("record", 5)
	w.cachesFollow()
	f := frozen{Client: w.mgr.GetClient()}
	w.must(f.Client.List(w.Context(), &f.before))
	d := w.deployment("record")
	base := d.DeepCopy()
	d.Status.HealthReplacements = []v1alpha1.HealthReplacement{{Name: "another", UID: "another"}}
	d.Status.HealthReplacements[0].Started.Time = w.clock.Now().Add(10 * time.Minute)
	w.must(w.client.Status().Patch(w.Context(), d, client.MergeFrom(base)))
	w.health = w.leader(func(o *health.Options) { o.Control = handle{w.mgr, f} })
	w.report(corev1.ConditionFalse, names[0])
	w.later(time.Second)
	w.later(11 * time.Minute)
	w.later(time.Second)
	if gone := w.leaving(names); gone != nil {
		w.Errorf("%v are gone", gone)
	}
	w.report(corev1.ConditionTrue, names[0])
}

// lease is a leader election lease. While old is true, the lease was not renewed in time.
type lease struct{ old bool }

func (l *lease) Fresh(time.Time) bool { return !l.old }

func (w *world) testOldLease() {
	names := w.group("lease", 4)
	l := &lease{}
	w.health = w.leader(func(o *health.Options) { o.Lease = l })
	w.report(corev1.ConditionFalse, names[0])
	w.later(time.Second)
	l.old = true
	if result := w.later(11 * time.Minute); result.RequeueAfter != time.Second || w.leaving(names) != nil {
		w.Errorf("%v are gone, the next round is in %v", w.leaving(names), result.RequeueAfter)
	}
	w.report(corev1.ConditionTrue, names[0])
}

func (w *world) testBlind() {
	names := w.group("blind", 4)
	stale, since := "", time.Time{}
	w.health = w.leader(func(o *health.Options) { o.Trust = func() (string, time.Time) { return stale, since } })
	w.report(corev1.ConditionFalse, names[0])
	w.later(time.Second)
	stale = "the API server cannot be reached"
	w.later(time.Hour)
	if gone := w.leaving(names); gone != nil {
		w.Fatalf("%v are gone on stale data", gone)
	}
	stale, since = "", w.clock.Now()
	w.later(9 * time.Minute)
	if gone := w.leaving(names); gone != nil {
		w.Fatalf("%v are gone although the timers start again", gone)
	}
	w.later(time.Minute)
	w.replaces(names, names[:1])
}
