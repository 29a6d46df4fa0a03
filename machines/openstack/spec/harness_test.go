package spec

import (
	"errors"
	"testing"

	"github.com/drover-project/drover/machines/openstack/client"
)

var errUnreadable = errors.New("unreadable")

// stack returns the sources of a spec, one layer for each document, in the order of precedence. The last one is the configured cloud.
func stack(t *testing.T, documents ...string) *Sources {
	t.Helper()
	s := &Sources{reader: NewReader(Options{IdentityOverride: true}), merged: merged{configured: &client.Credentials{}, fields: map[string]value{}}}
	for _, d := range documents {
		s.mergeDocument("doc", "", []byte(d), func(*reference) (string, error) { return "", errUnreadable })
	}
	return s
}
