package v1alpha1

import (
	"errors"
	"strings"
	"testing"
)

func TestParseProviderConfigChecksTheKeysAndTypesOfAProviderSpec(t *testing.T) {
	for name, tc := range map[string]struct {
		raw  string
		want string // part of the error; empty means no error
	}{
		"known keys with values of the right type are accepted":                             {`{"cloudProvider":"openstack","cloudProviderSpec":{"flavor":"m1.small"},"operatingSystem":"ubuntu","operatingSystemSpec":{}}`, ""},
		"known keys are accepted in upper case and in mixed case":                           {`{"CLOUDPROVIDER":"openstack","OperatingsystemSpec":{}}`, ""},
		"an empty document is accepted":                                                     {``, ""},
		"the error for an unknown key suggests the most similar known key (MC-9)":           {`{"operatingSytem":"ubuntu"}`, "value.operatingSytem: unknown field; did you mean operatingSystem?"},
		"the error for an unknown key suggests nothing when no known key is similar (MC-9)": {`{"zzz":1}`, "value.zzz: unknown field; remove it"},
		"an unknown key in the object network is an error that names the key (MC-9)":        {`{"network":{"gatway":"1"}}`, "value.network: json: unknown field \"gatway\""},
		"a known field with the value null is accepted (MC-13)":                             {`{"network":null,"sshPublicKeys":null,"overwriteCloudConfig":null}`, ""},
		"a key that appears twice, in lower case and with a capital letter, is refused":     {`{"network":{},"Network":{}}`, "value.network: given twice"},
		"a JSON list in place of an object is refused":                                      {`[]`, "value: not a JSON object"},
		"a value of the wrong type is an error that names the field":                        {`{"sshPublicKeys":"a"}`, "value.sshPublicKeys: "},
	} {
		t.Run(name, func(t *testing.T) {
			_, wrong := ParseProviderConfig("value", []byte(tc.raw))
			err := errors.Join(wrong...)
			switch {
			case tc.want == "" && err != nil:
				t.Fatalf("ParseProviderConfig() returned error %v", err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Fatalf("ParseProviderConfig() returned error %v, want %q", err, tc.want)
			}
		})
	}
}

func TestTheErrorForAnUnknownKeyOfAJSONObjectSuggestsTheMostSimilarKnownKey(t *testing.T) {
	_, wrong := Fields("spec", []byte(`{"flaver":"x"}`), []string{"flavor", "image"}, nil)
	var unknown *UnknownFieldError
	if err := errors.Join(wrong...); !errors.As(err, &unknown) || unknown.Key != "flaver" || unknown.Nearest != "flavor" {
		t.Fatalf("got %v", wrong)
	}
}

func TestEachWrongFieldOfAProviderSpecIsAnErrorAndTheOthersAreRead(t *testing.T) {
	c, wrong := ParseProviderConfig("value", []byte(`{"operatingSystem":"ubuntu","zzz":1,"sshPublicKeys":["a",1],"network":{"cidr":"c","gatway":"1"}}`))
	if len(wrong) != 3 || c.OperatingSystem != "ubuntu" || c.SSHPublicKeys != nil || c.Network != nil {
		t.Fatalf("got %+v, %v", c, wrong)
	}
}

func TestFieldsReturnsAJSONObjectWithoutTheKeysThatItsCallerListsAsIgnored(t *testing.T) {
	fields, wrong := Fields("spec", []byte(`{"TrustDevicePath":true,"Image":"x"}`), []string{"image"}, []string{"trustDevicePath"})
	if len(wrong) > 0 || len(fields) != 1 || string(fields["image"]) != `"x"` {
		t.Fatalf("got %v, %v", fields, wrong)
	}
}
