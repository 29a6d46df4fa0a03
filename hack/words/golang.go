package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"strconv"
	"strings"
)

// checkGo returns the findings in the comments, string literals, log messages and test names of a Go file. It returns none for generated
// files.
func checkGo(name string, source []byte) ([]finding, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("parsing %s: %w", name, err)
	}
	if ast.IsGenerated(file) {
		return nil, nil
	}
	var found []finding
	for _, group := range file.Comments {
		found = append(found, commentText(fset, group).findings()...)
	}
	for _, d := range file.Decls {
		found = append(found, declarationDocs(fset, d)...)
	}
	if path.Dir(name) == ownFolder {
		return found, nil
	}
	for _, literal := range literals(file) {
		value, _ := strconv.Unquote(literal.Value)
		found = append(found, literalText(fset, literal, value).findings()...)
	}
	switch {
	case !strings.HasSuffix(name, "_test.go"):
		found = append(found, smallLogs(fset, file)...)
	case path.Dir(name) != itemsFolder:
		found = append(found, itemsNotLast(fset, file)...)
	}
	return found, nil
}

// commentText returns the text of a comment without its markers.
func commentText(fset *token.FileSet, group *ast.CommentGroup) text {
	var lines []string
	for _, comment := range group.List {
		for _, line := range strings.Split(comment.Text, "\n") {
			line = strings.TrimPrefix(strings.TrimPrefix(line, "//"), "/*")
			lines = append(lines, strings.TrimSuffix(line, "*/"))
		}
	}
	return joined(lines, fset.Position(group.Pos()).Line)
}

// literalText returns the text of a string literal. For a raw string literal it also records where the lines end.
func literalText(fset *token.FileSet, literal *ast.BasicLit, value string) text {
	line := fset.Position(literal.Pos()).Line
	t := joined([]string{value}, line)
	if literal.Value[0] == '`' {
		t = joined(strings.Split(value, "\n"), line)
	}
	t.prose = false
	return t
}

// literals returns the string literals in a file with more than one word. It ignores imports and struct tags, which have only one.
func literals(node ast.Node) []*ast.BasicLit {
	var all []*ast.BasicLit
	ast.Inspect(node, func(n ast.Node) bool {
		if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING && strings.Contains(literal.Value, " ") {
			all = append(all, literal)
		}
		return true
	})
	return all
}

// declarationDocs checks the doc comment of a declaration, and those of the fields and methods of a type. It returns a finding
// for each doc comment that does not begin as is usual in Go.
func declarationDocs(fset *token.FileSet, declaration ast.Decl) []finding {
	var found []finding
	see := func(doc *ast.CommentGroup, names ...*ast.Ident) {
		if doc == nil || len(names) == 0 {
			return
		}
		if f, ok := docStart(names[0].Name, commentText(fset, doc).body); ok {
			f.line = fset.Position(doc.Pos()).Line
			found = append(found, f)
		}
	}
	ast.Inspect(declaration, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			see(n.Doc, n.Name)
		case *ast.GenDecl:
			for _, spec := range n.Specs {
				if t, ok := spec.(*ast.TypeSpec); ok && len(n.Specs) == 1 {
					see(n.Doc, t.Name)
				}
				if v, ok := spec.(*ast.ValueSpec); ok && len(n.Specs) == 1 {
					see(n.Doc, v.Names...)
				}
			}
		case *ast.TypeSpec:
			see(n.Doc, n.Name)
		case *ast.ValueSpec:
			see(n.Doc, n.Names...)
		case *ast.Field:
			see(n.Doc, n.Names...)
		}
		return true
	})
	return found
}

// docStart returns a finding when the doc comment of a name begins in a way that is not usual in Go. The second result is false
// when there is no such finding.
func docStart(name, doc string) (finding, bool) {
	first, rest, _ := strings.Cut(doc, " ")
	if first == name+":" {
		return finding{found: first, instead: `write a sentence that begins with the name, without a colon`}, true
	}
	second, _, _ := strings.Cut(rest, " ")
	if instead, ok := docVerbs[strings.TrimRight(second, ",.;:")]; ok && first == name {
		return finding{found: first + " " + second, instead: instead}, true
	}
	return finding{}, false
}
