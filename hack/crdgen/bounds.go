package main

// These are bounds for fields without one: those of Kubernetes' own types, whose markers drover cannot set, and values of maps.
// They are wide: values that machine-controller could store and Kubernetes itself would accept must fit.
const (
	defaultString     = 1024
	defaultItems      = 256
	defaultProperties = 256
)

// stringBounds bounds a field, or the values of a map, by its name.
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

// itemBounds bounds a list by its name.
var itemBounds = map[string]int64{
	"matchExpressions": 64,
	"values":           64,
}

// propertyBounds bounds a map by its name.
var propertyBounds = map[string]int64{
	"matchLabels": 64,
}

// bound sets a bound on every list, map and string under the schema that has none. Name is the field's.
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

// boundString bounds a string. One of a fixed set, or of a fixed form, is bounded already.
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
