package spec

import (
	"errors"
	"testing"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

var errUnreadable = errors.New("unreadable")

// stack returns the layers of a spec, one for each document, in the order of precedence. The last one is the configured cloud.
func stack(t *testing.T, documents ...string) layers {
	t.Helper()
	ls := layers{note: func(string) {}}
	for _, d := range documents {
		fields, wrong := v1alpha1.Fields("doc", []byte(d), specFields, ignoredFields)
		if len(wrong) > 0 {
			t.Fatal(wrong)
		}
		ls.list = append(ls.list, documentLayer("doc", "", fields, func(*reference) (string, error) { return "", errUnreadable }))
	}
	return ls
}
