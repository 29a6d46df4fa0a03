package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// listed is a package in the output of `go list`.
type listed struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
	DepOnly                 bool
}

// load type-checks the packages that match the patterns. It uses the compiler's export data for their
// imports.
func load(patterns []string) ([]*room, error) {
	all, err := list(patterns)
	if err != nil {
		return nil, err
	}
	exports := map[string]string{}
	for _, p := range all {
		exports[p.ImportPath] = p.Export
	}
	fset := token.NewFileSet()
	lookup := func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) }
	imports := importer.ForCompiler(fset, "gc", lookup)
	var rooms []*room
	for _, p := range all {
		if p.DepOnly {
			continue
		}
		r, err := check(fset, imports, p)
		if err != nil {
			return nil, fmt.Errorf("checking %s: %w", p.ImportPath, err)
		}
		if len(r.files) > 0 {
			rooms = append(rooms, r)
		}
	}
	return rooms, nil
}

func list(patterns []string) ([]listed, error) {
	command := exec.Command("go", append([]string{"list", "-deps", "-export", "-json=ImportPath,Dir,Export,GoFiles,DepOnly"}, patterns...)...)
	command.Stderr = os.Stderr
	out, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("running go list: %w", err)
	}
	var all []listed
	for decoder := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, fmt.Errorf("reading what go list printed: %w", err)
		}
		all = append(all, p)
	}
}

func check(fset *token.FileSet, imports types.Importer, p listed) (*room, error) {
	var files []*ast.File
	var sources []string
	for _, name := range p.GoFiles {
		path := filepath.Join(p.Dir, name)
		source, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		file, err := parser.ParseFile(fset, path, source, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		files, sources = append(files, file), append(sources, string(source))
	}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	config := types.Config{Importer: imports}
	pkg, err := config.Check(p.ImportPath, fset, files, info)
	if err != nil {
		return nil, err
	}
	r := &room{path: p.ImportPath, edges: map[string]map[string]bool{}}
	for i, file := range files {
		if !ast.IsGenerated(file) && declares(file) {
			r.add(fset, file, sources[i])
		}
	}
	r.connect(fset, pkg, info)
	return r, nil
}

// declares reports whether the file contains more than its package clause and imports.
func declares(file *ast.File) bool {
	for _, d := range file.Decls {
		if g, ok := d.(*ast.GenDecl); !ok || g.Tok != token.IMPORT {
			return true
		}
	}
	return false
}
