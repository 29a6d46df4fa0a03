package main

import (
	"go/ast"
	"go/token"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

var (
	// item matches an item number of the checklists, such as CA-C56, MC-2, MCM-22a, CAPI-18 or F-47.
	item = regexp.MustCompile(`\b(CA-C|MCM-|MC-|CAPI-|F-)\d+[ab]?\b`)
	// itemsLast matches item numbers in parentheses at the end of a name.
	itemsLast = regexp.MustCompile(`\s*\([^()]*\b(?:CA-C|MCM-|MC-|CAPI-|F-)\d+[^()]*\)$`)
	// itemsFirst matches item numbers at the beginning of a name, in lists and ranges: "MC-3 MCM-71 … 74, 76".
	itemsFirst = regexp.MustCompile(`^(CA-C|MCM-|MC-|CAPI-|F-)\d+[ab]?\b((\s*(,|and\b|…|–|\.{2,3})\s*(CA-C|C|MCM-|MC-|CAPI-|F-)?|\s+(CA-C|MCM-|MC-|CAPI-|F-))\d+[ab]?\b)*`)
	// between matches the space between two item numbers without a comma.
	between = regexp.MustCompile(`(\d[ab]?) ((?:CA-C|MCM-|MC-|CAPI-|F-)\d)`)
)

// itemsNotLast returns a finding for each test name in a file that has an item number elsewhere than at its end, in parentheses.
func itemsNotLast(fset *token.FileSet, file *ast.File) []finding {
	var found []finding
	for _, n := range testNames(file) {
		name, _ := strconv.Unquote(n.literal.Value)
		at := item.FindString(itemsLast.ReplaceAllString(name, ""))
		if at == "" || !strings.Contains(name, " ") {
			continue
		}
		f := finding{line: fset.Position(n.literal.Pos()).Line, found: at, instead: "put the numbers at the end of the name, in parentheses (-fix)"}
		if moved, ok := moveItems(name); ok && n.whole {
			f.edit = replacing(fset, n.literal, moved)
		}
		found = append(found, f)
	}
	return found
}

// moveItems moves the item numbers from the beginning of a name to its end. It returns the new name, and false when the numbers
// cannot be moved that way.
func moveItems(name string) (string, bool) {
	begin := itemsFirst.FindString(name)
	sentence := strings.TrimLeft(name[len(begin):], " :")
	if begin == "" || sentence == "" || item.MatchString(sentence) {
		return "", false
	}
	return sentence + " (" + between.ReplaceAllString(begin, "$1, $2") + ")", true
}

// testName is a string literal in the name of a test. whole reports whether the literal is the whole name.
type testName struct {
	literal *ast.BasicLit
	whole   bool
}

// testNames returns the literals that are names of tests: the first argument of each call of Run, and three parts of tables of
// tests: the keys, the values of the field name, and the first field of an entry without keys.
func testNames(file *ast.File) []testName {
	var names []testName
	add := func(name ast.Expr) {
		for _, literal := range literals(name) {
			names = append(names, testName{literal, literal == name})
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if f, ok := n.Fun.(*ast.SelectorExpr); ok && f.Sel.Name == "Run" && len(n.Args) > 0 {
				add(n.Args[0])
			}
		case *ast.CompositeLit:
			for i, element := range n.Elts {
				if name := nameOf(i, element); name != nil {
					add(name)
				}
			}
		}
		return true
	})
	return names
}

// nameOf returns the part of an element of a composite literal that may name a test; nil when there is none.
func nameOf(index int, element ast.Expr) ast.Expr {
	pair, ok := element.(*ast.KeyValueExpr)
	if !ok {
		if literal, ok := element.(*ast.BasicLit); ok && index == 0 {
			return literal
		}
		return nil
	}
	if field, ok := pair.Key.(*ast.Ident); !ok {
		return pair.Key
	} else if field.Name == "name" {
		return pair.Value
	}
	return nil
}

// smallLogs returns the log messages in a file that begin with a small letter. It checks the first argument of Info and InfoS, and
// the second argument of Error and ErrorS.
func smallLogs(fset *token.FileSet, file *ast.File) []finding {
	var found []finding
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		if literal := logMessage(call); literal != nil {
			message, _ := strconv.Unquote(literal.Value)
			if first, _ := utf8.DecodeRuneInString(message); unicode.IsLower(first) {
				found = append(found, finding{line: fset.Position(literal.Pos()).Line, found: message,
					instead: "begin a log message with a capital (-fix)",
					edit:    replacing(fset, literal, string(unicode.ToUpper(first))+message[utf8.RuneLen(first):])})
			}
		}
		return true
	})
	return found
}

// logMessage returns the message in a call of a logger if the message is a literal; nil for any other call.
func logMessage(call *ast.CallExpr) *ast.BasicLit {
	method, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return nil
	}
	at := map[string]int{"Info": 1, "InfoS": 1, "Error": 2, "ErrorS": 2}[method.Sel.Name]
	if at == 0 || len(call.Args) < at {
		return nil
	}
	literal, ok := call.Args[at-1].(*ast.BasicLit)
	if !ok || literal.Kind != token.STRING {
		return nil
	}
	return literal
}
