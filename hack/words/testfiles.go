package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

var (
	// freeNames are names of test files that need no source file of the same name.
	freeNames = regexp.MustCompile(`^(scenario_.*|harness(_.*)?|main|example|export|fuzz|bench)$`)
	// kindOfTest matches the suffix of a test file's name after the source file's name: the kind of test, or the platform.
	kindOfTest = regexp.MustCompile(`_(bench|fuzz|example|linux|amd64|arm64)$`)
)

// misnamed returns what to change in the name of a test file; "" when the name is correct or the file is not a test. A test file has one
// of the freeNames, or is named after a source file, after a file or folder beside it that it tests, or after the package. In a package
// that has only tests, any name is correct.
func misnamed(repository fs.FS, name string) string {
	stem, ok := strings.CutSuffix(path.Base(name), "_test.go")
	folder := path.Dir(name)
	if !ok || freeNames.MatchString(stem) || stem == path.Base(folder) || besides(repository, folder, stem) || besides(repository, folder, kindOfTest.ReplaceAllString(stem, "")) {
		return ""
	}
	if sources := sourceFiles(repository, folder); len(sources) == 0 || slices.Equal(sources, []string{"doc.go"}) {
		return ""
	}
	return "name it after the source file that it tests, or scenario_…_test.go when it tests several together; fixtures are in harness_test.go"
}

// besides reports whether a folder contains a file or folder with the name stem, apart from extensions. Tests do not count.
func besides(repository fs.FS, folder, stem string) bool {
	for _, entry := range entries(repository, folder) {
		base, _, _ := strings.Cut(entry, ".")
		if !strings.HasSuffix(entry, "_test.go") && (base == stem || strings.ReplaceAll(base, "-", "") == stem) {
			return true
		}
	}
	return false
}

func entries(repository fs.FS, folder string) []string {
	found, _ := fs.ReadDir(repository, folder)
	names := make([]string, len(found))
	for i, entry := range found {
		names[i] = entry.Name()
	}
	return names
}

func sourceFiles(repository fs.FS, folder string) []string {
	var sources []string
	for _, name := range entries(repository, folder) {
		if strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") {
			sources = append(sources, name)
		}
	}
	return sources
}

// untested returns the files that declare functions and have no test file of the same name.
func untested(repository fs.FS, files []string) []string {
	var found []string
	for _, name := range files {
		stem, ok := strings.CutSuffix(name, ".go")
		if !ok || strings.HasSuffix(stem, "_test") || !hasFunctions(repository, name) {
			continue
		}
		if _, err := fs.Stat(repository, stem+"_test.go"); err != nil {
			found = append(found, name)
		}
	}
	return found
}

// hasFunctions reports whether a Go file declares a function and is not generated.
func hasFunctions(repository fs.FS, name string) bool {
	source, err := fs.ReadFile(repository, name)
	if err != nil {
		return false
	}
	file, err := parser.ParseFile(token.NewFileSet(), name, source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil || ast.IsGenerated(file) {
		return false
	}
	return slices.ContainsFunc(file.Decls, func(d ast.Decl) bool { _, ok := d.(*ast.FuncDecl); return ok })
}
