package openstack

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/drover-project/drover/machines/fault"
)

func TestUserDataIsEncodedAsBase64OrRefusedAsTooLarge(t *testing.T) {
	noise := make([]byte, 60000)
	source := rand.NewChaCha8([32]byte{1})
	_, _ = source.Read(noise)
	for name, tc := range map[string]struct {
		data    []byte
		zipped  bool
		refused bool
	}{
		"a cloud-config text is encoded as base64 (MC-44)":                                                                     {[]byte("#cloud-config\n"), false, false},
		"user data that is already base64 is encoded again, like any other text (MC-44)":                                       {[]byte("ZGF0YQ=="), false, false},
		"user data of the maximum size is accepted and not compressed (MC-44)":                                                 {bytes.Repeat([]byte("a"), 49149), false, false},
		"user data for cloud-init that exceeds the maximum size is compressed (MC-44)":                                         {bytes.Repeat([]byte("#cloud-config "), 10000), true, false},
		"user data for Ignition that exceeds the maximum size is refused, because drover compresses only cloud-init's (MC-44)": {append([]byte("{"), bytes.Repeat([]byte(" "), 60000)...), false, true},
		"user data for cloud-init that is too large even after compression is refused (MC-44)":                                 {append([]byte("#"), noise...), false, true},
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
			if err != nil || decodeErr != nil || len(out) > maxUserData {
				t.Fatalf("%v, %v, %d bytes", err, decodeErr, len(out))
			}
			if tc.zipped {
				r, err := gzip.NewReader(bytes.NewReader(got))
				if err != nil {
					t.Fatal(err)
				}
				if got, err = io.ReadAll(r); err != nil {
					t.Fatal(err)
				}
			}
			if !bytes.Equal(got, tc.data) {
				t.Error("it is not what was given")
			}
		})
	}
}
