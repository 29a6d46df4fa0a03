package spec

import (
	"fmt"
	"strings"
	"testing"
)

const least = `"flavor":"f","image":"i","network":"n"`

func TestReadProviderSpec(t *testing.T) {
	for name, tc := range map[string]struct {
		documents []string
		want      func(*Spec) bool
		fails     string
	}{
		"reads a spec with only the required fields":                                                           {[]string{`{` + least + `}`}, func(s *Spec) bool { return s.Flavor == "f" && s.Networks[0] == "n" }, ""},
		"reads keys in upper, lower or mixed case":                                                             {[]string{`{"FLAVOR":"f","Image":"i","NetWork":"n"}`}, func(s *Spec) bool { return s.Flavor == "f" }, ""},
		"appends the entries of the field networks to the field network, without duplicates (MC-40)":           {[]string{`{` + least + `,"networks":["m","n","","o"]}`}, func(s *Spec) bool { return strings.Join(s.Networks, " ") == "n m o" }, ""},
		"ignores the field networks of a source with lower precedence when the spec sets the field network":    {[]string{`{` + least + `}`, `{"networks":["m"]}`}, func(s *Spec) bool { return strings.Join(s.Networks, " ") == "n" }, ""},
		"ignores the field network of a source with lower precedence when the spec sets the field networks":    {[]string{`{"flavor":"f","image":"i","networks":["m"]}`, `{"network":"n"}`}, func(s *Spec) bool { return strings.Join(s.Networks, " ") == "m" }, ""},
		"a field that is empty in the spec gets its value from a source with lower precedence":                 {[]string{`{"flavor":"","image":null,"network":{"value":""}}`, `{` + least + `}`}, func(s *Spec) bool { return s.Flavor == "f" && s.Image == "i" && s.Networks[0] == "n" }, ""},
		"tags in a map are read as metadata of the server":                                                     {[]string{`{` + least + `,"tags":{"a":"b"}}`}, func(s *Spec) bool { return s.Metadata["a"] == "b" && len(s.Tags) == 0 }, ""},
		"tags in a list are read as metadata of the server when they have a value, and as Nova tags otherwise": {[]string{`{` + least + `,"tags":["a=b","c"]}`}, func(s *Spec) bool { return s.Metadata["a"] == "b" && s.Tags[0] == "c" }, ""},
		"accepts 32 tags":                                                                    {[]string{`{` + least + `,"tags":[` + tags(32, 10) + `]}`}, func(s *Spec) bool { return len(s.Metadata)+len(s.Tags) == 32 }, ""},
		"33 tags are an error (F-98)":                                                        {[]string{`{` + least + `,"tags":[` + tags(33, 10) + `]}`}, nil, "doc.tags: has 33 tags of 330 bytes together; use at most 32 tags of 4096 bytes"},
		"tags of more than 4 KiB are an error (F-98)":                                        {[]string{`{` + least + `,"tags":[` + tags(17, 250) + `]}`}, nil, "use at most 32 tags of 4096 bytes"},
		"metadata of more than 4 KiB is an error (F-98)":                                     {[]string{`{` + least + `,"tags":{"a":"` + strings.Repeat("x", 5000) + `"}}`}, nil, "doc.tags: has 1 tags of 5001 bytes"},
		"accepts serverGroup as an alias of serverGroupID":                                   {[]string{`{` + least + `,"serverGroup":"g","serverGroupID":"g"}`}, func(s *Spec) bool { return s.ServerGroup == "g" }, ""},
		"different values for two aliases of a field are an error (MC-9)":                    {[]string{`{` + least + `,"serverGroup":"g","serverGroupID":"h"}`}, nil, "doc.serverGroup: \"g\" conflicts with serverGroupID"},
		"accepts and ignores keys that only machine-controller uses":                         {[]string{`{` + least + `,"trustDevicePath":true,"nodeVolumeAttachLimit":25,"openstackClientTimeout":"15s","openstackComputeClientTimeout":"1s","instanceReadyCheckPeriod":"5s","instanceReadyCheckTimeout":"2m"}`}, func(s *Spec) bool { return s.Flavor == "f" }, ""},
		"reads true as a boolean, and null as false":                                         {[]string{`{` + least + `,"configDrive":true,"disablePortSecurity":null}`}, func(s *Spec) bool { return s.ConfigDrive && !s.DisablePortSecurity }, ""},
		`reads the boolean true from the object {"value":"true"}`:                            {[]string{`{` + least + `,"configDrive":{"value":"true"}}`}, func(s *Spec) bool { return s.ConfigDrive }, ""},
		`the JSON string "true" in place of a boolean is an error`:                           {[]string{`{` + least + `,"configDrive":"true"}`}, nil, "doc.configDrive: \"true\" is not a boolean"},
		"false in the spec overrides true in a source with lower precedence":                 {[]string{`{` + least + `,"configDrive":false}`, `{"configDrive":true}`}, func(s *Spec) bool { return !s.ConfigDrive }, ""},
		"reads a rootDiskSizeGB that is a JSON string":                                       {[]string{`{` + least + `,"rootDiskSizeGB":"30"}`}, func(s *Spec) bool { return s.RootDiskSizeGB == 30 }, ""},
		"a negative rootDiskSizeGB is an error":                                              {[]string{`{` + least + `,"rootDiskSizeGB":-1}`}, nil, "rootDiskSizeGB"},
		"rootDiskVolumeType without rootDiskSizeGB has no effect (F-116)":                    {[]string{`{` + least + `,"rootDiskVolumeType":"ssd"}`}, func(s *Spec) bool { return s.RootDiskVolumeType == "" }, ""},
		"an invalid computeAPIVersion is an error":                                           {[]string{`{` + least + `,"computeAPIVersion":"two"}`}, nil, "doc.computeAPIVersion: \"two\" is not a version"},
		"securityGroups that is not a list is an error":                                      {[]string{`{` + least + `,"securityGroups":"x"}`}, nil, "doc.securityGroups: is not a list"},
		"a reference to a Secret that cannot be read is an error":                            {[]string{`{"flavor":{"secretKeyRef":{"namespace":"n","name":"s","key":"k"}}}`}, nil, "doc.flavor: unreadable"},
		"accepts a subnet without a network":                                                 {[]string{`{"flavor":"f","image":"i","subnet":"s"}`}, func(s *Spec) bool { return s.Subnet == "s" }, ""},
		"an empty network is accepted, because drover picks the network later (MC-40, F-37)": {[]string{`{"flavor":"f","image":"i","network":"","subnet":"","availabilityZone":"","serverGroup":"","rootDiskVolumeType":""}`}, func(s *Spec) bool { return len(s.Networks) == 0 && s.ServerGroup == "" }, ""},
		"line breaks at the end of a value are removed (F-40)":                               {[]string{`{"flavor":"f\r\n","image":"i\n","network":"n"}`}, func(s *Spec) bool { return s.Flavor == "f" && s.Image == "i" }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := stack(t, tc.documents...).Spec()
			switch {
			case tc.fails != "" && (err == nil || !strings.Contains(err.Error(), tc.fails)):
				t.Fatalf("got %v, want %q", err, tc.fails)
			case tc.fails == "" && (err != nil || !tc.want(s)):
				t.Fatalf("got %+v, %v", s, err)
			}
		})
	}
}

// tags returns the items of a JSON list of that many tags, each with that many bytes.
func tags(count, bytes int) string {
	var all []string
	for n := range count {
		all = append(all, fmt.Sprintf("%q", fmt.Sprintf("%0*d", bytes, n)))
	}
	return strings.Join(all, ",")
}
