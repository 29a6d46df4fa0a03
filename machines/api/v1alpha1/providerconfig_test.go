package v1alpha1

import (
	"errors"
	"strings"
	"testing"
)

func TestParseProviderConfigIsStrict(t *testing.T) {
	for name, tc := range map[string]struct {
		raw  string
		want string // part of the error; empty means no error
	}{
		"accepts the example in the documentation":                                          {`{"cloudProvider":"openstack","cloudProviderSpec":{"flavor":"m1.small"},"operatingSystem":"ubuntu","operatingSystemSpec":{}}`, ""},
		"matches keys without regard to case":                                               {`{"CLOUDPROVIDER":"openstack","OperatingsystemSpec":{}}`, ""},
		"returns an empty config for an empty document":                                     {``, ""},
		"the error for an unknown key names the nearest known key (MC-9)":                   {`{"operatingSytem":"ubuntu"}`, "value.operatingSytem: unknown field; did you mean operatingSystem?"},
		"the error for an unknown key suggests nothing when no known key is similar (MC-9)": {`{"zzz":1}`, "value.zzz: unknown field; remove it"},
		"the error names an unknown key under network (MC-9)":                               {`{"network":{"gatway":"1"}}`, "value.network: json: unknown field \"gatway\""},
		"treats a field with the value null as unset (MC-13)":                               {`{"network":null,"sshPublicKeys":null,"overwriteCloudConfig":null}`, ""},
		"refuses a key that is given twice in different case":                               {`{"network":{},"Network":{}}`, "value.network: given twice"},
		"refuses a JSON list in place of an object":                                         {`[]`, "value: not a JSON object"},
		"the error names a field whose value has the wrong type":                            {`{"sshPublicKeys":"a"}`, "value.sshPublicKeys: "},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ParseProviderConfig("value", []byte(tc.raw))
			switch {
			case tc.want == "" && err != nil:
				t.Fatalf("ParseProviderConfig() returned error %v", err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Fatalf("ParseProviderConfig() returned error %v, want %q", err, tc.want)
			}
		})
	}
}

func TestAnUnknownKeyIsAnErrorThatNamesTheNearestKey(t *testing.T) {
	_, err := Fields("spec", []byte(`{"flaver":"x"}`), []string{"flavor", "image"}, nil)
	var unknown *UnknownFieldError
	if !errors.As(err, &unknown) || unknown.Key != "flaver" || unknown.Nearest != "flavor" {
		t.Fatalf("got %v", err)
	}
}

func TestKeysToIgnoreAreLeftOutOfTheParsedFields(t *testing.T) {
	fields, err := Fields("spec", []byte(`{"TrustDevicePath":true,"Image":"x"}`), []string{"image"}, []string{"trustDevicePath"})
	if err != nil || len(fields) != 1 || string(fields["image"]) != `"x"` {
		t.Fatalf("got %v, %v", fields, err)
	}
}
