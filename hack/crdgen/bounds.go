package main

// These bounds apply to fields that declare no bound: fields of Kubernetes' own types, whose markers drover cannot set, and
// values of maps. The bounds are wide, because they must allow all values that machine-controller could store and that Kubernetes
// itself would accept.
const (
	defaultString     = 1024
	defaultItems      = 256
	defaultProperties = 256
)

// stringBounds holds the maximum length of strings. The key is the name of a field, or of a map whose values are strings.
var stringBounds = map[string]int64{
	"annotations":     262144, // the API server's limit for all annotations together
	"labels":          63,
	"matchLabels":     63,
	"values":          63,
	"key":             317, // prefix/name
	"effect":          32,
	"operator":        32,
	"status":          64,
	"uid":             128,
	"address":         2048,
	"message":         32768,
	"resourceVersion": 253,
}

// itemBounds holds the maximum length of lists, by name of the field.
var itemBounds = map[string]int64{
	"matchExpressions": 64,
	"values":           64,
}

// propertyBounds holds the maximum size of maps, by name of the field.
var propertyBounds = map[string]int64{
	"matchLabels": 64,
}

// bound sets a bound on every list, map and string under the schema that does not have a bound yet. name is the name of the
// field.
func bound(name string, schema object) {
	switch schema["type"] {
	case "string":
		boundString(name, schema)
	case "array":
		setDefault(schema, "maxItems", pick(itemBounds, name, defaultItems))
		if items, ok := schema["items"].(object); ok {
			bound(name, items)
		}
	case "object":
		if values, ok := schema["additionalProperties"].(object); ok {
			setDefault(schema, "maxProperties", pick(propertyBounds, name, defaultProperties))
			bound(name, values)
		}
	}
	if schema["x-kubernetes-int-or-string"] == true {
		setDefault(schema, "maxLength", int64(32))
	}
	properties, _ := schema["properties"].(object)
	for field, property := range properties {
		if property, ok := property.(object); ok {
			bound(field, property)
		}
	}
}

// boundString bounds a string. A string with an enum or a format is already bounded.
func boundString(name string, schema object) {
	if schema["enum"] != nil || schema["format"] == "date-time" {
		return
	}
	setDefault(schema, "maxLength", pick(stringBounds, name, defaultString))
}

func pick(bounds map[string]int64, name string, otherwise int64) int64 {
	if b, ok := bounds[name]; ok {
		return b
	}
	return otherwise
}

func setDefault(schema object, key string, value int64) {
	if _, has := schema[key]; !has {
		schema[key] = value
	}
}
