package catalog

import (
	"strings"
	"testing"

	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/client"
)

func TestResourceIsPickedByNameOrID(t *testing.T) {
	all := []resource{{ID: "1", Name: "small"}, {ID: "2", Name: "large"}, {ID: "3", Name: "large"}, {ID: "4", Name: "1"}}
	for name, tc := range map[string]struct {
		wants, id string
		code      fault.Code
		shows     string
	}{
		"returns the resource that has the wanted name":                                                   {wants: "small", id: "1"},
		"returns the resource that has the wanted ID, even when another resource has that ID as its name": {wants: "1", id: "1"},
		"returns an error that lists the IDs when several resources have the wanted name":                 {wants: "large", code: fault.CodeAmbiguousName, shows: "2, 3"},
		"returns an error that suggests a similar name when no resource has the wanted name":              {wants: "smal", code: fault.CodeNetworkNotFound, shows: "in region r; did you mean small?"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := pick(wanted{kind: networkKind, name: tc.wants, Scope: &client.Scope{Region: "r"}}, all)
			switch e := fault.Of(err); {
			case tc.code == "" && (err != nil || got.ID != tc.id):
				t.Errorf("got %+v, %v, want ID %s", got, err, tc.id)
			case tc.code != "" && (e == nil || e.Class != fault.Invalid || e.Code != tc.code || !strings.Contains(e.Message, tc.shows)):
				t.Errorf("got %v, want code %s and %q", err, tc.code, tc.shows)
			}
		})
	}
}
