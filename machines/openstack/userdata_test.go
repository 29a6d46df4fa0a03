package openstack

import (
	"bytes"
	"encoding/base64"
	"testing"

	"github.com/drover-project/drover/machines/fault"
)

func TestUserDataIsEncodedAsBase64OrRefusedAsTooLarge(t *testing.T) {
	for name, tc := range map[string]struct {
		data    []byte
		refused bool
	}{
		"a cloud-config text is encoded as base64 (MC-44)":                               {[]byte("#cloud-config\n"), false},
		"compressed user data is encoded as base64 (MC-44)":                              {[]byte{0x1f, 0x8b, 0x08, 0xff}, false},
		"user data that is already base64 is encoded again, like any other text (MC-44)": {[]byte("ZGF0YQ=="), false},
		"user data of the maximum size is accepted (MC-44)":                              {bytes.Repeat([]byte("a"), 49149), false},
		"user data that exceeds the maximum size is refused (MC-44)":                     {bytes.Repeat([]byte("a"), 49152), true},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := encodeUserData(tc.data)
			if tc.refused {
				if e := fault.Of(err); e == nil || e.Code != fault.CodeUserDataTooLarge || e.Class != fault.Invalid {
					t.Fatalf("got %v", err)
				}
				return
			}
			got, decodeErr := base64.StdEncoding.DecodeString(string(out))
			if err != nil || decodeErr != nil || !bytes.Equal(got, tc.data) {
				t.Errorf("it is not what was given: %v, %v", err, decodeErr)
			}
		})
	}
}
