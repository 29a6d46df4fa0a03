package openstack

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"

	"github.com/drover-project/drover/machines/fault"
)

// maxUserData is Nova's bound on user data in base64 form, in bytes.
const maxUserData = 65535

// encodeUserData returns the base64 form, encoded exactly once, also when the data looks like base64 (MC-44). Data for cloud-init
// that is too large is compressed, which cloud-init undoes; Ignition does not, so its documents (JSON) are left alone.
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
			"the user data takes %d bytes in base64, Nova takes at most %d; shorten what the operating system spec adds", encoded, maxUserData)
	}
	return encode(smaller), nil
}

func encode(data []byte) []byte {
	out := make([]byte, base64.StdEncoding.EncodedLen(len(data)))
	base64.StdEncoding.Encode(out, data)
	return out
}
