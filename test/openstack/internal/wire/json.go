// Package wire holds the JSON that the services write: objects with ordered keys, and the formats of values. It does
// not depend on any service.
package wire

import (
	"encoding/json"
	"strconv"
	"time"
	"unicode/utf8"
)

// Object is a JSON object with ordered keys. Its keys can be selected (`fields=`) and compared (`name=`) without
// decoding it again.
type Object []Member

// Member is a key and its value. It is an alias, so that other packages can write literals of it without field names.
type Member = struct {
	Key   string
	Value any
}

// Get returns the value of a key.
func (o Object) Get(key string) (any, bool) {
	for _, m := range o {
		if m.Key == key {
			return m.Value, true
		}
	}
	return nil, false
}

// Encoded is a value that is already encoded as JSON.
type Encoded []byte

// Pick returns the object reduced to the given keys.
func (o Object) Pick(keys []string) Object {
	out := make(Object, 0, len(keys))
	for _, m := range o {
		for _, k := range keys {
			if m.Key == k {
				out = append(out, m)
				break
			}
		}
	}
	return out
}

// Encode appends v as JSON. It uses encoding/json for types that it does not support itself.
func Encode(b []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(b, "null"...)
	case string:
		return encodeString(b, v)
	case bool:
		return strconv.AppendBool(b, v)
	case int:
		return strconv.AppendInt(b, int64(v), 10)
	case Encoded:
		return append(b, v...)
	case []Encoded:
		return encodeList(b, v)
	case Object:
		return encodeObject(b, v)
	case []Object:
		return encodeList(b, v)
	case []string:
		return encodeList(b, v)
	case []any:
		return encodeList(b, v)
	default:
		return encodeOther(b, v)
	}
}

func encodeOther(b []byte, v any) []byte {
	raw, err := json.Marshal(v)
	if err != nil {
		return encodeString(b, "cannot be encoded: "+err.Error())
	}
	return append(b, raw...)
}

func encodeObject(b []byte, o Object) []byte {
	b = append(b, '{')
	for i, m := range o {
		if i > 0 {
			b = append(b, ',')
		}
		b = encodeString(b, m.Key)
		b = append(b, ':')
		b = Encode(b, m.Value)
	}
	return append(b, '}')
}

func encodeList[T any](b []byte, list []T) []byte {
	b = append(b, '[')
	for i, v := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = Encode(b, v)
	}
	return append(b, ']')
}

func encodeString(b []byte, s string) []byte {
	for i := range len(s) {
		if s[i] < ' ' || s[i] == '"' || s[i] == '\\' || s[i] >= utf8.RuneSelf {
			return encodeOther(b, s)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}

// Zulu formats a time as most OpenStack APIs do.
func Zulu(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05Z") }

// Naive formats a time as Nova's extensions and Cinder do: without a zone, and with microseconds.
func Naive(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UTC().Format("2006-01-02T15:04:05.000000")
}

// OrNull returns nil for an empty string.
func OrNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// MaybePick returns the object with only the keys in fields, or with all keys when fields is empty.
func (o Object) MaybePick(fields []string) Object {
	if len(fields) == 0 {
		return o
	}
	return o.Pick(fields)
}

// And returns the object with one more key.
func (o Object) And(key string, value any) Object {
	return append(o[:len(o):len(o)], Member{key, value})
}
