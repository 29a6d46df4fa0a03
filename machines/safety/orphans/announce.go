package orphans

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/drover-project/drover/machines/safety/orphans/verdict"
)

// passSubject is the prefix of the keys in Collector.told for reports that concern no single orphan.
const passSubject = "pass "

// announce reports by Event and log why nothing is collected, and which orphans are kept. It reports each orphan once, and a
// cause that stops the whole round once per reason.
func (c *Collector) announce(ctx context.Context, v *verdict.Verdict) {
	now := map[string]string{}
	for _, stop := range append(append([]verdict.Stop{}, v.Stops...), v.Skipped...) {
		subject := passSubject + string(stop.Reason) + " " + stop.Project
		said := c.told[subject] != "" || now[subject] != ""
		now[subject] = string(stop.Reason)
		if !said {
			ctrl.LoggerFrom(ctx).Info("Orphans are not collected", "reason", stop.Reason, "message", stop.Message)
			c.control.Eventf(c.configMap(), nil, corev1.EventTypeWarning, "OrphansNotCollected", "Collect", "%s: %s", stop.Reason, stop.Message)
		}
	}
	if !v.Judged {
		maps.DeleteFunc(c.told, func(subject, _ string) bool { return strings.HasPrefix(subject, passSubject) })
		maps.Copy(c.told, now)
		return
	}
	for i := range v.Orphans {
		o := &v.Orphans[i]
		subject := o.Kind + " " + o.ID
		now[subject] = c.told[subject]
		// Messages that apply to all orphans contain numbers that change in each round. Therefore drover compares only the reason
		// with that of the last report.
		if why := cmp.Or(string(o.Stopped), o.Why); !o.Delete && now[subject] != why {
			now[subject] = why
			c.record(ctx, o, corev1.EventTypeNormal, "OrphanFound", o.Why)
		}
	}
	c.told = now
}

// say reports the decision about an orphan, unless that decision was reported before.
func (c *Collector) say(ctx context.Context, o *verdict.Orphan, kind, reason, message string) {
	subject := o.Kind + " " + o.ID
	if c.told[subject] != message {
		c.told[subject] = message
		c.record(ctx, o, kind, reason, message)
	}
}

// mostEvents is how many Events about single orphans one round records (F-144).
const mostEvents = 20

// record writes one log line about an orphan, and records one Event unless the round has recorded mostEvents. For a Node, the
// Event is about that Node. Other orphans are not Kubernetes objects, so their Events are about the ConfigMap with the cluster ID.
func (c *Collector) record(ctx context.Context, o *verdict.Orphan, kind, reason, message string) {
	ctrl.LoggerFrom(ctx).Info("Orphan", "reason", reason, "kind", o.Kind, "id", o.ID, "name", o.Name, "machineUID", o.Machine, "message", message)
	if c.recorded++; c.recorded > mostEvents {
		return
	}
	if o.Kind == verdict.KindNode {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: o.Node.Name, UID: o.Node.UID}}
		c.target.Eventf(node, nil, kind, reason, "Collect", "this Node has no Machine: %s", message)
		return
	}
	c.control.Eventf(c.configMap(), nil, kind, reason, "Collect", "%s: %s", describe(o), message)
}

// endRound records one Event for all reports of the round that have no Event of their own.
func (c *Collector) endRound() {
	if more := c.recorded - mostEvents; more > 0 {
		c.control.Eventf(c.configMap(), nil, corev1.EventTypeNormal, "FurtherOrphans", "Collect",
			"%d further reports about orphans are only in the log; the ConfigMap %s/%s lists up to %d orphans", more, c.Namespace, name, mostLines)
	}
	c.recorded = 0
}

// describe returns the name of an orphan for messages.
func describe(o *verdict.Orphan) string {
	text := o.Kind + " " + o.ID
	if o.Name != "" {
		text += fmt.Sprintf(" (%s)", o.Name)
	}
	if o.Machine != "" {
		text += fmt.Sprintf(" of the Machine with UID %s, which does not exist", o.Machine)
	}
	return text
}

func (c *Collector) configMap() *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: c.IDConfigMap}}
}

// mostLines bounds the lines of the report.
const mostLines = 200

// reportOf returns the findings of a round as text, one line per finding.
func reportOf(v *verdict.Verdict) string {
	var lines []string
	for _, stop := range v.Stops {
		lines = append(lines, fmt.Sprintf("no orphan is deleted (%s): %s", stop.Reason, stop.Message))
	}
	for _, stop := range v.Skipped {
		lines = append(lines, fmt.Sprintf("some orphans are not deleted (%s): %s", stop.Reason, stop.Message))
	}
	for i := range v.Orphans {
		o := &v.Orphans[i]
		why := o.Why
		if o.Delete {
			why = "it is being deleted"
		}
		lines = append(lines, describe(o)+": "+why)
	}
	if more := len(lines) - mostLines; more > 0 {
		lines = append(lines[:mostLines], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(lines, "\n")
}
