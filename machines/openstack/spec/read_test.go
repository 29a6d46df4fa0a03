package spec

import (
	"strings"
	"testing"
)

const least = `"flavor":"f","image":"i","network":"n"`

func TestReadSpec(t *testing.T) {
	for name, tc := range map[string]struct {
		documents []string
		want      func(*Spec) bool
		fails     string
	}{
		"reads a spec with only the required fields": {[]string{`{` + least + `}`}, func(s *Spec) bool { return s.Flavor == "f" && s.Networks[0] == "n" }, ""},
		"reads keys in any case":                     {[]string{`{"FLAVOR":"f","Image":"i","NetWork":"n"}`}, func(s *Spec) bool { return s.Flavor == "f" }, ""},
		"reads network first, then networks (MC-40)": {[]string{`{` + least + `,"networks":["m","n","","o"]}`}, func(s *Spec) bool { return strings.Join(s.Networks, " ") == "n m o" }, ""},
		"networks of a lower layer are ignored":      {[]string{`{` + least + `}`, `{"networks":["m"]}`}, func(s *Spec) bool { return strings.Join(s.Networks, " ") == "n" }, ""},
		"a network of a lower layer is ignored":      {[]string{`{"flavor":"f","image":"i","networks":["m"]}`, `{"network":"n"}`}, func(s *Spec) bool { return strings.Join(s.Networks, " ") == "m" }, ""},
		"an empty field is read from the next layer": {[]string{`{"flavor":"","image":null,"network":{"value":""}}`, `{` + least + `}`}, func(s *Spec) bool { return s.Flavor == "f" && s.Image == "i" && s.Networks[0] == "n" }, ""},
		"tags as a map are metadata":                 {[]string{`{` + least + `,"tags":{"a":"b"}}`}, func(s *Spec) bool { return s.Metadata["a"] == "b" && len(s.Tags) == 0 }, ""},
		"tags as a list are metadata or Nova tags":   {[]string{`{` + least + `,"tags":["a=b","c"]}`}, func(s *Spec) bool { return s.Metadata["a"] == "b" && s.Tags[0] == "c" }, ""},
		"serverGroup is an alias of serverGroupID":   {[]string{`{` + least + `,"serverGroup":"g","serverGroupID":"g"}`}, func(s *Spec) bool { return s.ServerGroup == "g" }, ""},
		"conflicting aliases are an error (MC-9)":    {[]string{`{` + least + `,"serverGroup":"g","serverGroupID":"h"}`}, nil, "doc.serverGroup: \"g\" conflicts with serverGroupID"},
		"machine-controller's keys have no effect":   {[]string{`{` + least + `,"trustDevicePath":true,"nodeVolumeAttachLimit":25,"openstackClientTimeout":"15s","openstackComputeClientTimeout":"1s","instanceReadyCheckPeriod":"5s","instanceReadyCheckTimeout":"2m"}`}, func(s *Spec) bool { return s.Flavor == "f" }, ""},
		"booleans": {[]string{`{` + least + `,"configDrive":true,"disablePortSecurity":null}`}, func(s *Spec) bool { return s.ConfigDrive && !s.DisablePortSecurity }, ""},
		"reads a boolean in an object with a value":              {[]string{`{` + least + `,"configDrive":{"value":"true"}}`}, func(s *Spec) bool { return s.ConfigDrive }, ""},
		"a boolean in quotes is an error":                        {[]string{`{` + least + `,"configDrive":"true"}`}, nil, "doc.configDrive: \"true\" is not a boolean"},
		"a false overrides a true of a lower layer":              {[]string{`{` + least + `,"configDrive":false}`, `{"configDrive":true}`}, func(s *Spec) bool { return !s.ConfigDrive }, ""},
		"reads a size that is a text":                            {[]string{`{` + least + `,"rootDiskSizeGB":"30"}`}, func(s *Spec) bool { return s.RootDiskSizeGB == 30 }, ""},
		"a negative size is an error":                            {[]string{`{` + least + `,"rootDiskSizeGB":-1}`}, nil, "rootDiskSizeGB"},
		"a volume type without a volume is an error":             {[]string{`{` + least + `,"rootDiskVolumeType":"ssd"}`}, nil, "without rootDiskSizeGB"},
		"an invalid version is an error":                         {[]string{`{` + least + `,"computeAPIVersion":"two"}`}, nil, "doc.computeAPIVersion: \"two\" is not a version"},
		"a list that is not a list is an error":                  {[]string{`{` + least + `,"securityGroups":"x"}`}, nil, "doc.securityGroups: is not a list"},
		"a reference that fails is an error":                     {[]string{`{"flavor":{"secretKeyRef":{"namespace":"n","name":"s","key":"k"}}}`}, nil, "doc.flavor: unreadable"},
		"accepts a subnet without a network":                     {[]string{`{"flavor":"f","image":"i","subnet":"s"}`}, func(s *Spec) bool { return s.Subnet == "s" }, ""},
		"an empty network is left to the cloud (MC-40, F-37)":    {[]string{`{"flavor":"f","image":"i","network":"","subnet":"","availabilityZone":"","serverGroup":"","rootDiskVolumeType":""}`}, func(s *Spec) bool { return len(s.Networks) == 0 && s.ServerGroup == "" }, ""},
		"line breaks at the end are removed from a value (F-40)": {[]string{`{"flavor":"f\r\n","image":"i\n","network":"n"}`}, func(s *Spec) bool { return s.Flavor == "f" && s.Image == "i" }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := readSpec(t.Context(), stack(t, tc.documents...), nil)
			switch {
			case tc.fails != "" && (err == nil || !strings.Contains(err.Error(), tc.fails)):
				t.Fatalf("got %v, want %q", err, tc.fails)
			case tc.fails == "" && (err != nil || !tc.want(s)):
				t.Fatalf("got %+v, %v", s, err)
			}
		})
	}
}
