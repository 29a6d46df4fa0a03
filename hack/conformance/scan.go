package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// test is a function of a test file, or a table outside of any function, that names items of the conformance checklists by
// their IDs, such as CA-C56.
type test struct {
	file string // the path with slashes, relative to the repository's root
	name string // the name of the function; empty for a table outside of any function
	ids  []string
}

func (t test) String() string {
	if t.name == "" {
		return t.file
	}
	return t.file + " " + t.name
}

// aboutItems are the folders whose tests contain IDs of items only as test data, so that they cover no items.
var aboutItems = []string{"hack/conformance", "hack/words"}

// scan returns the tests in a repository that name items of the checklists, sorted by file.
func scan(repository fs.FS) ([]test, error) {
	var tests []test
	err := fs.WalkDir(repository, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && skipped(name):
			return fs.SkipDir
		case entry.IsDir() || !strings.HasSuffix(name, "_test.go"):
			return nil
		}
		source, err := fs.ReadFile(repository, name)
		if err != nil {
			return err
		}
		found, err := scanFile(name, source)
		tests = append(tests, found...)
		return err
	})
	return tests, err
}

func skipped(folder string) bool {
	base := path.Base(folder)
	return folder != "." && (strings.HasPrefix(base, ".") || base == "testdata" || base == "vendor" || slices.Contains(aboutItems, folder))
}

// scanFile returns the tests in one file that name items of the checklists. The IDs of the items are in the name of the
// test function, in the names of its subtests, or in its tables.
func scanFile(name string, source []byte) ([]test, error) {
	file, err := parser.ParseFile(token.NewFileSet(), name, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var tests []test
	for _, declaration := range file.Decls {
		t := test{file: name, ids: named(declaration)}
		if function, ok := declaration.(*ast.FuncDecl); ok {
			t.name = function.Name.Name
			if strings.HasPrefix(t.name, "Test") || strings.HasPrefix(t.name, "Fuzz") || strings.HasPrefix(t.name, "Benchmark") {
				t.ids = append(nameMentions(t.name), t.ids...)
			}
		}
		if t.ids = unique(t.ids); len(t.ids) > 0 {
			tests = append(tests, t)
		}
	}
	return tests, nil
}

// named returns the IDs of the items that a declaration's strings name. The strings of failure and log messages do not
// count.
func named(declaration ast.Decl) (ids []string) {
	ast.Inspect(declaration, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.CallExpr:
			return !complains(node)
		case *ast.BasicLit:
			if text, err := strconv.Unquote(node.Value); err == nil && node.Kind == token.STRING {
				ids = append(ids, mentions(text)...)
			}
		}
		return true
	})
	return ids
}

func complains(call *ast.CallExpr) bool {
	selector, ok := call.Fun.(*ast.SelectorExpr)
	return ok && slices.Contains([]string{"Error", "Errorf", "Fatal", "Fatalf", "Log", "Logf"}, selector.Sel.Name)
}

func unique(ids []string) []string {
	slices.Sort(ids)
	return slices.Compact(ids)
}
