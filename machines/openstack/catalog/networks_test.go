package catalog

import (
	"testing"

	"github.com/drover-project/drover/machines/fault"
)

func TestTheOnlyNetworkWithASubnetIsPicked(t *testing.T) {
	inside, other := network{resource: resource{ID: "1", Name: "inside"}}, network{resource: resource{ID: "2", Name: "other"}}
	outside := network{resource: resource{ID: "3", Name: "outside"}, External: true}
	in := func(id string) subnet { return subnet{NetworkID: id} }
	for name, tc := range map[string]struct {
		all     []network
		subnets []subnet
		id      string
		code    fault.Code
	}{
		"returns the only network with a subnet (F-37)":               {[]network{inside, other}, []subnet{in("1")}, "1", ""},
		"ignores an external network with a subnet (F-37)":            {[]network{inside, outside}, []subnet{in("1"), in("3")}, "1", ""},
		"returns an error when no network has a subnet (F-37)":        {[]network{inside, other}, nil, "", fault.CodeNetworkNotFound},
		"returns an error when several networks have a subnet (F-37)": {[]network{inside, other}, []subnet{in("1"), in("2")}, "", fault.CodeAmbiguousName},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := pickOnly(tc.all, tc.subnets)
			switch e := fault.Of(err); {
			case tc.code == "" && (err != nil || got.ID != tc.id):
				t.Errorf("got %+v, %v, want ID %s", got, err, tc.id)
			case tc.code != "" && (e == nil || e.Code != tc.code):
				t.Errorf("got %v, want code %s", err, tc.code)
			}
		})
	}
}
