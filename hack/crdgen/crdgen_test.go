package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

func finished(t *testing.T, schema string) object {
	t.Helper()
	raw := "kind: CustomResourceDefinition\nspec:\n  versions:\n  - schema:\n      openAPIV3Schema: " + schema
	done, err := Finish([]byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	crd := object{}
	if err := yaml.Unmarshal(done, &crd); err != nil {
		t.Fatal(err)
	}
	found, ok := dig(crd["spec"].(object)["versions"].([]any)[0], "schema", "openAPIV3Schema", "properties")
	if !ok {
		t.Fatalf("no properties in %s", done)
	}
	return found
}

func TestTheCRDGeneratorAddsMissingMaxLengthMaxItemsAndMaxProperties(t *testing.T) {
	got := finished(t, `{type: object, properties: {
		plain: {type: string}, own: {type: string, maxLength: 7}, time: {type: string, format: date-time}, choice: {type: string, enum: [a]},
		labels: {type: object, additionalProperties: {type: string}}, list: {type: array, items: {type: string}},
		size: {x-kubernetes-int-or-string: true, anyOf: [{type: integer}, {type: string}]},
		deep: {type: array, maxItems: 3, items: {type: object, properties: {key: {type: string}}}}}}`)
	for _, row := range []struct {
		what string
		path []string
		want float64
	}{
		{"a string without a limit gets a maxLength of", []string{"plain", "maxLength"}, defaultString},
		{"a string with a limit keeps its maxLength of", []string{"own", "maxLength"}, 7},
		{"a map without a limit gets a maxProperties of", []string{"labels", "maxProperties"}, defaultProperties},
		{"a value in the map labels gets a maxLength of", []string{"labels", "additionalProperties", "maxLength"}, 63},
		{"a list without a limit gets a maxItems of", []string{"list", "maxItems"}, defaultItems},
		{"a string in a list gets a maxLength of", []string{"list", "items", "maxLength"}, defaultString},
		{"a field with x-kubernetes-int-or-string gets a maxLength of", []string{"size", "maxLength"}, 32},
		{"a list with a limit keeps its maxItems of", []string{"deep", "maxItems"}, 3},
		{"a field called key, for label keys with a prefix, gets a maxLength of", []string{"deep", "items", "properties", "key", "maxLength"}, 317},
	} {
		t.Run(fmt.Sprintf("%s %v", row.what, row.want), func(t *testing.T) {
			at, _ := dig(got, row.path[:len(row.path)-1]...)
			if at[row.path[len(row.path)-1]] != row.want {
				t.Errorf("it is %v, want %v", at, row.want)
			}
		})
	}
	for _, bounded := range []string{"time", "choice"} {
		if at, _ := dig(got, bounded); at["maxLength"] != nil {
			t.Errorf("%s is bounded by its form already, and got %v", bounded, at)
		}
	}
}

func TestTheCRDGeneratorMakesRulesAcceptAValueThatHasNotChanged(t *testing.T) {
	const unchanged = "(oldSelf.hasValue() && oldSelf.value() == self) || (self != '')"
	for _, row := range []struct{ name, rule, want string }{
		{"a rule without oldSelf also accepts a value that has not changed (F-122)", `{rule: "self != ''"}`, unchanged},
		{"a rule that uses oldSelf is not changed", `{rule: "self == oldSelf"}`, "self == oldSelf"},
	} {
		t.Run(row.name, func(t *testing.T) {
			got := finished(t, `{type: object, properties: {outer: {type: object, properties: {field: {type: string, x-kubernetes-validations: [`+row.rule+`]}}}}}`)
			at, _ := dig(got, "outer", "properties", "field")
			rule := at["x-kubernetes-validations"].([]any)[0].(object)
			if optional := rule["optionalOldSelf"] == true; rule["rule"] != row.want || optional != (row.want == unchanged) {
				t.Errorf("it is %v, want %q", rule, row.want)
			}
		})
	}
}

func TestTheSchemaOfAProviderSpecListsItsFieldsAndAcceptsUnknownFields(t *testing.T) {
	got := finished(t, `{type: object, properties: {
		providerSpec: {type: object, properties: {value: {description: mine, type: object, x-kubernetes-preserve-unknown-fields: true}}},
		inner: {type: object, properties: {providerSpec: {type: object, x-kubernetes-preserve-unknown-fields: true}}},
		providerConfig: {type: object, properties: {value: {type: object, x-kubernetes-preserve-unknown-fields: true}}},
		providerStatus: {type: object, x-kubernetes-preserve-unknown-fields: true}}}`)
	for _, path := range [][]string{{"providerSpec", "properties", "value"}, {"inner", "properties", "providerSpec"}} {
		at, _ := dig(got, path...)
		if _, ok := dig(at, "properties", "cloudProviderSpec", "properties", "flavor"); !ok {
			t.Errorf("%v does not declare a flavor", path)
		}
		if at["x-kubernetes-preserve-unknown-fields"] != true {
			t.Errorf("%v does not keep unknown fields", path)
		}
	}
	if at, _ := dig(got, "providerSpec", "properties", "value"); at["description"] != "mine" {
		t.Errorf("the description became %v", at["description"])
	}
	if at, _ := dig(got, "providerConfig", "properties", "value"); at["properties"] != nil {
		t.Error("the old spelling is to be kept as it is, without fields")
	}
}

func TestASpecAcceptsNullsAndUnknownFields(t *testing.T) {
	got := finished(t, `{type: object, properties: {spec: {type: object, properties: {
		replicas: {type: integer}, paused: {type: boolean}, kind: {type: string, enum: ["", a]},
		selector: {type: object, properties: {matchLabels: {type: object}}},
		removals: {type: array, x-kubernetes-list-type: map, items: {type: object, properties: {name: {type: string}}}},
		versions: {type: object, properties: {kubelet: {type: string}}},
		taints: {type: array, items: {type: object, properties: {value: {type: string}}}}}}}}`)
	for _, row := range []struct {
		what string
		path []string
		want any
	}{
		{"a spec keeps unknown fields (F-115)", []string{"spec", "x-kubernetes-preserve-unknown-fields"}, true},
		{"an object in a list of a spec keeps unknown fields (F-115)", []string{"spec", "properties", "taints", "items", "x-kubernetes-preserve-unknown-fields"}, true},
		{"a field of a spec may be null (F-135)", []string{"spec", "properties", "paused", "nullable"}, true},
		{"a field of an object in a list may be null (F-135)", []string{"spec", "properties", "taints", "items", "properties", "value", "nullable"}, true},
		{"the size may not be null, because the scale subresource reads it", []string{"spec", "properties", "replicas", "nullable"}, nil},
		{"a selector keeps no unknown fields", []string{"spec", "properties", "selector", "x-kubernetes-preserve-unknown-fields"}, nil},
		{"an entry of a list that is a map keeps no unknown fields", []string{"spec", "properties", "removals", "items", "x-kubernetes-preserve-unknown-fields"}, nil},
		{"the former field roles is declared (F-115)", []string{"spec", "properties", "roles", "nullable"}, true},
		{"the former field containerRuntime is declared (F-115)", []string{"spec", "properties", "versions", "properties", "containerRuntime", "nullable"}, true},
	} {
		t.Run(row.what, func(t *testing.T) {
			at, _ := dig(got, row.path[:len(row.path)-1]...)
			if at[row.path[len(row.path)-1]] != row.want {
				t.Errorf("%v is %v, want %v", row.path, at[row.path[len(row.path)-1]], row.want)
			}
		})
	}
	t.Run("a rule takes the place of a list of values, which would not allow null (F-135)", func(t *testing.T) {
		at, _ := dig(got, "spec", "properties", "kind")
		rules, _ := at["x-kubernetes-validations"].([]any)
		if len(rules) != 1 || at["enum"] != nil || !strings.HasSuffix(rules[0].(object)["rule"].(string), "(self in ['', 'a'])") {
			t.Errorf("the field is %v", at)
		}
	})
}

func TestTheCRDGeneratorRefusesInvalidCRDs(t *testing.T) {
	for name, raw := range map[string]string{
		"text that is not YAML": "a: b: c", "a document of a kind other than CustomResourceDefinition": "kind: Pod\nspec: {}", "a CRD without versions": "kind: CustomResourceDefinition\nspec: {}",
		"a CRD version without a schema":                     "kind: CustomResourceDefinition\nspec: {versions: [{name: v1}]}",
		"a CRD that prunes unknown fields of providerStatus": "kind: CustomResourceDefinition\nspec: {versions: [{schema: {openAPIV3Schema: {properties: {providerStatus: {type: object}}}}}]}",
	} {
		t.Run(name+" is refused", func(t *testing.T) {
			if done, err := Finish([]byte(raw)); err == nil {
				t.Errorf("it was finished: %s", done)
			}
		})
	}
	if err := run(t.TempDir(), "page.md"); err == nil {
		t.Error("an empty folder was finished")
	}
}

// Each committed CRD must be in its final form: Finish, which completes the CRDs that controller-gen writes, must not
// change it. It must limit the size of every string, list and map. In provider documents, that is, in provider specs
// and provider statuses, it must accept null for every field. Every CEL rule must look at the old value. It must be small enough
// for kubectl apply, which stores the whole CRD in an annotation.
func TestTheCommittedCRDsEqualTheGeneratedCRDs(t *testing.T) {
	files, err := filepath.Glob("../../deploy/crds/" + definitions)
	if err != nil || len(files) != 5 {
		t.Fatalf("%d CRDs, want 5 (%v)", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file)+" equals the output of make generate, limits the size of every string, list and map, and has no rule that an unchanged value can break (F-122)", func(t *testing.T) {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			again, err := Finish(raw)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(raw, again) {
				t.Error("it is not as crdgen leaves it: run make generate")
			}
			if len(raw) > 200<<10 {
				t.Errorf("it has %d bytes; an annotation holds 256 KiB at most", len(raw))
			}
			crd := object{}
			if err := yaml.Unmarshal(raw, &crd); err != nil {
				t.Fatal(err)
			}
			if approved, _ := dig(crd, "metadata", "annotations"); approved["api-approved.kubernetes.io"] != "unapproved, legacy API" {
				t.Error("it is not marked as an unapproved legacy API")
			}
			annotations, _ := dig(crd, "metadata", "annotations")
			for key, value := range map[string]string{
				"helm.sh/resource-policy": "keep", "argocd.argoproj.io/sync-options": "Prune=false,Delete=false", "kustomize.toolkit.fluxcd.io/prune": "disabled",
			} {
				if annotations[key] != value {
					t.Errorf("annotation %s is %v, want %q: Helm, Argo CD or Flux would delete it (F-42)", key, annotations[key], value)
				}
			}
			schema, _ := dig(crd["spec"].(object)["versions"].([]any)[0], "schema", "openAPIV3Schema")
			for _, wrong := range faults("", schema, false) {
				t.Error(wrong)
			}
		})
	}
}

