package main

import (
	"bytes"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// mostFlags is how many flags drover may have.
const mostFlags = 52

func TestTheFlags(t *testing.T) {
	t.Run("there are few enough to read, each with a help of one line", func(t *testing.T) {
		count := 0
		command().Flags().VisitAll(func(f *pflag.Flag) {
			if f.Hidden {
				return
			}
			count++
			if len(f.Usage) == 0 || len(f.Usage) > 140 {
				t.Errorf("the help of --%s has %d characters: %s", f.Name, len(f.Usage), f.Usage)
			}
		})
		if count > mostFlags {
			t.Errorf("%d flags, want at most %d", count, mostFlags)
		}
	})
	t.Run("the help of drover and of drover adopt shows every flag under the title of its group", func(t *testing.T) {
		for _, args := range [][]string{{"--help"}, {"adopt", "--help"}} {
			var out bytes.Buffer
			c := command()
			c.SetArgs(args)
			c.SetOut(&out)
			must(t, c.Execute())
			for _, want := range []string{"Cluster flags:", "Program flags:", "--machine-safety-overshooting-period", "--features"} {
				if !strings.Contains(out.String(), want) {
					t.Errorf("drover %v does not show %q", args, want)
				}
			}
			if strings.Contains(out.String(), "--drain-workers") {
				t.Errorf("drover %v shows a removed flag", args)
			}
		}
	})
}

func TestFlagsThatDroverHadBefore(t *testing.T) {
	refused := maps.Clone(removed)
	for _, f := range features {
		if refused[f.was] == "" {
			refused[f.was] = "leave it out, or, to have it on, use --features=" + f.name
		}
	}
	changes, err := os.ReadFile("../../CHANGELOG.md")
	must(t, err)
	for _, name := range slices.Concat(slices.Collect(maps.Keys(refused)), slices.Collect(maps.Keys(noEffect))) {
		t.Run("--"+name+" is in the changelog, with what to do instead", func(t *testing.T) {
			if row := regexp.MustCompile("(?m)^ *\\|.*`--" + name + "[=`]"); !row.Match(changes) {
				t.Error("no row of a table names it")
			}
		})
	}
	for name, instead := range refused {
		for _, value := range []string{"", "=true", "=false"} {
			t.Run("--"+name+value+" is refused with what to do instead", func(t *testing.T) {
				err := command().ParseFlags([]string{"--" + name + value})
				if err == nil || !strings.Contains(err.Error(), instead) {
					t.Errorf("got %v, want something with %q", err, instead)
				}
			})
		}
	}
	t.Run("who sets --leader-elect is not told to run without a lease", func(t *testing.T) {
		if err := command().ParseFlags([]string{"--leader-elect"}); err == nil || !strings.Contains(err.Error(), "leave it out; only --leader-elect=false becomes") {
			t.Errorf("got %v", err)
		}
	})
	for name := range noEffect {
		t.Run("--"+name+" is accepted with a warning", func(t *testing.T) {
			var out bytes.Buffer
			c := command()
			c.Flags().SetOutput(&out)
			must(t, c.ParseFlags([]string{"--" + name, "5"}))
			if !strings.Contains(out.String(), "has no effect") {
				t.Errorf("the output is %q", out.String())
			}
		})
	}
}
