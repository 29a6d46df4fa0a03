package openstack

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"

	"github.com/drover-project/drover/machines/fault"
)

// maxUserData is Nova's limit for base64-encoded user data, in bytes.
const maxUserData = 65535

// encodeUserData returns the data base64-encoded exactly once, even when the data looks like base64 (MC-44). Data for cloud-init
// that is too large is compressed first, because cloud-init decompresses it. Ignition does not, so its documents (JSON) are not
// compressed.
func encodeUserData(data []byte) ([]byte, error) {
	if encoded := base64.StdEncoding.EncodedLen(len(data)); encoded <= maxUserData {
		return encode(data), nil
	}
	smaller := data
	if !bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) {
		var out bytes.Buffer
		w := gzip.NewWriter(&out)
		if _, err := w.Write(data); err == nil && w.Close() == nil {
			smaller = out.Bytes()
		}
	}
	if encoded := base64.StdEncoding.EncodedLen(len(smaller)); encoded > maxUserData {
		return nil, fault.New(fault.Invalid, fault.CodeUserDataTooLarge,
			"the user data has %d bytes in base64 form, and Nova accepts at most %d; shorten what operatingSystemSpec adds", encoded, maxUserData)
	}
	return encode(smaller), nil
}

func encode(data []byte) []byte {
	out := make([]byte, base64.StdEncoding.EncodedLen(len(data)))
	base64.StdEncoding.Encode(out, data)
	return out
}
