// Command words checks the language of drover's sources and documents. It exits with 1 when there are findings.
//
// It reports words of drover's former dialect in comments, string literals, documents and the comments of manifests and
// scripts, each with a replacement (rules.go). It also reports doc comments that do not begin as is usual in Go, log
// messages that begin with a small letter, item numbers of the checklists that are not at the end of a test's name,
// test files that are not named after what they test, and links to files that do not exist.
//
//	go run ./hack/words                      # the whole repository
//	go run ./hack/words ./nodegroup README.md # a folder with everything below it, and a file
//	go run ./hack/words -fix ./nodegroup     # moves numbers in tests' names, and writes log messages with a capital
//	go run ./hack/words -advice ./nodegroup  # also words that are often, not always, hard to read
//	go run ./hack/words -list ./nodegroup    # also source files without a test file of their name
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	advice := flag.Bool("advice", false, "also report words that are often, but not always, hard to read; they do not fail")
	list := flag.Bool("list", false, "also print the source files with functions that have no test file of their name; they do not fail")
	repair := flag.Bool("fix", false, "move checklist numbers to the end of tests' names and write log messages with a capital")
	flag.Parse()
	repository := os.DirFS(".")
	files, err := filesOf(repository, flag.Args())
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "words:", err)
		os.Exit(1)
	}
	findings, err := check(repository, files)
	if err == nil && *repair {
		findings, err = fix(findings)
	}
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "words:", err)
		os.Exit(1)
	}
	if *list {
		for _, file := range untested(repository, files) {
			fmt.Println(file + ": no test file has its name")
		}
	}
	if failed := report(findings, *advice); failed > 0 {
		fmt.Printf("%d findings\n", failed)
		os.Exit(1)
	}
}

// report prints the findings, and returns the number of those that are not advice.
func report(findings []finding, advice bool) int {
	failed := 0
	for _, f := range findings {
		switch {
		case !f.advice:
			failed++
			fmt.Printf("%s:%d: %q: %s\n", f.file, f.line, f.found, f.instead)
		case advice:
			fmt.Printf("%s:%d: advice: %q: %s\n", f.file, f.line, f.found, f.instead)
		}
	}
	return failed
}
