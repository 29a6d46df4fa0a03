package openstack

import (
	"encoding/json"
	"strconv"
	"time"
	"unicode/utf8"
)

// object is a JSON object whose keys keep their order and can be picked (`fields=`) and compared (`name=`) without
// being decoded again.
type object []member

type member struct {
	key   string
	value any
}

func (o object) get(key string) (any, bool) {
	for _, m := range o {
		if m.key == key {
			return m.value, true
		}
	}
	return nil, false
}

// encoded is JSON already.
type encoded []byte

// pick keeps the named keys only.
func (o object) pick(keys []string) object {
	out := make(object, 0, len(keys))
	for _, m := range o {
		for _, k := range keys {
			if m.key == k {
				out = append(out, m)
				break
			}
		}
	}
	return out
}

// encode appends v as JSON. What it does not know itself goes through encoding/json.
func encode(b []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(b, "null"...)
	case string:
		return encodeString(b, v)
	case bool:
		return strconv.AppendBool(b, v)
	case int:
		return strconv.AppendInt(b, int64(v), 10)
	case encoded:
		return append(b, v...)
	case []encoded:
		return encodeList(b, v)
	case object:
		return encodeObject(b, v)
	case []object:
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

func encodeObject(b []byte, o object) []byte {
	b = append(b, '{')
	for i, m := range o {
		if i > 0 {
			b = append(b, ',')
		}
		b = encodeString(b, m.key)
		b = append(b, ':')
		b = encode(b, m.value)
	}
	return append(b, '}')
}

func encodeList[T any](b []byte, list []T) []byte {
	b = append(b, '[')
	for i, v := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = encode(b, v)
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

// zulu is how most OpenStack APIs write a time.
func zulu(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05Z") }

// naive is how Nova's extensions and Cinder write a time: no zone, microseconds.
func naive(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UTC().Format("2006-01-02T15:04:05.000000")
}

// orNull gives nil for an empty string.
func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func (o object) maybePick(fields []string) object {
	if len(fields) == 0 {
		return o
	}
	return o.pick(fields)
}

func (o object) and(key string, value any) object {
	return append(o[:len(o):len(o)], member{key, value})
}
