package settings

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// asWritten makes each value of a document nil, a list, a map, or a text as it is written. YAML would read 1e10, 0123 and yes as a
// number and a boolean.
func asWritten(n *yaml.Node) {
	if n.Kind == yaml.ScalarNode && n.Tag != "!!null" && n.Tag != "!!merge" {
		n.Tag = "!!str"
	}
	for _, inner := range n.Content {
		asWritten(inner)
	}
}

// document is a clouds.yaml, secure.yaml or clouds-public.yaml. Its entries are only decoded when they are used.
type document struct {
	Clouds   map[string]yaml.Node `yaml:"clouds"`
	Profiles map[string]yaml.Node `yaml:"public-clouds"`
}

// load reads a document, in YAML or JSON.
func load(path string) (document, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return document{}, err
	}
	if json.Valid(raw) {
		// YAML refuses tabs. In JSON they are only white space.
		raw = bytes.ReplaceAll(raw, []byte("\t"), []byte(" "))
	}
	var d document
	var root yaml.Node
	decoder := yaml.NewDecoder(bytes.NewReader(raw))
	if err := decoder.Decode(&root); errors.Is(err, io.EOF) {
		return d, nil
	} else if err != nil {
		return d, err
	}
	if err := decoder.Decode(&yaml.Node{}); !errors.Is(err, io.EOF) {
		return d, errors.New("the file has more than one YAML document; keep one")
	}
	asWritten(&root)
	return d, root.Decode(&d)
}

// beside loads the document with a name, and one of the usual endings, in the directory of path. It is empty when there is none.
func beside(path, name string) (document, string, error) {
	for _, ending := range []string{".yaml", ".yml", ".json"} {
		d, err := load(filepath.Join(filepath.Dir(path), name+ending))
		if !errors.Is(err, os.ErrNotExist) {
			return d, name + ending, err
		}
	}
	return document{}, name + ".yaml", nil
}

// setting is a value and where it was read: auth.password, OS_PASSWORD.
type setting struct {
	at    string
	value any
}

// layer has settings by their names in the table.
type layer map[string]setting

// over returns the settings of high, and those of low that high does not have.
func (high layer) over(low layer) layer {
	all := layer{}
	maps.Copy(all, low)
	maps.Copy(all, high)
	return all
}

// read decodes an entry of a document. where is what errors put before the key.
func (high layer) read(where string, entry yaml.Node) error {
	var decoded any
	if err := entry.Decode(&decoded); err != nil {
		return fmt.Errorf("%s%w", where, err)
	}
	values, ok := decoded.(map[string]any)
	if !ok && decoded != nil {
		return fmt.Errorf("%sis not a mapping of keys to values", where)
	}
	return high.add(where, values)
}

// add puts values into the layer, by their names in the table. Errors: a key of auth that no table has, and two keys of one meaning
// with different values.
func (high layer) add(where string, values map[string]any) error {
	var wrong []error
	for _, key := range slices.Sorted(maps.Keys(values)) {
		value := values[key]
		auth, ok := value.(map[string]any)
		switch {
		case value == nil || value == "":
		case key != "auth":
			wrong = append(wrong, high.put(where+key, normal(key), value))
		case !ok:
			wrong = append(wrong, fmt.Errorf("%sauth: is not a mapping of keys to values", where))
		default:
			for _, inner := range slices.Sorted(maps.Keys(auth)) {
				row, remedy := find(normal(inner)), "write it beside auth"
				switch {
				case row != nil && row.ways != "":
					continue
				case row == nil:
					remedy = cmp.Or(hint(inner, "auth."), "remove it")
				}
				wrong = append(wrong, fmt.Errorf("%sauth.%s: is not a key of auth; %s", where, inner, remedy))
				delete(auth, inner)
			}
			wrong = append(wrong, high.add(where+"auth.", auth))
		}
	}
	return errors.Join(wrong...)
}

// put adds a value. at is where it was read.
func (high layer) put(at, key string, value any) error {
	if row := find(key); row != nil {
		key = row.Name
	}
	if text, ok := value.(string); ok && (key == "interface" || strings.HasSuffix(key, "_interface")) {
		value = strings.TrimSuffix(text, "URL")
	}
	if before, taken := high[key]; taken && fmt.Sprint(before.value) != fmt.Sprint(value) {
		return fmt.Errorf("%s conflicts with %s, which has the same meaning; keep one of them", at, before.at)
	}
	high[key] = setting{at, value}
	return nil
}
