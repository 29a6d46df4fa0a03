package main

import (
	"fmt"
	"go/ast"
	"go/format"
	"go/token"
	"os"
	"slices"
	"strconv"
)

// edit replaces the bytes of a Go file between two offsets.
type edit struct {
	from, to int
	with     string
}

// replacing returns the edit that replaces a string literal by value.
func replacing(fset *token.FileSet, literal *ast.BasicLit, value string) edit {
	quoted := strconv.Quote(value)
	if literal.Value[0] == '`' {
		quoted = "`" + value + "`"
	}
	return edit{from: fset.Position(literal.Pos()).Offset, to: fset.Position(literal.End()).Offset, with: quoted}
}

// fix writes the edits of the findings to the files, and returns the remaining findings.
func fix(findings []finding) ([]finding, error) {
	edits := map[string][]edit{}
	var rest []finding
	for _, f := range findings {
		if f.edit == (edit{}) {
			rest = append(rest, f)
			continue
		}
		edits[f.file] = append(edits[f.file], f.edit)
	}
	for file, all := range edits {
		source, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		changed, err := applied(source, all)
		if err != nil {
			return nil, fmt.Errorf("fixing %s: %w", file, err)
		}
		if err := os.WriteFile(file, changed, 0o644); err != nil {
			return nil, err
		}
	}
	return rest, nil
}

// applied returns the source with the edits applied, and formatted.
func applied(source []byte, edits []edit) ([]byte, error) {
	slices.SortFunc(edits, func(a, b edit) int { return b.from - a.from })
	for _, e := range slices.Compact(edits) {
		source = slices.Concat(source[:e.from], []byte(e.with), source[e.to:])
	}
	return format.Source(source)
}