// faults describes the fields of a schema without a limit of their size, the fields of provider documents that do not accept
// null, and the rules that do not look at the old value. path is the path of the schema in the CRD. inProvider is true inside a
// provider document.
func faults(path string, schema object, inProvider bool) []string {
	var found []string
	missing := func(key string) {
		if _, has := schema[key]; !has {
			found = append(found, fmt.Sprintf("%s has no %s", path, key))
		}
	}
	if inProvider && schema["nullable"] != true && !strings.HasSuffix(path, "[]") {
		missing("nullable")
	}
	rules, _ := schema["x-kubernetes-validations"].([]any)
	for _, rule := range rules {
		if text := fmt.Sprint(rule.(object)["rule"]); !strings.Contains(text, "oldSelf") {
			found = append(found, fmt.Sprintf("%s has a rule without oldSelf: %s", path, text))
		}
	}
	switch schema["type"] {
	case "string":
		if schema["enum"] == nil && schema["format"] != "date-time" && path != ".apiVersion" && path != ".kind" {
			missing("maxLength")
		}
	case "array":
		missing("maxItems")
		found = append(found, faults(path+"[]", schema["items"].(object), inProvider)...)
	}
	if values, ok := schema["additionalProperties"].(object); ok {
		missing("maxProperties")
		found = append(found, faults(path+"{}", values, inProvider)...)
	}
	properties, _ := schema["properties"].(object)
	for name, property := range properties {
		at := property.(object)
		document := path == ".providerSpec" || strings.HasSuffix(path, ".providerSpec.value") || strings.HasSuffix(path, ".providerStatus")
		found = append(found, faults(path+"."+name, at, inProvider || document)...)
	}
	return found
}

