// Command rooms prints how large each package is, and fails when a package is larger than its budget.
//
// For each package it prints:
//
//   - code: lines with code. Comments, blank lines, generated files and test files do not count.
//   - budget: the number of lines that the file hack/rooms/budgets.tsv allows. A commit that raises a budget says there what the
//     lines are for. The file has a budget for the methods of one type too.
//   - exported: exported names, and methods of exported types.
//   - methods: the number of methods of the type that has most of them.
//   - forwarders: functions and methods that only pass their parameters on to one function of drover. Taking and giving back a
//     lock around that call does not count as work.
//   - users: packages that import this one. A package that exports little to one user may be a part of it.
//
// The last lines have the sums, the number of mutexes, and the lengths of functions. The command exits with 1 when a package has more
// code, or a type more methods, than the budget, when a package has no budget, or a budget no package.
//
//	go run ./hack/rooms                     # all packages
//	go run ./hack/rooms -v ./nodegroup/...   # also the forwarders, and the packages with one user
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	budgets := flag.String("budgets", "hack/rooms/budgets.tsv", "file with the budget of each package")
	verbose := flag.Bool("v", false, "print each forwarder and the user of each package that has only one")
	flag.Parse()
	if err := run(flag.Args(), *budgets, *verbose); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "rooms:", err)
		os.Exit(1)
	}
}

func run(patterns []string, file string, verbose bool) error {
	whole := len(patterns) == 0
	if whole {
		patterns = []string{"./..."}
	}
	house, err := load(patterns)
	if err != nil {
		return err
	}
	budgets, err := readBudgets(file)
	if err != nil {
		return err
	}
	house.print(os.Stdout, budgets, verbose)
	return house.check(budgets, whole)
}
