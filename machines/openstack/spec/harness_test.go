package spec

import (
	"context"
	"errors"
	"testing"
)

var errUnreadable = errors.New("unreadable")

// stack returns the layers of a spec, one for each document, in the order of precedence. The last one is the configured cloud.
func stack(t *testing.T, documents ...string) layers {
	t.Helper()
	ls := layers{get: func(context.Context, *reference) (string, error) { return "", errUnreadable }}
	for _, d := range documents {
		l, err := readLayer("doc", []byte(d))
		if err != nil {
			t.Fatal(err)
		}
		ls.list = append(ls.list, l)
	}
	return ls
}
