package client

import (
	"strings"
	"testing"
)

func TestListOfAllowedEndpoints(t *testing.T) {
	for _, tt := range []struct {
		item, endpoint string
		want           bool
	}{
		{"keystone.example", "https://keystone.example:5000/v3", true},
		{"keystone.example", "http://KEYSTONE.example./v3", true},
		{"keystone.example", "https://keystone.example.org/v3", false},
		{"keystone.example", "https://other@keystone.example/v3", false},
		{"keystone.example", "https://keystone.example@evil.example/v3", false},
		{"keystone.example:5000", "https://keystone.example:5000", true},
		{"keystone.example:5000", "https://keystone.example", false},
		{"keystone.example:443", "https://keystone.example/v3", true},
		{"https://keystone.example", "https://keystone.example:443/v3", true},
		{"https://keystone.example", "http://keystone.example:443/v3", false},
		{"https://keystone.example", "https://keystone.example:8443/v3", false},
		{"https://cloud.example/identity/v3", "https://cloud.example/identity", true},
		{"https://cloud.example/identity", "https://cloud.example/identity/v3/", true},
		{"https://cloud.example/identity", "https://cloud.example/identityevil/v3", false},
		{"https://cloud.example/identity", "https://cloud.example/identity/../evil", false},
		{"[2001:db8::1]:5000", "http://[2001:DB8:0::1]:5000/v3", true},
		{"2001:db8::1", "http://[2001:db8::1]/v3", true},
		{"192.0.2.1", "http://[::ffff:192.0.2.1]/v3", true},
	} {
		name := "the item " + tt.item + " does not allow the endpoint " + tt.endpoint
		if tt.want {
			name = "the item " + tt.item + " allows the endpoint " + tt.endpoint
			if withoutVersion(tt.item) != tt.item {
				name += ", because a /v3 at the end does not count"
			}
		}
		t.Run(name+" (F-4)", func(t *testing.T) {
			list, err := ParseEndpoints([]string{tt.item})
			if err != nil {
				t.Fatal(err)
			}
			if got := list.Permits(tt.endpoint); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
	for _, item := range []string{"", "*", "*.example", "https://", "ftp://keystone.example", "host/path", "a b", "https://u:p@host", "https://host?x", "host:"} {
		t.Run("the invalid item \""+item+"\" is refused (F-4)", func(t *testing.T) {
			if _, err := ParseEndpoints([]string{"fine.example", item}); err == nil || strings.Contains(err.Error(), "fine.example") {
				t.Errorf("got %v", err)
			}
		})
	}
}
