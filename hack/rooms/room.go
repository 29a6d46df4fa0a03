package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"maps"
	"path/filepath"
	"slices"
	"strings"
)

// room is one package: its files, the edges from each file to the files that it uses, and its functions.
type room struct {
	path      string
	files     []string
	lines     int
	edges     map[string]map[string]bool // file -> the files it uses
	functions lengths
}

// function holds the name of a function, and the length of its body in lines.
type function struct {
	name  string
	lines int
}

type lengths []function

func (l lengths) quantile(q float64) int {
	if len(l) == 0 {
		return 0
	}
	sorted := slices.SortedFunc(slices.Values(l), func(a, b function) int { return a.lines - b.lines })
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)].lines
}

func (l lengths) longest() function {
	var longest function
	for _, f := range l {
		if f.lines > longest.lines {
			longest = f
		}
	}
	return longest
}

// add counts the file's lines and functions. As with the linter's limit, lines with only a comment do not count as lines
// of a function.
func (r *room) add(fset *token.FileSet, file *ast.File, source string) {
	name := filepath.Base(fset.Position(file.Pos()).Filename)
	lines := strings.Split(source, "\n")
	r.files = append(r.files, name)
	r.edges[name] = map[string]bool{}
	r.lines += fset.File(file.Pos()).LineCount()
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Body == nil {
			continue
		}
		count := 0
		for _, line := range lines[fset.Position(f.Body.Lbrace).Line:max(fset.Position(f.Body.Rbrace).Line-1, fset.Position(f.Body.Lbrace).Line)] {
			if !strings.HasPrefix(strings.TrimSpace(line), "//") {
				count++
			}
		}
		r.functions = append(r.functions, function{f.Name.Name, max(count, 1)})
	}
}

// connect adds an edge for each use of an object that another file of the package declares.
func (r *room) connect(fset *token.FileSet, pkg *types.Package, info *types.Info) {
	for ident, object := range info.Uses {
		if object.Pkg() != pkg || !shared(object, pkg) {
			continue
		}
		from := filepath.Base(fset.Position(ident.Pos()).Filename)
		to := filepath.Base(fset.Position(object.Pos()).Filename)
		if from != to && r.edges[from] != nil && r.edges[to] != nil {
			r.edges[from][to] = true
		}
	}
}

// shared reports whether the object is a package-level name, a field or a method.
func shared(object types.Object, pkg *types.Package) bool {
	if object.Parent() == pkg.Scope() {
		return true
	}
	switch o := object.(type) {
	case *types.Var:
		return o.IsField()
	case *types.Func:
		return o.Signature().Recv() != nil
	}
	return false
}

func (r *room) edgeCount() int {
	n := 0
	for _, to := range r.edges {
		n += len(to)
	}
	return n
}

func (r *room) perFile() float64 { return float64(r.edgeCount()) / float64(max(len(r.files), 1)) }

// print prints the files of the circle, the package's largest cycle of files, and the edges between all files.
func (r *room) print(circle []string) {
	fmt.Printf("\n%s\n  circle: %s\n", r.path, strings.Join(circle, " "))
	for _, from := range slices.Sorted(maps.Keys(r.edges)) {
		fmt.Printf("  %s -> %s\n", from, strings.Join(slices.Sorted(maps.Keys(r.edges[from])), " "))
	}
}
