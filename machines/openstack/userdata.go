package openstack

import (
	"encoding/base64"

	"github.com/drover-project/drover/machines/fault"
)

// maxUserData is Nova's limit for base64-encoded user data, in bytes.
const maxUserData = 65535

// encodeUserData returns the data base64-encoded exactly once, even when the data looks like base64 (MC-44).
func encodeUserData(data []byte) ([]byte, error) {
	out := make([]byte, base64.StdEncoding.EncodedLen(len(data)))
	if len(out) > maxUserData {
		return nil, fault.New(fault.Invalid, fault.CodeUserDataTooLarge, "the user data has %d bytes in base64 form, and Nova accepts at most %d; shorten it", len(out), maxUserData)
	}
	base64.StdEncoding.Encode(out, data)
	return out, nil
}
