package chaos

import (
	"encoding/hex"
	"math/rand/v2"
	"sync"
)

// bytes are what the processes of a world draw their names and secrets from: the same in each run of a seed.
type bytes struct {
	mu     sync.Mutex
	source *rand.ChaCha8
}

func newBytes(seed uint64) *bytes {
	return &bytes{source: rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), byte(seed >> 16), byte(seed >> 24)})}
}

// Read fills p.
func (b *bytes) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.source.Read(p)
}

// suffix is the end of a new Machine's name.
func (w *World) suffix() string {
	var p [3]byte
	_, _ = w.bytes.Read(p[:])
	return hex.EncodeToString(p[:])[:5]
}
