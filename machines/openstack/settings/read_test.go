package settings

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

var write = flag.Bool("write", false, "write what was read into the rows of testdata, and the table into docs/openstack.md")

// section begins a file of a row. The files are clouds.yaml, secure.yaml and so on; flags with --cloud and --clouds-yaml; env with
// variables; and want with the expected result. ${DIR} is the directory of the files.
const section = "-- "

// rowOf reads a file of testdata, which describes one configured cloud. It returns the title in the first line, and the content of each
// section (see section) by the section's name.
func rowOf(t *testing.T, path string) (title string, files map[string]string) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	files = map[string]string{}
	title, rest, _ := strings.Cut(string(raw), "\n"+section)
	for _, part := range strings.Split(rest, "\n"+section) {
		name, text, _ := strings.Cut(part, " --\n")
		files[name] = strings.TrimSuffix(text, "\n")
	}
	return strings.TrimSpace(title), files
}

// readRow reads the configured cloud of a row in a directory of its own.
func readRow(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	from := Source{}
	for name, text := range files {
		text = strings.ReplaceAll(text, "${DIR}", dir)
		switch name {
		case "want":
			continue
		case "env":
			from.Environ = strings.Split(text, "\n")
		case "flags":
			for _, line := range strings.Split(text, "\n") {
				flag, value, _ := strings.Cut(line, "=")
				switch flag {
				case "--cloud":
					from.Cloud = value
				case "--clouds-yaml":
					from.CloudsYAML = value
				case "--cloud-ca":
					from.CABundle = value
				}
			}
		default:
			if err := os.WriteFile(filepath.Join(dir, name), []byte(strings.NewReplacer("\\r", "\r", "\\ufeff", "\ufeff").Replace(text)), 0o600); err != nil {
				t.Fatal(err)
			}
			if name == "clouds.yaml" {
				from.CloudsYAML = filepath.Join(dir, name)
			}
		}
	}
	c, err := Read(from)
	if err != nil {
		return "refused: " + strings.ReplaceAll(err.Error(), dir, "${DIR}")
	}
	var lines []string
	for v, i := reflect.ValueOf(c), 0; i < v.NumField(); i++ {
		name := v.Type().Field(i).Name
		switch {
		case name == "Notes":
			for _, note := range c.Notes {
				lines = append(lines, "note: "+note)
			}
		case !v.Field(i).IsZero():
			lines = append(lines, fmt.Sprintf("%s: %v", name, v.Field(i)))
		}
	}
	slices.Sort(lines)
	return strings.ReplaceAll(strings.Join(lines, "\n"), dir, "${DIR}")
}

func TestTheConfiguredCloudIsReadAsOpenStacksOwnClientsReadItOrRefusedOrNamed(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatal("no rows", err)
	}
	for _, path := range paths {
		title, files := rowOf(t, path)
		t.Run(title+" (F-120)", func(t *testing.T) {
			got := readRow(t, files)
			if *write {
				files["want"] = got
				text := title + "\n"
				for _, name := range []string{"flags", "env", "clouds.yaml", "secure.yaml", "secure.json", "clouds-public.yaml", "my.yaml", "client.pem", "want"} {
					if content, ok := files[name]; ok {
						text += section + name + " --\n" + content + "\n"
					}
				}
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if got != files["want"] {
				t.Errorf("%s: got\n%s\nwant\n%s", path, got, files["want"])
			}
		})
	}
}
