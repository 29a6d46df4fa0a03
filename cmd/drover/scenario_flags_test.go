package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
)

// flagsPage is the page that names every flag; `make generate` writes it.
const flagsPage = "../../docs/flags.md"

var writePage = flag.Bool("write", false, "write the page of flags instead of comparing it")

func TestTheFlagsPage(t *testing.T) {
	want := renderFlags()
	if *writePage {
		must(t, os.WriteFile(flagsPage, []byte(want), 0o644))
	}
	t.Run("docs/flags.md lists every flag, with its default and its meaning (F-46)", func(t *testing.T) {
		got, err := os.ReadFile(flagsPage)
		must(t, err)
		if diff := cmp.Diff(want, string(got)); diff != "" {
			t.Errorf("run make generate (-flags +page):\n%s", diff)
		}
	})
	t.Run("docs/cluster-autoscaler.md states the default of --grpc-address (F-46)", func(t *testing.T) {
		page, err := os.ReadFile("../../docs/cluster-autoscaler.md")
		must(t, err)
		row := "| `--grpc-address` | `host:port`, or `unix:///path`. Default `" + defaults().grpcAddress + "`"
		if !strings.Contains(string(page), row) {
			t.Errorf("it does not hold %q", row)
		}
	})
	t.Run("the grpcurl command in docs/cluster-autoscaler.md has a unix:/// address, and not the option -unix (F-46)", func(t *testing.T) {
		page, err := os.ReadFile("../../docs/cluster-autoscaler.md")
		must(t, err)
		if !strings.Contains(string(page), "grpcurl -plaintext unix:///") || strings.Contains(string(page), "-unix ") {
			t.Error("the call of grpcurl is another one")
		}
	})
}

// renderFlags returns the page of flags.
func renderFlags() string {
	var page strings.Builder
	page.WriteString("# Flags of drover\n\nWritten by `make generate` from the flags themselves; `drover --help` shows the same. A list takes commas, or the flag several\n" +
		"times. A duration is a number with a unit, such as `90s`, `10m` or `2h`.\n")
	sets := defaults().flags()
	for _, title := range sets.Order {
		fmt.Fprintf(&page, "\n## %s\n\n| flag | value | default | meaning |\n|---|---|---|---|\n", strings.ToUpper(title[:1])+title[1:])
		sets.FlagSets[title].VisitAll(func(f *pflag.Flag) { writeFlag(&page, f) })
	}
	page.WriteString("\n## Features\n\nThe names in `--features`.\n\n| feature | meaning |\n|---|---|\n")
	for _, f := range features {
		fmt.Fprintf(&page, "| `%s` | %s |\n", f.name, f.meaning)
	}
	return page.String()
}

// writeFlag writes the row of one flag.
func writeFlag(page *strings.Builder, f *pflag.Flag) {
	kind, usage := pflag.UnquoteUsage(f)
	if kind == "" {
		kind = f.Value.Type()
	}
	value := "–"
	if f.DefValue != "" && f.DefValue != "[]" {
		value = "`" + f.DefValue + "`"
	}
	fmt.Fprintf(page, "| `--%s` | %s | %s | %s |\n", f.Name, kind, value, strings.NewReplacer("|", "\\|", "<", "&lt;").Replace(usage))
}
