package spec

import (
	"strings"
	"testing"
)

func TestParseValueOfASpecField(t *testing.T) {
	get := func(r *reference) (string, error) {
		return string(r.Kind) + ":" + r.Key, nil
	}
	for name, tc := range map[string]struct{ raw, want, fails string }{
		"reads a plain string (MC-10)":                                                     {`"x"`, "x", ""},
		`reads a string that is written as the object {"value": "x"} (MC-10)`:              {`{"value":"x"}`, "x", ""},
		"reads a reference to a Secret (MC-10)":                                            {`{"secretKeyRef":{"namespace":"n","name":"s","key":"k"}}`, "Secret:k", ""},
		"reads a reference to a ConfigMap (MC-10)":                                         {`{"configMapKeyRef":{"namespace":"n","name":"s","key":"k"}}`, "ConfigMap:k", ""},
		"a reference to a Secret takes precedence over a reference to a ConfigMap (MC-10)": {`{"value":"x","configMapKeyRef":{"namespace":"n","name":"s","key":"c"},"secretKeyRef":{"namespace":"n","name":"s","key":"k"}}`, "Secret:k", ""},
		"a reference to a ConfigMap takes precedence over the field named value (MC-10)":   {`{"value":"x","configMapKeyRef":{"namespace":"n","name":"s","key":"c"}}`, "ConfigMap:c", ""},
		"an incomplete reference is ignored when the field named value is set":             {`{"value":"x","secretKeyRef":{"name":"s"}}`, "x", ""},
		"an incomplete reference is an error when the field named value is not set":        {`{"secretKeyRef":{"name":"s"}}`, "", "needs namespace, name and key"},
		"an empty reference counts as unset":                                               {`{"secretKeyRef":{}}`, "", ""},
		"null counts as unset (MC-13)":                                                     {`null`, "", ""},
		"an object whose fields are null counts as unset (MC-13)":                          {`{"value":null,"secretKeyRef":null}`, "", ""},
		"a number is read as its text":                                                     {`5`, "5", ""},
		"a boolean is read as its text":                                                    {`true`, "true", ""},
		"escaped quotes and backslashes in a string are unescaped":                         {`"a\"b\\c"`, `a"b\c`, ""},
		"an unknown key of a reference is ignored (F-116)":                                 {`{"secretKeyReff":{}}`, "", ""},
		"a list is an error":                                                               {`["x"]`, "", "is a list"},
	} {
		t.Run(name, func(t *testing.T) {
			v, err := readText([]byte(tc.raw), get)
			if tc.fails != "" {
				if err == nil || !strings.Contains(err.Error(), tc.fails) {
					t.Fatalf("got %v, want %q", err, tc.fails)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := v.text; got != tc.want {
				t.Fatalf("got %q, want %q", got, tc.want)
			}
		})
	}
}
