package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
)

// prefix is the prefix of the names of drover's metrics.
const prefix = "drover_"

// metric is one metric as declared in the source.
type metric struct {
	name, kind, help string
	labels           []string
}

// scan returns the metrics that the Go files in the folders declare; it ignores tests. It returns an error for a metric without a
// help text, for a name that is declared twice, and for a metric's name outside of the declarations that scan recognizes.
func scan(folders ...string) ([]metric, error) {
	files, declared := token.NewFileSet(), map[string]string{}
	var all []metric
	for _, folder := range folders {
		if err := filepath.WalkDir(folder, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			found := metricsOf(file)
			if names := namesIn(file); len(found) != names {
				return fmt.Errorf("%s has %d names of metrics, of which %d are declared in a way that hack/metrics knows: put Name and Help as string literals into the declaration", path, names, len(found))
			}
			for _, m := range found {
				if m.help == "" {
					return fmt.Errorf("%s declares %s without a help text: Help must be a string literal", path, m.name)
				}
				if first, twice := declared[m.name]; twice {
					return fmt.Errorf("%s declares %s a second time, after %s", path, m.name, first)
				}
				declared[m.name] = path
			}
			all = append(all, found...)
			return nil
		}); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// namesIn returns how many string literals in a file are names of metrics.
func namesIn(file *ast.File) (n int) {
	ast.Inspect(file, func(node ast.Node) bool {
		if l, ok := node.(*ast.BasicLit); ok && strings.HasPrefix(l.Value, `"`+prefix) {
			n++
		}
		return true
	})
	return n
}

// metricsOf returns the metrics that a file declares.
func metricsOf(file *ast.File) (all []metric) {
	helpers := labelsOfHelpers(file)
	ast.Inspect(file, func(node ast.Node) bool {
		call, ok := node.(*ast.CallExpr)
		if !ok || len(call.Args) == 0 {
			return true
		}
		m := metric{}
		if options, ok := call.Args[0].(*ast.CompositeLit); ok {
			m = ofOptions(call, options)
		} else if len(call.Args) > 1 {
			m = ofDescription(call, helpers)
		}
		if strings.HasPrefix(m.name, prefix) {
			all = append(all, m)
		}
		return true
	})
	return all
}

// ofOptions returns the metric that a call such as prometheus.NewGaugeVec(prometheus.GaugeOpts{…}, labels) declares.
func ofOptions(call *ast.CallExpr, options *ast.CompositeLit) metric {
	m := metric{kind: strings.ToLower(strings.TrimSuffix(strings.TrimPrefix(calledName(call), "New"), "Vec"))}
	for _, e := range options.Elts {
		if pair, ok := e.(*ast.KeyValueExpr); ok {
			switch key, _ := pair.Key.(*ast.Ident); {
			case key == nil:
			case key.Name == "Name":
				m.name = text(pair.Value)
			case key.Name == "Help":
				m.help = text(pair.Value)
			}
		}
	}
	if len(call.Args) > 1 {
		m.labels = texts(call.Args[1])
	}
	return m
}

// ofDescription returns the metric of prometheus.NewDesc(name, help, labels, nil), or of a function of the same file that calls it.
// drover describes counters and gauges in that way; a counter's name ends in _total.
func ofDescription(call *ast.CallExpr, helpers map[string][]string) metric {
	m := metric{name: text(call.Args[0]), help: text(call.Args[1]), kind: "gauge", labels: helpers[calledName(call)]}
	if len(call.Args) > 2 {
		m.labels = texts(call.Args[2])
	}
	if strings.HasSuffix(m.name, "_total") {
		m.kind = "counter"
	}
	return m
}

// labelsOfHelpers returns the labels that functions in a file pass to prometheus.NewDesc, by name of the function.
func labelsOfHelpers(file *ast.File) map[string][]string {
	out := map[string][]string{}
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		ast.Inspect(f, func(node ast.Node) bool {
			if call, ok := node.(*ast.CallExpr); ok && calledName(call) == "NewDesc" && len(call.Args) > 2 {
				out[f.Name.Name] = texts(call.Args[2])
			}
			return true
		})
	}
	return out
}

// calledName returns the name of the called function without its package.
func calledName(call *ast.CallExpr) string {
	switch f := call.Fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		return f.Sel.Name
	}
	return ""
}

// text returns the value of a string literal, or of string literals joined by +. It returns "" for any other expression.
func text(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		s, err := strconv.Unquote(e.Value)
		if err != nil {
			return ""
		}
		return s
	case *ast.BinaryExpr:
		return text(e.X) + text(e.Y)
	}
	return ""
}

// texts returns the values of a list of string literals.
func texts(e ast.Expr) (all []string) {
	if list, ok := e.(*ast.CompositeLit); ok {
		for _, element := range list.Elts {
			all = append(all, text(element))
		}
	}
	return all
}
