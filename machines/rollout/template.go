package rollout

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"reflect"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// TemplatesEqual reports whether two templates mean the same, so that nothing rolls. The hash label, the order of keys, white space, and
// null or empty fields of the provider spec make no difference (MC-19). Every other difference counts.
func TemplatesEqual(a, b *v1alpha1.MachineTemplateSpec) bool {
	if a.Spec.Versions != b.Spec.Versions {
		return false
	}
	plainA, documentA := split(a)
	plainB, documentB := split(b)
	if !bytes.Equal(documentA, documentB) && !bytes.Equal(canonical(documentA), canonical(documentB)) {
		return false
	}
	return equality.Semantic.DeepEqual(plainA, plainB)
}

// templateHash returns the hash of a template for the name of its set. Equal templates have equal hashes. When another set already has that
// name, a higher collision count leads to another hash.
func templateHash(t *v1alpha1.MachineTemplateSpec, collisions int32) (string, error) {
	template, document := split(t)
	plain, err := json.Marshal(template)
	if err != nil {
		return "", fmt.Errorf("encoding the template: %w", err)
	}
	sum := fnv.New32a()
	_, _ = sum.Write(plain) // Write of a hash never returns an error
	_, _ = sum.Write([]byte(fingerprint(document)))
	if collisions > 0 {
		_, _ = sum.Write([]byte(strconv.Itoa(int(collisions))))
	}
	return rand.SafeEncodeString(strconv.FormatUint(uint64(sum.Sum32()), 10)), nil
}

// sealed is a provider spec that is replaced by its fingerprint.
type sealed struct {
	SHA256 string `json:"sha256"`
}

// fingerprint returns a text that differs between documents of different meaning. A sealed document has the fingerprint of the original.
func fingerprint(document []byte) string {
	plain := canonical(document)
	var s sealed
	decoder := json.NewDecoder(bytes.NewReader(plain))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&s); err == nil && len(s.SHA256) == 2*sha256.Size {
		return s.SHA256
	}
	sum := sha256.Sum256(plain)
	return hex.EncodeToString(sum[:])
}

// split divides a template into the provider spec, under either of its field names, and the rest. It leaves out of the rest everything
// that does not change the meaning of the template.
func split(t *v1alpha1.MachineTemplateSpec) (rest *v1alpha1.MachineTemplateSpec, document []byte) {
	c := *t
	c.Metadata.Labels = maps.Clone(t.Metadata.Labels)
	delete(c.Metadata.Labels, v1alpha1.LabelTemplateHash)
	if len(c.Metadata.Labels) == 0 {
		c.Metadata.Labels = nil
	}
	c.Metadata.CreationTimestamp = nil
	c.Spec.Metadata.CreationTimestamp = nil
	c.Spec.Metadata.Name, c.Spec.Unknown = "", nil
	if provider, err := t.Spec.Provider(); err == nil {
		c.Spec.ProviderSpec, c.Spec.ProviderConfig = provider, nil
	}
	if value := c.Spec.ProviderSpec.Value; value != nil {
		document = value.Raw
	}
	c.Spec.ProviderSpec.Value = nil
	if from := c.Spec.ProviderSpec.ValueFrom; from != nil && from.MachineClass == nil {
		c.Spec.ProviderSpec.ValueFrom = nil
	}
	return &c, document
}

// canonical returns a JSON document with sorted keys and without null and empty fields. It returns text that is not JSON unchanged: two
// such texts count as equal only if their bytes are equal.
func canonical(raw []byte) []byte {
	document, err := pruned(raw)
	if err != nil {
		return raw
	}
	if isEmpty(document) {
		return nil
	}
	out, err := json.Marshal(document)
	if err != nil {
		return raw
	}
	return out
}

// pruned decodes a JSON document without its null and empty fields. It returns nil for white space.
func pruned(raw []byte) (document any, err error) {
	if len(bytes.TrimSpace(raw)) == 0 {
		return nil, nil
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	err = decoder.Decode(&document)
	return prune(document, false), err
}

// prune removes the null and empty fields of objects. In a map whose keys the user chooses (tags, labels, annotations), an empty value has
// a meaning and is kept.
func prune(value any, freeKeys bool) any {
	switch v := value.(type) {
	case map[string]any:
		for key, field := range v {
			field = prune(field, hasFreeKeys(key))
			if field == nil || !freeKeys && isEmpty(field) {
				delete(v, key)
				continue
			}
			v[key] = field
		}
	case []any:
		for i := range v {
			v[i] = prune(v[i], false)
		}
	}
	return value
}

func hasFreeKeys(key string) bool {
	switch strings.ToLower(key) {
	case "tags", "labels", "annotations":
		return true
	}
	return false
}

func isEmpty(value any) bool {
	if value == nil {
		return true
	}
	switch v := reflect.ValueOf(value); v.Kind() {
	case reflect.Map, reflect.Slice, reflect.String:
		return v.Len() == 0
	}
	return false
}
