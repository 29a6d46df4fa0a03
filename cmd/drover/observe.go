package main

import (
	"encoding/json"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/safety/reach"
)

// mostDecisions bounds how many different decisions an observer keeps. When there are more, it drops the oldest first.
const mostDecisions = 1000

// decision is an action that drover would have taken.
type decision struct {
	// Where is the API of the action: kubernetes or openstack.
	Where string `json:"where"`
	// Verb is the API's verb of the action, and Object is its object.
	Verb   string `json:"verb"`
	Object string `json:"object"`
	// Detail is what would have been written, without secrets.
	Detail string `json:"detail,omitempty"`
	// First and Last are when drover made this decision for the first and the last time. Count is how many times drover made it.
	First time.Time `json:"first"`
	Last  time.Time `json:"last"`
	Count int       `json:"count"`
}

// observer records the decisions of a drover in observe mode. Each decision is logged at its first occurrence, and all
// decisions are served over HTTP.
type observer struct {
	clock clock.PassiveClock
	log   logr.Logger

	mu        sync.Mutex
	decisions []decision
}

// wiring holds the manager, the target cluster and the checks that the parts of drover share. With --observe, its clients and
// clouds write nothing.
type wiring struct {
	// controllers and groups both wrap the manager of the control cluster, for the controllers and for the node groups. In observe
	// mode a write of the controllers returns success, and a write of the node groups returns errObserving.
	controllers, groups manager.Manager
	// target is the cluster with the Nodes. It is the control cluster, unless a flag names another.
	target   cluster.Cluster
	observer *observer
	lease    *lease
	reach    *reach.Watch
	// pages are what the metrics address serves.
	pages pages
	// guarded reports whether drover may trust values that the guard policies protect.
	guarded guarded
}

// newObserver returns an observer in observe mode, or else nil.
func newObserver(o *options) *observer {
	if !o.observe {
		return nil
	}
	return &observer{clock: clock.RealClock{}, log: ctrl.Log.WithName("observe")}
}

// refuseWrites makes all writes of clients with this configuration fail. It changes nothing when o is nil.
func (o *observer) refuseWrites(config *rest.Config) {
	if o != nil {
		config.Wrap(func(next http.RoundTripper) http.RoundTripper { return refusing{next, o} })
	}
}

// newWiring returns the wiring for the manager of the control cluster and for the target cluster. target is nil when the control
// cluster is also the target cluster. w is the observer; it is nil outside of observe mode. In observe mode the decisions are
// served over HTTP, and the node groups refuse increases, because no controller would create the Machines.
func newWiring(mgr manager.Manager, target cluster.Cluster, w *observer) wiring {
	out := wiring{controllers: boundedEvents{mgr}, groups: boundedEvents{mgr}, observer: w, pages: newPages()}
	if w != nil {
		out.pages.Handle("/observe", w)
		out.controllers, out.groups = observing(out.controllers, w, nil), observing(out.groups, w, errObserving)
	}
	switch {
	case target == nil:
		out.target = out.controllers
	case w == nil:
		out.target = boundedTarget{target}
	default:
		out.target = observedTarget{boundedTarget{target}, observedClient{target.GetClient(), w, nil}}
	}
	return out
}

// cloud returns c itself, or a read-only wrapper in observe mode.
func (w wiring) cloud(c cloud.Cloud) cloud.Cloud {
	if w.observer == nil {
		return c
	}
	return observedCloud{c, w.observer}
}

// note records one decision.
func (o *observer) note(where, verb, object, detail string) {
	now := o.clock.Now()
	o.mu.Lock()
	at := slices.IndexFunc(o.decisions, func(d decision) bool {
		return d.Where == where && d.Verb == verb && d.Object == object && d.Detail == detail
	})
	if at >= 0 {
		o.decisions[at].Last = now
		o.decisions[at].Count++
	} else {
		o.decisions = append(o.decisions, decision{Where: where, Verb: verb, Object: object, Detail: detail, First: now, Last: now, Count: 1})
		o.decisions = o.decisions[max(0, len(o.decisions)-mostDecisions):]
	}
	o.mu.Unlock()
	if at < 0 {
		o.log.Info("Not done, because drover only observes", "where", where, "verb", verb, "object", object, "detail", detail)
	}
}

// ServeHTTP writes all decisions as JSON, in the order of their first occurrence.
func (o *observer) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	o.mu.Lock()
	all := slices.Clone(o.decisions)
	o.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(map[string]any{"observing": true, "decisions": all}); err != nil {
		o.log.Info("Sending the page /observe failed", "cause", err.Error())
	}
}
