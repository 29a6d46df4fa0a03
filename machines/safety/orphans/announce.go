package orphans

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/safety/orphans/verdict"
)

// mostLines bounds the lines of the report, and mostEvents the Events about single orphans that one round records (F-144).
const (
	mostLines  = 500
	mostEvents = 20
)

// general begins the lines of the report that are about no orphan.
const general = "orphans are not deleted ("

// finding is a line of the report. orphan is nil when the line says in general why orphans are not deleted.
type finding struct {
	line   string
	orphan *verdict.Orphan
}

// report returns the report of a round, and its news: what the last report lacks. A general reason is news only once, whatever its text
// says. A round without a decision keeps the lines about orphans of the last report.
func report(v *verdict.Verdict, last string) (text string, news []finding) {
	var lines []string
	told := strings.Split(last, "\n")
	for _, stop := range v.Stops {
		about := general + string(stop.Reason) + ")"
		lines = append(lines, about+": "+stop.Message)
		if !slices.ContainsFunc(told, func(line string) bool { return strings.HasPrefix(line, about) }) {
			news = append(news, finding{line: lines[len(lines)-1]})
			told = append(told, about)
		}
	}
	if !v.Judged {
		lines = append(lines, slices.DeleteFunc(told, func(line string) bool { return line == "" || strings.HasPrefix(line, general) })...)
	}
	for i := range v.Orphans {
		o := &v.Orphans[i]
		line := describe(o) + ": " + o.Why
		if lines = append(lines, line); len(lines) <= mostLines && o.Why != verdict.BeingDeleted && !slices.Contains(told, line) {
			news = append(news, finding{line, o})
		}
	}
	if more := len(lines) - mostLines; more > 0 {
		lines = append(lines[:mostLines], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(lines, "\n"), news
}

// announce records news by Event and log.
func (c *Collector) announce(ctx context.Context, news []finding) {
	for _, f := range news {
		if f.orphan != nil {
			c.record(ctx, f.orphan, corev1.EventTypeNormal, "OrphanFound", f.orphan.Why)
			continue
		}
		ctrl.LoggerFrom(ctx).Info("Orphans are not collected", "finding", f.line)
		c.control.Eventf(c.configMap(), nil, corev1.EventTypeWarning, "OrphansNotCollected", "Collect", "%s", f.line)
	}
}

// record writes one log line about an orphan, and records one Event unless the round has recorded mostEvents. For a Node, the
// Event is about that Node. Other orphans are not Kubernetes objects, so their Events are about the ConfigMap with the report.
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

// describe returns the name of an orphan for messages.
func describe(o *verdict.Orphan) string {
	text := string(o.Kind) + " " + o.ID
	if o.Name != "" {
		text += fmt.Sprintf(" (%s)", o.Name)
	}
	if o.Machine != "" {
		text += fmt.Sprintf(" of the Machine with UID %s, which does not exist", o.Machine)
	}
	return text
}

// metrics are the metrics of the collector.
type metrics struct {
	orphans, aborted *prometheus.GaugeVec
	collected        *prometheus.CounterVec
}

// newMetrics returns the metrics, and registers them.
func newMetrics(registry prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		orphans: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "drover_orphans", Help: "Resources with drover's owner tags, and Nodes with its labels, that had no Machine in the last round; kind is server, port, floating_IP or node.",
		}, []string{"kind"}),
		aborted: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "drover_orphans_aborted", Help: "1 while orphans are not collected for this reason, else 0, as of the last round.",
		}, []string{"reason"}),
		collected: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "drover_orphans_collected_total", Help: "Accepted deletions of resources and Nodes that had no Machine.",
		}, []string{"kind"}),
	}
	for _, kind := range verdict.Kinds {
		m.orphans.WithLabelValues(label(kind))
		m.collected.WithLabelValues(label(kind))
	}
	if err := errors.Join(registry.Register(m.orphans), registry.Register(m.aborted), registry.Register(m.collected)); err != nil {
		return nil, fmt.Errorf("registering metrics: %w", err)
	}
	return m, nil
}

// label returns the label value for a kind.
func label(kind cloud.ResourceKind) string { return strings.ReplaceAll(string(kind), " ", "_") }

// set sets the gauges according to a verdict. A round without a decision leaves the numbers of orphans unchanged.
func (m *metrics) set(v *verdict.Verdict) {
	for _, reason := range verdict.Reasons {
		m.aborted.WithLabelValues(string(reason)).Set(0)
	}
	for _, stop := range v.Stops {
		m.aborted.WithLabelValues(string(stop.Reason)).Set(1)
	}
	if !v.Judged {
		return
	}
	count := map[cloud.ResourceKind]int{}
	for i := range v.Orphans {
		count[v.Orphans[i].Kind]++
	}
	for _, kind := range verdict.Kinds {
		m.orphans.WithLabelValues(label(kind)).Set(float64(count[kind]))
	}
}
