package bootstrap

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"io"
	"sync"
)

// encodedLen returns the length of user data in base64 form, which is what Nova limits.
func encodedLen(userData []byte) int { return base64.StdEncoding.EncodedLen(len(userData)) }

// writers holds gzip writers, because a new one needs a megabyte.
var writers = sync.Pool{New: func() any { return gzip.NewWriter(io.Discard) }}

// compressed returns data in gzip form. The same data always results in the same bytes.
func compressed(data []byte) []byte {
	w, _ := writers.Get().(*gzip.Writer)
	defer writers.Put(w)
	var out bytes.Buffer
	w.Reset(&out)
	_, _ = w.Write(data) // a bytes.Buffer returns no error
	_ = w.Close()
	return out.Bytes()
}

// isCompressed reports whether data begins as gzip's do.
func isCompressed(data []byte) bool { return bytes.HasPrefix(data, []byte{0x1f, 0x8b}) }
