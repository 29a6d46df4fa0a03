package main

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// writersTable is the heading of the table in docs/api.md that says who may write what.
const writersTable = "## Who may write what\n"

// rowsOf returns the rows of the table that concern an object and a field.
func rowsOf(page, object, field string) (rows []string) {
	_, rest, _ := strings.Cut(page, writersTable)
	table, _, _ := strings.Cut(rest, "\n## ")
	for line := range strings.Lines(table) {
		cells := strings.Split(line, " | ")
		if len(cells) != 5 || strings.HasPrefix(line, "| object") {
			continue
		}
		kinds, fields := strings.TrimPrefix(cells[0], "| "), cells[1]
		named := kinds == "all" || strings.HasPrefix(kinds, "all but ") && !strings.HasSuffix(kinds, " "+object)
		for _, kind := range strings.Split(kinds, ", ") {
			named = named || kind == object || kind == "bare "+object || kind == object+" of a deployment"
		}
		if named && strings.Contains(fields, "`"+field+"`") {
			rows = append(rows, line)
		}
	}
	return rows
}

// fieldsIn returns the JSON names of the fields of a struct, each after the prefix.
func fieldsIn(of any, prefix string) (names []string) {
	t := reflect.TypeOf(of)
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		if name != "" && name != "-" && name != "metadata" || name == "metadata" && prefix != "" {
			names = append(names, prefix+name)
		}
	}
	return names
}

func TestTheTableOfWritersNamesEveryFieldOfEachKind(t *testing.T) {
	page := string(content(t, "../../docs/api.md"))
	const spec = "spec."
	for kind, fields := range map[string][]string{
		"MachineDeployment": append(fieldsIn(v1alpha1.MachineDeploymentSpec{}, spec), "status"),
		"MachineSet":        append(fieldsIn(v1alpha1.MachineSetSpec{}, spec), "status"),
		"Machine":           append(fieldsIn(v1alpha1.MachineSpec{}, spec), "status"),
		"MachineClass":      fieldsIn(v1alpha1.MachineClass{}, ""),
		"Cluster":           append(fieldsIn(v1alpha1.ClusterSpec{}, spec), "status"),
	} {
		for _, field := range append(fields, "metadata.labels", "metadata.annotations", "metadata.finalizers") {
			t.Run(kind+": "+field+" has its writers, in one row or in one for bare sets and one for others (F-162)", func(t *testing.T) {
				rows := rowsOf(page, kind, field)
				split := kind == "MachineSet" && len(rows) == 2 && slices.ContainsFunc(rows, func(r string) bool { return strings.Contains(r, "bare MachineSet") })
				if len(rows) != 1 && !split {
					t.Errorf("there are %d rows: %q", len(rows), rows)
				}
			})
		}
	}
}
