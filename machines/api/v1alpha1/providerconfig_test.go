package v1alpha1

import (
	"errors"
	"strings"
	"testing"
)

func TestParseProviderConfig(t *testing.T) {
	for name, tc := range map[string]struct {
		raw  string
		want string // part of the error; empty: none
	}{
		"the manifest of the documentation is read":            {`{"cloudProvider":"openstack","cloudProviderSpec":{"flavor":"m1.small"},"operatingSystem":"ubuntu","operatingSystemSpec":{}}`, ""},
		"keys are matched without regard to case":              {`{"CLOUDPROVIDER":"openstack","OperatingsystemSpec":{}}`, ""},
		"nothing is an empty config":                           {``, ""},
		"MC-9 an unknown key is named with its nearest":        {`{"operatingSytem":"ubuntu"}`, "value.operatingSytem: unknown field; did you mean operatingSystem?"},
		"MC-9 an unknown key that looks like nothing is named": {`{"zzz":1}`, "value.zzz: unknown field; remove it"},
		"MC-9 an unknown key of the network is named":          {`{"network":{"gatway":"1"}}`, "value.network: json: unknown field \"gatway\""},
		"MC-13 null is unset":                                  {`{"network":null,"sshPublicKeys":null,"overwriteCloudConfig":null}`, ""},
		"a key given in two spellings is an error":             {`{"network":{},"Network":{}}`, "value.network: given twice"},
		"a list is no object":                                  {`[]`, "value: not a JSON object"},
		"a wrong type names the field":                         {`{"sshPublicKeys":"a"}`, "value.sshPublicKeys: "},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ParseProviderConfig("value", []byte(tc.raw))
			switch {
			case tc.want == "" && err != nil:
				t.Fatalf("refused: %v", err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Fatalf("got %v, want %q", err, tc.want)
			}
		})
	}
}

func TestFieldsNamesTheUnknownKeyByType(t *testing.T) {
	_, err := Fields("spec", []byte(`{"flaver":"x"}`), []string{"flavor", "image"}, nil)
	var unknown *UnknownFieldError
	if !errors.As(err, &unknown) || unknown.Key != "flaver" || unknown.Nearest != "flavor" {
		t.Fatalf("got %v", err)
	}
}

func TestFieldsLeavesIgnoredKeysOut(t *testing.T) {
	fields, err := Fields("spec", []byte(`{"TrustDevicePath":true,"Image":"x"}`), []string{"image"}, []string{"trustDevicePath"})
	if err != nil || len(fields) != 1 || string(fields["image"]) != `"x"` {
		t.Fatalf("got %v, %v", fields, err)
	}
}
