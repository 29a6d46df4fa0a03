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
		"the least":                                            {[]string{`{` + least + `}`}, func(s *Spec) bool { return s.Flavor == "f" && s.Networks[0] == "n" }, ""},
		"keys without regard to case":                          {[]string{`{"FLAVOR":"f","Image":"i","NetWork":"n"}`}, func(s *Spec) bool { return s.Flavor == "f" }, ""},
		"MC-40 network first, then networks":                   {[]string{`{` + least + `,"networks":["m","n","","o"]}`}, func(s *Spec) bool { return strings.Join(s.Networks, " ") == "n m o" }, ""},
		"networks of a lower layer are not added":              {[]string{`{` + least + `}`, `{"networks":["m"]}`}, func(s *Spec) bool { return strings.Join(s.Networks, " ") == "n" }, ""},
		"a lower network is not put first":                     {[]string{`{"flavor":"f","image":"i","networks":["m"]}`, `{"network":"n"}`}, func(s *Spec) bool { return strings.Join(s.Networks, " ") == "m" }, ""},
		"empty is filled by the next layer":                    {[]string{`{"flavor":"","image":null,"network":{"value":""}}`, `{` + least + `}`}, func(s *Spec) bool { return s.Flavor == "f" && s.Image == "i" && s.Networks[0] == "n" }, ""},
		"tags as a map are metadata":                           {[]string{`{` + least + `,"tags":{"a":"b"}}`}, func(s *Spec) bool { return s.Metadata["a"] == "b" && len(s.Tags) == 0 }, ""},
		"tags as a list are either":                            {[]string{`{` + least + `,"tags":["a=b","c"]}`}, func(s *Spec) bool { return s.Metadata["a"] == "b" && s.Tags[0] == "c" }, ""},
		"serverGroup is serverGroupID":                         {[]string{`{` + least + `,"serverGroup":"g","serverGroupID":"g"}`}, func(s *Spec) bool { return s.ServerGroup == "g" }, ""},
		"MC-9 unless they conflict":                            {[]string{`{` + least + `,"serverGroup":"g","serverGroupID":"h"}`}, nil, "doc.serverGroup: \"g\" conflicts with serverGroupID"},
		"foreign keys have no effect":                          {[]string{`{` + least + `,"trustDevicePath":true,"nodeVolumeAttachLimit":25,"openstackClientTimeout":"15s","openstackComputeClientTimeout":"1s","instanceReadyCheckPeriod":"5s","instanceReadyCheckTimeout":"2m"}`}, func(s *Spec) bool { return s.Flavor == "f" }, ""},
		"booleans":                                             {[]string{`{` + least + `,"configDrive":true,"disablePortSecurity":null}`}, func(s *Spec) bool { return s.ConfigDrive && !s.DisablePortSecurity }, ""},
		"a boolean as a value":                                 {[]string{`{` + least + `,"configDrive":{"value":"true"}}`}, func(s *Spec) bool { return s.ConfigDrive }, ""},
		"a boolean in quotes is an error":                      {[]string{`{` + least + `,"configDrive":"true"}`}, nil, "doc.configDrive: \"true\" is not a boolean"},
		"false above true is false":                            {[]string{`{` + least + `,"configDrive":false}`, `{"configDrive":true}`}, func(s *Spec) bool { return !s.ConfigDrive }, ""},
		"a size as text":                                       {[]string{`{` + least + `,"rootDiskSizeGB":"30"}`}, func(s *Spec) bool { return s.RootDiskSizeGB == 30 }, ""},
		"a negative size":                                      {[]string{`{` + least + `,"rootDiskSizeGB":-1}`}, nil, "rootDiskSizeGB"},
		"a volume type without a volume":                       {[]string{`{` + least + `,"rootDiskVolumeType":"ssd"}`}, nil, "without rootDiskSizeGB"},
		"a strange version":                                    {[]string{`{` + least + `,"computeAPIVersion":"two"}`}, nil, "doc.computeAPIVersion: \"two\" is not a version"},
		"a list that is none":                                  {[]string{`{` + least + `,"securityGroups":"x"}`}, nil, "doc.securityGroups: is no list"},
		"a reference that fails":                               {[]string{`{"flavor":{"secretKeyRef":{"namespace":"n","name":"s","key":"k"}}}`}, nil, "doc.flavor: unreadable"},
		"a subnet alone names its network":                     {[]string{`{"flavor":"f","image":"i","subnet":"s"}`}, func(s *Spec) bool { return s.Subnet == "s" }, ""},
		"MC-40 an empty network is left to the cloud (F-37)":   {[]string{`{"flavor":"f","image":"i","network":"","subnet":"","availabilityZone":"","serverGroup":"","rootDiskVolumeType":""}`}, func(s *Spec) bool { return len(s.Networks) == 0 && s.ServerGroup == "" }, ""},
		"line breaks at the end are no part of a value (F-40)": {[]string{`{"flavor":"f\r\n","image":"i\n","network":"n"}`}, func(s *Spec) bool { return s.Flavor == "f" && s.Image == "i" }, ""},
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
