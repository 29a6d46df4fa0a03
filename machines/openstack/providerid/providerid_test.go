package providerid

import "testing"

const (
	id    = "0a1b2c3d-0000-4000-8000-00000000abcd"
	upper = "0A1B2C3D-0000-4000-8000-00000000ABCD"
)

func TestParseAcceptsOnlyProviderIDsOfOpenStack(t *testing.T) {
	for name, tc := range map[string]struct {
		text string
		want ID
		bad  bool
	}{
		"accepts a provider ID without a region (F-20)":      {"openstack:///" + id, ID{"", id}, false},
		"accepts a provider ID with a region (F-20)":         {"openstack://RegionOne/" + id, ID{"RegionOne", id}, false},
		"accepts a UUID in upper case (F-20)":                {"openstack:///" + upper, ID{"", id}, false},
		"accepts a scheme in mixed case (F-20)":              {"OpenStack:///" + id, ID{"", id}, false},
		"accepts a bare UUID (F-20)":                         {upper, ID{"", id}, false},
		"an ID that is not a UUID is Invalid (F-20)":         {"openstack:///ab-1", ID{}, true},
		"a bare name is Invalid (F-20)":                      {"ab-1", ID{}, true},
		"another cloud's ID is Invalid (F-20)":               {"aws:///zone/i-1", ID{}, true},
		"another cloud's ID with a UUID is Invalid (F-20)":   {"aws:///" + id, ID{}, true},
		"an empty text is Invalid (F-20)":                    {"", ID{}, true},
		"a scheme with only two slashes is Invalid (F-20)":   {"openstack://" + id, ID{}, true},
		"a path before the ID is Invalid (F-20)":             {"openstack:///../ports/" + id, ID{}, true},
		"a suffix after the ID is Invalid (F-20)":            {"openstack:///" + id + "/action", ID{}, true},
		"digits that are not hexadecimal are Invalid (F-20)": {"openstack:///0a1b2c3d-0000-4000-8000-00000000abcg", ID{}, true},
		"a hyphen in the wrong position is Invalid (F-20)":   {"openstack:///0a1b2c3d0-000-4000-8000-00000000abcd", ID{}, true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Parse(tc.text)
			if got != tc.want || (err != nil) != tc.bad {
				t.Fatalf("got %+v, %v", got, err)
			}
			if Server(tc.text) != tc.want.Server {
				t.Errorf("Server returns %q", Server(tc.text))
			}
		})
	}
}

func TestStringOfAParsedProviderIDIsTheOriginalText(t *testing.T) {
	for _, text := range []string{"openstack:///" + id, "openstack://RegionOne/" + id} {
		got, err := Parse(text)
		if err != nil || got.String() != text {
			t.Errorf("%s becomes %s, %v", text, got, err)
		}
	}
}