// Every field that drover reads in a provider spec must be declared in providerspec.yaml: the test compares the lists
// of fields in drover's code with the declared fields.
func TestTheSchemaDeclaresEveryFieldThatDroverAcceptsInAProviderSpec(t *testing.T) {
	spec := object{}
	if err := yaml.Unmarshal(providerSpecYAML, &spec); err != nil {
		t.Fatal(err)
	}
	envelope, _ := dig(spec, "properties")
	cloud, _ := dig(spec, "properties", "cloudProviderSpec", "properties")
	for _, row := range []struct {
		what, file, list string
		declared         object
	}{
		{"every field of cloudProviderSpec that has an effect", "../../machines/openstack/spec/fields.go", "specFields", cloud},
		{"every field of cloudProviderSpec that drover accepts and ignores", "../../machines/openstack/spec/fields.go", "withoutEffect", cloud},
		{"every field of providerSpec.value", "../../machines/api/v1alpha1/providerconfig.go", "providerConfigFields", envelope},
	} {
		t.Run("providerspec.yaml declares "+row.what, func(t *testing.T) {
			for _, field := range listIn(t, row.file, row.list) {
				if _, ok := row.declared[field]; !ok {
					t.Errorf("%s of %s is not declared in providerspec.yaml", field, row.file)
				}
			}
		})
	}
}

