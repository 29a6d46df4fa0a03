package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
)

// budget is what a package may have at most: lines with code, and methods of one type.
type budget struct{ code, methods int }

// readBudgets reads the file of budgets: a line for each package, with its name, its largest number of lines with code, its largest
// number of methods of one type and, where a budget was raised, what for. Tabs separate them. Lines that begin with # are comments.
func readBudgets(file string) (map[string]budget, error) {
	if file == "" {
		return nil, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	budgets := map[string]budget{}
	for i, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		if strings.HasPrefix(line, "#") {
			continue
		}
		var name string
		var b budget
		if _, err := fmt.Sscanf(line, "%s\t%d\t%d", &name, &b.code, &b.methods); err != nil {
			return nil, fmt.Errorf("%s:%d: want a package, its lines of code and its methods of one type, with tabs between them: %w", file, i+1, err)
		}
		if _, twice := budgets[name]; twice {
			return nil, fmt.Errorf("%s:%d: the package %s has two budgets", file, i+1, name)
		}
		budgets[name] = b
	}
	return budgets, nil
}

// check returns an error that names each package beyond its budget. whole says that the house has all packages, so that each budget
// must have one.
func (h *house) check(budgets map[string]budget, whole bool) error {
	var all []error
	seen := map[string]bool{}
	for _, r := range h.rooms {
		seen[r.name] = true
		b, ok := budgets[r.name]
		t, methods := r.mostMethods()
		switch {
		case !ok:
			all = append(all, fmt.Errorf("%s has %d lines of code, %d methods of %s, and no budget: add a line to the file of budgets", r.name, r.code, methods, t))
		case r.code > b.code:
			all = append(all, fmt.Errorf("%s has %d lines of code, and its budget is %d: make it smaller, or raise the budget and say there what for", r.name, r.code, b.code))
		case methods > b.methods:
			all = append(all, fmt.Errorf("%s.%s has %d methods, and the budget of its package is %d", r.name, t, methods, b.methods))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(budgets)) {
		if whole && !seen[name] {
			all = append(all, fmt.Errorf("the budget of %s has no package: remove its line", name))
		}
	}
	return errors.Join(all...)
}

// print writes a line for each package, and the sums.
func (h *house) print(to io.Writer, budgets map[string]budget, verbose bool) {
	out := tabwriter.NewWriter(to, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintln(out, "code\tbudget\texported\tmethods\tforwarders\tusers\t  package")
	var code, allowed, exported, mutexes, forwarders, single int
	var functions lengths
	for _, r := range h.rooms {
		_, methods := r.mostMethods()
		_, _ = fmt.Fprintf(out, "%d\t%d\t%d\t%d\t%d\t%d\t  %s\n", r.code, budgets[r.name].code, r.exported, methods, len(r.forwarders), len(r.users), r.name)
		code, allowed, exported, mutexes = code+r.code, allowed+budgets[r.name].code, exported+r.exported, mutexes+r.mutexes
		forwarders += len(r.forwarders)
		functions = append(functions, r.functions...)
		if len(r.users) == 1 {
			single++
		}
	}
	_, _ = fmt.Fprintf(out, "%d\t%d\t%d\t\t%d\t\t  all\n", code, allowed, exported, forwarders)
	_ = out.Flush()
	_, _ = fmt.Fprintf(to, "%d packages, %d of them with one user; %d mutexes\n", len(h.rooms), single, mutexes)
	_, _ = fmt.Fprintf(to, "%d functions: median %d lines, 95 %% at most %d, longest %d (%s)\n",
		len(functions), functions.quantile(0.5), functions.quantile(0.95), functions.longest().lines, functions.longest().name)
	if verbose {
		h.printDetails(to)
	}
}

func (h *house) printDetails(to io.Writer) {
	for _, r := range h.rooms {
		for _, f := range r.forwarders {
			_, _ = fmt.Fprintf(to, "%s: %s\n", r.name, f)
		}
		if len(r.users) == 1 {
			_, _ = fmt.Fprintf(to, "%s: used by %s alone\n", r.name, r.users[0])
		}
	}
}
