package orphans

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/drover-project/drover/machines/safety/orphans/verdict"
)

// mostLines bounds the lines of the report.
const mostLines = 500

// finding is one line of the report. It is about an orphan, or it says in general why orphans are not deleted.
type finding struct {
	about, text string
	orphan      *verdict.Orphan
	// reason is the reason of a Warning about the finding, if it is about no orphan.
	reason string
}

func (f *finding) line() string { return f.about + ": " + f.text }

// isGeneral reports whether a line of a report says in general why orphans are not deleted.
func isGeneral(line string) bool {
	return strings.HasPrefix(line, "orphans are not deleted") || strings.HasPrefix(line, "the confirmation")
}

// findings returns the findings of a round. unknown are the words of a confirmation that name nothing.
func findings(v *verdict.Verdict, unknown []string) (all []finding) {
	for _, word := range unknown {
		text := "it names nothing that this search has found and that needs a confirmation, so it is ignored"
		if word == "yes" {
			text = "it does not say what may be deleted, so it is ignored: name the IDs, Machines or projects that the report shows"
		}
		all = append(all, finding{about: fmt.Sprintf("the confirmation %.100q", word), text: text, reason: "ConfirmationIgnored"})
	}
	for _, stop := range v.Stops {
		all = append(all, finding{about: fmt.Sprintf("orphans are not deleted (%s)", stop.Reason), text: stop.Message, reason: "OrphansNotCollected"})
	}
	for i := range v.Orphans {
		all = append(all, finding{about: describe(&v.Orphans[i]), text: v.Orphans[i].Why, orphan: &v.Orphans[i]})
	}
	return all
}

// reportOf returns the report of a round. A round without a decision keeps the lines about orphans of the last report.
func reportOf(found []finding, judged bool, last string) string {
	var lines []string
	for i := range found {
		lines = append(lines, found[i].line())
	}
	if !judged {
		lines = append(lines, slices.DeleteFunc(strings.Split(last, "\n"), func(line string) bool { return line == "" || isGeneral(line) })...)
	}
	if more := len(lines) - mostLines; more > 0 {
		lines = append(lines[:mostLines], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(lines, "\n")
}

// announce reports the findings that the last report does not have, by Event and log. A general reason is reported once, whatever
// its text says.
func (c *Collector) announce(ctx context.Context, found []finding, last string) {
	told := map[string]bool{}
	for line := range strings.SplitSeq(last, "\n") {
		told[line] = true
		if about, _, _ := strings.Cut(line, ": "); isGeneral(line) {
			told[about] = true
		}
	}
	for i := range found[:min(len(found), mostLines)] {
		f := &found[i]
		switch {
		case told[f.about] || told[f.line()] || f.text == verdict.BeingDeleted:
		case f.orphan != nil:
			c.record(ctx, f.orphan, corev1.EventTypeNormal, "OrphanFound", f.text)
		default:
			told[f.about] = true
			ctrl.LoggerFrom(ctx).Info("Orphans are not collected", "finding", f.line())
			c.control.Eventf(c.configMap(), nil, corev1.EventTypeWarning, f.reason, "Collect", "%s", f.line())
		}
	}
}

// mostEvents is how many Events about single orphans one round records (F-144).
const mostEvents = 20

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

// endRound records one Event for all reports of the round that have no Event of their own.
func (c *Collector) endRound() {
	if more := c.recorded - mostEvents; more > 0 {
		c.control.Eventf(c.configMap(), nil, corev1.EventTypeNormal, "FurtherOrphans", "Collect",
			"%d further reports about orphans are only in the log; the report in this ConfigMap lists up to %d orphans", more, mostLines)
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
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: name}}
}
