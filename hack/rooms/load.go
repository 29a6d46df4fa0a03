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
	"slices"
	"strings"
)

// listed is a package in the output of `go list`.
type listed struct {
	ImportPath, Dir, Export string
	Module                  *struct{ Path string }
	GoFiles, Imports        []string
	DepOnly                 bool
}

// tools are the folders, relative to the module, whose packages are not part of the program.
var tools = []string{"test", "hack", "cmd/sandbox"}

// load type-checks the packages of the program that match the patterns. It uses the compiler's export data for their imports.
func load(patterns []string) (*house, error) {
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
	h := &house{}
	users := map[string][]string{}
	for _, p := range all {
		if p.DepOnly || p.isTool() {
			continue
		}
		for _, path := range p.Imports {
			users[path] = append(users[path], p.name())
		}
		r, err := check(fset, imports, p)
		if err != nil {
			return nil, fmt.Errorf("checking %s: %w", p.ImportPath, err)
		}
		if r.code > 0 {
			h.rooms = append(h.rooms, r)
		}
	}
	for _, r := range h.rooms {
		r.users = users[r.path]
	}
	return h, nil
}

// name returns the path of the package relative to its module.
func (p *listed) name() string {
	if p.Module == nil {
		return p.ImportPath
	}
	return strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, p.Module.Path), "/")
}

func (p *listed) isTool() bool {
	return slices.ContainsFunc(tools, func(folder string) bool {
		return (p.name() == folder || strings.HasPrefix(p.name(), folder+"/")) && !strings.Contains(p.name(), "testdata")
	})
}

func list(patterns []string) ([]listed, error) {
	command := exec.Command("go", append([]string{"list", "-deps", "-export", "-json=ImportPath,Dir,Export,Module,GoFiles,Imports,DepOnly"}, patterns...)...)
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
	sources := map[*ast.File][]byte{}
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
		files, sources[file] = append(files, file), source
	}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{}}
	config := types.Config{Importer: imports}
	if _, err := config.Check(p.ImportPath, fset, files, info); err != nil {
		return nil, err
	}
	r := &room{path: p.ImportPath, name: p.name(), methods: map[string]int{}}
	if p.Module != nil {
		r.module = p.Module.Path
	}
	for _, file := range files {
		if !ast.IsGenerated(file) {
			r.add(fset, file, sources[file], info)
		}
	}
	return r, nil
}
