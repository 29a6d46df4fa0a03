package adoption

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
)

// Outcome is what drover would do with an object.
type Outcome string

// The outcomes. Only Rolled and Deleted remove servers.
const (
	// Kept means that drover manages the object as it is.
	Kept Outcome = "kept"
	// Waits means that drover does nothing until an operation that is under way has ended.
	Waits Outcome = "waits"
	// Made means that drover creates something that is missing.
	Made Outcome = "made"
	// Rolled means that drover replaces Machines because their template differs from the current one.
	Rolled Outcome = "rolled"
	// Deleted means that the object, its server or some of its Machines are deleted.
	Deleted Outcome = "deleted"
	// Left means that drover does nothing with the object.
	Left Outcome = "left alone"
	// Refused means that the spec or the credentials of the object cannot be used.
	Refused Outcome = "refused"
)

// outcomes lists all outcomes in the order of a report: the most important first.
var outcomes = []Outcome{Deleted, Rolled, Refused, Left, Made, Waits, Kept}

// Entry holds what drover would do with one object.
type Entry struct {
	Kind      string  `json:"kind"`
	Namespace string  `json:"namespace,omitempty"`
	Name      string  `json:"name"`
	Outcome   Outcome `json:"outcome"`
	// Why explains the outcome to a reader. It is empty when the outcome is Kept and there is nothing to explain.
	Why string `json:"why,omitempty"`
	// Server is the ID of the server that belongs to a Machine; Node is the name of its Node. Both may be empty.
	Server string `json:"server,omitempty"`
	Node   string `json:"node,omitempty"`
	// Warnings name the fields that drover accepts and that have no effect, or another effect than their author may expect, one sentence each.
	// A Machine of a set has none: those of its group say the same.
	Warnings []string `json:"warnings,omitempty"`
}

// Finding describes a fact about the cluster that an operator should know, or a fault to correct, before drover starts.
type Finding struct {
	// Subject is what the finding is about, such as "webhook".
	Subject string `json:"subject"`
	Message string `json:"message"`
	// Remedy is what the operator should do; empty when there is nothing to do.
	Remedy string `json:"remedy,omitempty"`
}

// Report holds what drover would do with a cluster.
type Report struct {
	Entries  []Entry   `json:"objects"`
	Findings []Finding `json:"findings"`
	// Incomplete lists, as text, what the survey could not read. The report does not cover these objects.
	Incomplete []string `json:"incomplete,omitempty"`
}

// Disruptive reports whether drover would roll or delete anything.
func (r *Report) Disruptive() bool {
	return slices.ContainsFunc(r.Entries, func(e Entry) bool { return e.Outcome == Rolled || e.Outcome == Deleted })
}

// Sort orders the entries by outcome, kind, namespace and name.
func (r *Report) Sort() {
	slices.SortStableFunc(r.Entries, func(a, b Entry) int {
		return cmp.Or(
			cmp.Compare(slices.Index(outcomes, a.Outcome), slices.Index(outcomes, b.Outcome)),
			cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name),
		)
	})
}

// WriteJSON writes the report as one JSON document. Its summary holds how many objects of each kind have each outcome.
func (r *Report) WriteJSON(out io.Writer) error {
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(struct {
		Disruptive bool                       `json:"disruptive"`
		Summary    map[string]map[Outcome]int `json:"summary"`
		*Report
	}{r.Disruptive(), r.summary(), r})
}

// summary counts the entries by kind and outcome.
func (r *Report) summary() map[string]map[Outcome]int {
	counts := map[string]map[Outcome]int{}
	for _, e := range r.Entries {
		if counts[e.Kind] == nil {
			counts[e.Kind] = map[Outcome]int{}
		}
		counts[e.Kind][e.Outcome]++
	}
	return counts
}

// WriteText writes the report as tables of text. Objects with the outcome Kept are counted, and listed only when all is true.
func (r *Report) WriteText(out io.Writer, all bool) error {
	table := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	for _, f := range r.Findings {
		_, _ = fmt.Fprintf(table, "%s\t%s\n", f.Subject, sentence(f.Message, f.Remedy))
	}
	for _, text := range r.Incomplete {
		_, _ = fmt.Fprintf(table, "not read\t%s\n", text)
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("writing the findings: %w", err)
	}
	shown := r.Entries
	if !all {
		shown = slices.DeleteFunc(slices.Clone(shown), func(e Entry) bool { return e.Outcome == Kept && e.Why == "" })
	}
	if len(shown) > 0 {
		_, _ = fmt.Fprintf(table, "\nOUTCOME\tKIND\tNAME\tNODE\tWHY\n")
	}
	for _, e := range shown {
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", e.Outcome, e.Kind, strings.TrimPrefix(e.Namespace+"/"+e.Name, "/"), cmp.Or(e.Node, "-"), cmp.Or(e.Why, "-"))
	}
	for _, e := range r.Entries {
		for _, text := range e.Warnings {
			_, _ = fmt.Fprintf(table, "\nWARNING %s %s: %s", e.Kind, strings.TrimPrefix(e.Namespace+"/"+e.Name, "/"), text)
		}
	}
	r.writeSummary(table)
	if err := table.Flush(); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

// writeSummary writes one line for each kind, and a conclusion.
func (r *Report) writeSummary(out io.Writer) {
	_, _ = fmt.Fprintln(out)
	counts := r.summary()
	for _, kind := range slices.Sorted(maps.Keys(counts)) {
		var parts []string
		for _, o := range outcomes {
			if n := counts[kind][o]; n > 0 {
				parts = append(parts, fmt.Sprintf("%d %s", n, o))
			}
		}
		_, _ = fmt.Fprintf(out, "%ss: %s\n", kind, strings.Join(parts, ", "))
	}
	conclusion := "Nothing would be rolled or deleted."
	switch {
	case r.Disruptive():
		conclusion = "Something would be rolled or deleted: see above."
	case len(r.Incomplete) > 0:
		conclusion = "Nothing that could be read would be rolled or deleted."
	}
	_, _ = fmt.Fprintln(out, conclusion)
}

// sentence joins a message and its remedy.
func sentence(message, remedy string) string {
	if remedy == "" {
		return message
	}
	return message + ": " + remedy
}