// listIn returns the strings in a list of strings, or the keys of a map, that a Go file declares under name.
func listIn(t *testing.T, file, name string) []string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	ast.Inspect(parsed, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || spec.Names[0].Name != name {
			return true
		}
		ast.Inspect(spec, func(n ast.Node) bool {
			pair, isPair := n.(*ast.KeyValueExpr)
			if isPair {
				n = pair.Key
			}
			if lit, ok := n.(*ast.BasicLit); ok {
				if text, err := strconv.Unquote(lit.Value); err == nil {
					texts = append(texts, text)
				}
			}
			return !isPair
		})
		return false
	})
	if len(texts) == 0 {
		t.Fatalf("%s declares no list %s any more: compare with what took its place", file, name)
	}
	return texts
}

func TestTheAPIPageListsTheFieldsOfTheCRDs(t *testing.T) {
	files, err := filepath.Glob("../../deploy/crds/" + definitions)
	if err != nil {
		t.Fatal(err)
	}
	var crds [][]byte
	for _, file := range files {
		crds = append(crds, content(t, file))
	}
	page := content(t, "../../docs/api.md")
	again, err := Fields(page, crds)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(page, again) {
		t.Error("docs/api.md is not as crdgen leaves it: run make generate")
	}
	for _, want := range []string{"| `spec.replicas` | number |", "| `status.backoffs` | list of object |", "| `nodeTemplate.capacity` | map of number or text |", "| `spec.removals[].uid` | text |"} {
		if !bytes.Contains(page, []byte(want)) {
			t.Errorf("the page does not hold %q", want)
		}
	}
	if _, err := Fields([]byte("no marks"), crds); err == nil {
		t.Error("a page without marks was written")
	}
}

// Every key in keys.go must have a line in the table of keys in docs/api.md.
func TestTheAPIPageNamesEveryAnnotationEveryLabelAndEveryFinalizer(t *testing.T) {
	page := string(content(t, "../../docs/api.md"))
	parsed, err := parser.ParseFile(token.NewFileSet(), "../../machines/api/v1alpha1/keys.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	keys := 0
	ast.Inspect(parsed, func(n ast.Node) bool {
		lit, ok := n.(*ast.BasicLit)
		if !ok || lit.Kind != token.STRING {
			return true
		}
		key, err := strconv.Unquote(lit.Value)
		if err != nil {
			t.Fatal(err)
		}
		keys++
		if !strings.Contains(page, "`"+key+"`") && !strings.Contains(page, "`drover-project.github.io/"+key+"`") {
			t.Errorf("docs/api.md does not name the key %q", key)
		}
		return true
	})
	if keys < 20 {
		t.Errorf("only %d keys were found", keys)
	}
}

func content(t *testing.T, file string) []byte {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}
