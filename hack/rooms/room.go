package main

import (
	"go/ast"
	"go/scanner"
	"go/token"
	"go/types"
	"slices"
	"strings"
)

// house is all packages that were loaded.
type house struct{ rooms []*room }

// room is one package. path is its import path, module the path of its module, and name its path in the module. methods counts the
// methods of each type. users are the names of the packages that import it.
type room struct {
	path, module, name      string
	code, exported, mutexes int
	methods                 map[string]int
	forwarders, users       []string
	functions               lengths
}

// function holds the name of a function, and the number of lines with code between its braces.
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

// mostMethods returns the type with most methods, and their number.
func (r *room) mostMethods() (name string, most int) {
	for t, n := range r.methods {
		if n > most || n == most && t < name {
			name, most = t, n
		}
	}
	return name, most
}

// add counts one file.
func (r *room) add(fset *token.FileSet, file *ast.File, source []byte, info *types.Info) {
	code := linesWithCode(source)
	r.code += len(code)
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			r.addFunction(fset, d, code, info)
		case *ast.GenDecl:
			r.addNames(d)
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		// Each use of sync.Mutex or sync.RWMutex as a type declares one mutex, or a parameter, of which there are none.
		if s, ok := n.(*ast.SelectorExpr); ok && isMutex(info.Uses[s.Sel]) {
			r.mutexes++
		}
		return true
	})
}

func isMutex(o types.Object) bool {
	t, ok := o.(*types.TypeName)
	return ok && t.Pkg() != nil && t.Pkg().Path() == "sync" && (t.Name() == "Mutex" || t.Name() == "RWMutex")
}

func (r *room) addFunction(fset *token.FileSet, f *ast.FuncDecl, code map[int]bool, info *types.Info) {
	receiver := receiverOf(f)
	name := f.Name.Name
	if receiver != "" {
		r.methods[receiver]++
		name = receiver + "." + name
	}
	if f.Name.IsExported() && (receiver == "" || ast.IsExported(receiver)) {
		r.exported++
	}
	if f.Body == nil {
		return
	}
	lines := 0
	for line := fset.Position(f.Body.Lbrace).Line + 1; line < fset.Position(f.Body.Rbrace).Line; line++ {
		if code[line] {
			lines++
		}
	}
	r.functions = append(r.functions, function{name, max(lines, 1)})
	if to := r.passesOn(f, info); to != "" {
		r.forwarders = append(r.forwarders, name+" → "+to)
	}
}

// addNames counts the exported types, variables and constants of a declaration.
func (r *room) addNames(d *ast.GenDecl) {
	for _, spec := range d.Specs {
		var names []*ast.Ident
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			names = []*ast.Ident{spec.Name}
		case *ast.ValueSpec:
			names = spec.Names
		}
		for _, name := range names {
			if name.IsExported() {
				r.exported++
			}
		}
	}
}

// receiverOf returns the name of the type that has the method; empty for a function.
func receiverOf(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	t := f.Recv.List[0].Type
	for {
		switch of := t.(type) {
		case *ast.StarExpr:
			t = of.X
		case *ast.IndexExpr:
			t = of.X
		case *ast.IndexListExpr:
			t = of.X
		case *ast.Ident:
			return of.Name
		default:
			return ""
		}
	}
}

// passesOn returns the name of the function of drover to which f only passes its parameters, all and in their order; empty when f does
// more, or has neither a parameter nor a receiver.
func (r *room) passesOn(f *ast.FuncDecl, info *types.Info) string {
	body := slices.DeleteFunc(slices.Clone(f.Body.List), isLocking)
	if len(body) != 1 {
		return ""
	}
	var call *ast.CallExpr
	switch s := body[0].(type) {
	case *ast.ExprStmt:
		call, _ = s.X.(*ast.CallExpr)
	case *ast.ReturnStmt:
		if len(s.Results) == 1 {
			call, _ = s.Results[0].(*ast.CallExpr)
		}
	}
	if call == nil || !slices.Equal(parameters(f), identifiers(call.Args)) {
		return ""
	}
	var called *ast.Ident
	switch fun := call.Fun.(type) {
	case *ast.Ident:
		called = fun
	case *ast.SelectorExpr:
		called = fun.Sel
	default:
		return ""
	}
	to, ok := info.Uses[called].(*types.Func)
	if !ok || to.Pkg() == nil || !strings.HasPrefix(to.Pkg().Path(), r.module) || f.Recv == nil && f.Type.Params.NumFields() == 0 {
		return ""
	}
	return to.Name()
}

// isLocking reports whether a statement locks or unlocks a mutex.
func isLocking(s ast.Stmt) bool {
	var call ast.Expr
	switch s := s.(type) {
	case *ast.ExprStmt:
		call = s.X
	case *ast.DeferStmt:
		call = s.Call
	default:
		return false
	}
	c, ok := call.(*ast.CallExpr)
	if !ok {
		return false
	}
	sel, ok := c.Fun.(*ast.SelectorExpr)
	return ok && slices.Contains([]string{"Lock", "Unlock", "RLock", "RUnlock"}, sel.Sel.Name)
}

func parameters(f *ast.FuncDecl) (names []string) {
	for _, field := range f.Type.Params.List {
		for _, name := range field.Names {
			names = append(names, name.Name)
		}
	}
	return names
}

// identifiers returns the names of the arguments; one that is not a plain name is returned as "".
func identifiers(arguments []ast.Expr) (names []string) {
	for _, a := range arguments {
		name := ""
		if i, ok := a.(*ast.Ident); ok {
			name = i.Name
		}
		names = append(names, name)
	}
	return names
}

// linesWithCode returns the numbers of the lines that have a part of a token other than a comment.
func linesWithCode(source []byte) map[int]bool {
	fset := token.NewFileSet()
	file := fset.AddFile("", -1, len(source))
	var s scanner.Scanner
	s.Init(file, source, nil, 0)
	code := map[int]bool{}
	for {
		pos, tok, text := s.Scan()
		if tok == token.EOF {
			return code
		}
		if tok == token.SEMICOLON && text == "\n" {
			continue
		}
		first := file.Line(pos)
		for line := first; line <= first+strings.Count(text, "\n"); line++ {
			code[line] = true
		}
	}
}
