package provider

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
		"accepts a provider ID without a region (F-20)":               {"openstack:///" + id, ID{"", id}, false},
		"accepts a provider ID with a region (F-20)":                  {"openstack://RegionOne/" + id, ID{"RegionOne", id}, false},
		"accepts a UUID in upper case (F-20)":                         {"openstack:///" + upper, ID{"", id}, false},
		"accepts a scheme in mixed case (F-20)":                       {"OpenStack:///" + id, ID{"", id}, false},
		"accepts a bare UUID (F-20)":                                  {upper, ID{"", id}, false},
		"refuses an ID that is not a UUID (F-20)":                     {"openstack:///ab-1", ID{}, true},
		"refuses a bare name (F-20)":                                  {"ab-1", ID{}, true},
		"refuses a provider ID of another cloud (F-20)":               {"aws:///zone/i-1", ID{}, true},
		"refuses a provider ID of another cloud with a UUID (F-20)":   {"aws:///" + id, ID{}, true},
		"refuses an empty text (F-20)":                                {"", ID{}, true},
		"refuses two slashes instead of three before the UUID (F-20)": {"openstack://" + id, ID{}, true},
		"refuses a path before the UUID (F-20)":                       {"openstack:///../ports/" + id, ID{}, true},
		"refuses a suffix after the UUID (F-20)":                      {"openstack:///" + id + "/action", ID{}, true},
		"refuses a UUID with a digit that is not hexadecimal (F-20)":  {"openstack:///0a1b2c3d-0000-4000-8000-00000000abcg", ID{}, true},
		"refuses a UUID with a hyphen in the wrong position (F-20)":   {"openstack:///0a1b2c3d0-000-4000-8000-00000000abcd", ID{}, true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ParseID(tc.text)
			if got != tc.want || (err != nil) != tc.bad {
				t.Fatalf("got %+v, %v", got, err)
			}
			if ServerIDOf(tc.text) != tc.want.Server {
				t.Errorf("Server returns %q", ServerIDOf(tc.text))
			}
		})
	}
}

func TestAParsedProviderIDIsPrintedAsTheOriginalText(t *testing.T) {
	for _, text := range []string{"openstack:///" + id, "openstack://RegionOne/" + id} {
		got, err := ParseID(text)
		if err != nil || got.String() != text {
			t.Errorf("%s becomes %s, %v", text, got, err)
		}
	}
}
