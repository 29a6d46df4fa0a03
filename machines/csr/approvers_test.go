package csr

import (
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/drover-project/drover/machines/bootstrap"
)

func testGuard(p *plane) {
	registry := prometheus.NewRegistry()
	g, err := NewApproverCheck(p.mgr, clock.RealClock{}, registry)
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
	g.check(p.ctx)
	if value() != 1 {
		p.Errorf("metric %v", value())
	}
	p.until("there is an Event", func() bool {
		var list eventsv1.EventList
		p.must(p.client.List(p.ctx, &list))
		return slices.ContainsFunc(list.Items, func(e eventsv1.Event) bool {
			return e.Reason == reasonOthersApprove && e.Regarding.Name == "drover:node-bootstrapper" && strings.Contains(e.Note, "approves-for-everybody")
		})
	})
	p.must(p.client.Delete(p.ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "approves-for-everybody"}}))
	p.until("the metric is 0 when no other program approves any more", func() bool {
		g.check(p.ctx)
		return value() == 0
	})
}
