package csr

import (
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/bootstrap"
)

func testGuard(p *plane) {
	registry := prometheus.NewRegistry()
	g, err := NewApproverCheck(ApproverCheckOptions{Control: p.mgr, Target: p.mgr, Clock: clock.RealClock{}, Registry: registry})
	p.must(err)
	value := func() float64 {
		families, err := registry.Gather()
		p.must(err)
		return families[0].Metric[0].GetGauge().GetValue()
	}
	g.check(p.ctx)
	if why, err := g.Others(p.ctx); why != "" || err != nil || value() != 0 {
		p.Fatalf("no other approver exists: Others() = %q, %v, metric %v", why, err, value())
	}
	p.must(p.client.Create(p.ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "approves-for-everybody"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:certificates.k8s.io:certificatesigningrequests:nodeclient"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "system:bootstrappers"}},
	}))
	p.until("the binding is named", func() bool {
		why, err := g.Others(p.ctx)
		return err == nil && strings.Contains(why, "approves-for-everybody")
	})
	why, err := g.Others(p.ctx)
	p.must(err)
	if !strings.Contains(why, bootstrap.Group+" may") || !strings.Contains(why, bootstrap.GroupOSM+" may") {
		p.Errorf("Others() does not name both groups whose tokens join: %s", why)
	}
	conditions := func() (all []metav1.Condition) {
		var list v1alpha1.MachineDeploymentList
		p.must(p.client.List(p.ctx, &list))
		for i := range list.Items {
			all = append(all, list.Items[i].Status.Conditions...)
		}
		return all
	}
	before := conditions()
	g.check(p.ctx)
	if value() != 1 {
		p.Errorf("metric %v", value())
	}
	warned := conditions()
	if len(warned) == len(before) || !slices.ContainsFunc(warned, func(c metav1.Condition) bool {
		return c.Type == v1alpha1.ConditionOthersApprove && c.Status == metav1.ConditionTrue && strings.Contains(c.Message, "approves-for-everybody")
	}) {
		p.Errorf("conditions of deployments: %+v", warned)
	}
	p.until("there is an Event", func() bool {
		var list eventsv1.EventList
		p.must(p.client.List(p.ctx, &list))
		return slices.ContainsFunc(list.Items, func(e eventsv1.Event) bool {
			return e.Reason == reasonOthersApprove && e.Regarding.Name == "drover:node-bootstrapper" && strings.Contains(e.Note, "approves-for-everybody")
		})
	})
	p.must(p.client.Delete(p.ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "approves-for-everybody"}}))
	p.until("no deployment has the condition when no other program approves any more", func() bool {
		g.check(p.ctx)
		return len(conditions()) == len(before)
	})
}
