package spec

import (
	"errors"
	"testing"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/openstack/client"
)

var errUnreadable = errors.New("unreadable")

// stack returns the sources of a spec, one layer for each document, in the order of precedence. The last one is the configured cloud.
func stack(t *testing.T, documents ...string) *Sources {
	t.Helper()
	s := &Sources{reader: NewReader(Options{IdentityOverride: true}), configured: &client.Credentials{}}
	for _, d := range documents {
		fields, wrong := v1alpha1.Fields("doc", []byte(d), specFields, ignoredFields)
		if len(wrong) > 0 {
			t.Fatal(wrong)
		}
		s.layers = append(s.layers, documentLayer("doc", "", fields, func(*reference) (string, error) { return "", errUnreadable }))
	}
	return s
}
