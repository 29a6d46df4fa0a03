package spec

import (
	"context"
	"strings"
	"testing"
)

func TestParseValue(t *testing.T) {
	get := func(_ context.Context, r *reference) (string, error) {
		return string(r.Kind) + ":" + r.Key, nil
	}
	for name, tc := range map[string]struct{ raw, want, fails string }{
		"MC-10 a plain string":                      {`"x"`, "x", ""},
		"MC-10 a value":                             {`{"value":"x"}`, "x", ""},
		"MC-10 a Secret":                            {`{"secretKeyRef":{"namespace":"n","name":"s","key":"k"}}`, "Secret:k", ""},
		"MC-10 a ConfigMap":                         {`{"configMapKeyRef":{"namespace":"n","name":"s","key":"k"}}`, "ConfigMap:k", ""},
		"MC-10 Secret comes before ConfigMap":       {`{"value":"x","configMapKeyRef":{"namespace":"n","name":"s","key":"c"},"secretKeyRef":{"namespace":"n","name":"s","key":"k"}}`, "Secret:k", ""},
		"MC-10 ConfigMap comes before value":        {`{"value":"x","configMapKeyRef":{"namespace":"n","name":"s","key":"c"}}`, "ConfigMap:c", ""},
		"an incomplete reference does not count":    {`{"value":"x","secretKeyRef":{"name":"s"}}`, "x", ""},
		"an incomplete reference alone is an error": {`{"secretKeyRef":{"name":"s"}}`, "", "needs namespace, name and key"},
		"an empty reference is unset":               {`{"secretKeyRef":{}}`, "", ""},
		"MC-13 null is unset":                       {`null`, "", ""},
		"MC-13 null inside is unset":                {`{"value":null,"secretKeyRef":null}`, "", ""},
		"a number counts by its text":               {`5`, "5", ""},
		"a boolean counts by its text":              {`true`, "true", ""},
		"quotes and backslashes survive":            {`"a\"b\\c"`, `a"b\c`, ""},
		"an unknown key of a reference is named":    {`{"secretKeyReff":{}}`, "", "did you mean secretKeyRef"},
		"a list is an error":                        {`["x"]`, "", "is a list"},
	} {
		t.Run(name, func(t *testing.T) {
			v, err := parseValue([]byte(tc.raw))
			if tc.fails != "" {
				if err == nil || !strings.Contains(err.Error(), tc.fails) {
					t.Fatalf("got %v, want %q", err, tc.fails)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got, err := v.resolve(t.Context(), get); err != nil || got != tc.want {
				t.Fatalf("got %q, %v, want %q", got, err, tc.want)
			}
		})
	}
}
