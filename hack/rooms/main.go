// Command rooms prints how tightly the files of each package are tied to each other, and how long functions are.
//
// A file uses another file of its package when it names a package-level name, a field or a method that the other file
// declares. The circle of a package is its largest set of files that use each other in a cycle. Test files, generated
// files and files without a declaration are ignored. The command exits with 1 when a package exceeds a limit.
//
//	go run ./hack/rooms                     # all packages
//	go run ./hack/rooms -v ./nodegroup/...   # with the files of the circle and the edges
package main

import (
	"flag"
	"fmt"
	"os"
	"text/tabwriter"
)

func main() {
	maxCircle := flag.Int("max-circle", 12, "largest number of files in a circle")
	maxEdges := flag.Float64("max-edges", 3.5, "largest number of edges per file of a package")
	verbose := flag.Bool("v", false, "print the files of the largest circle and every edge")
	flag.Parse()
	patterns := flag.Args()
	if len(patterns) == 0 {
		patterns = []string{"./..."}
	}
	packages, err := load(patterns)
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "rooms:", err)
		os.Exit(1)
	}
	if !report(packages, *maxCircle, *maxEdges, *verbose) {
		os.Exit(1)
	}
}

// report prints a line for each package, and reports whether all packages are within the limits.
func report(packages []*room, maxCircle int, maxEdges float64, verbose bool) bool {
	within := true
	var all lengths
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(out, "package\tfiles\tlines\tedges\tper file\tcircle\tlongest function\t")
	for _, p := range packages {
		circle := largestCircle(p.edges)
		note := ""
		if len(circle) > maxCircle || p.perFile() > maxEdges {
			note, within = "beyond the limit", false
		}
		longest := p.functions.longest()
		_, _ = fmt.Fprintf(out, "%s\t%d\t%d\t%d\t%.1f\t%d\t%d %s\t%s\n", p.path, len(p.files), p.lines, p.edgeCount(), p.perFile(),
			len(circle), longest.lines, longest.name, note)
		all = append(all, p.functions...)
	}
	_ = out.Flush()
	fmt.Printf("%d functions: median %d lines, 95 %% at most %d, longest %d (%s)\n",
		len(all), all.quantile(0.5), all.quantile(0.95), all.longest().lines, all.longest().name)
	if verbose {
		for _, p := range packages {
			p.print(largestCircle(p.edges))
		}
	}
	return within
}
