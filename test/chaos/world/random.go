package world

import (
	"encoding/hex"
	"math/rand/v2"
	"sync"
	"time"
)

// random is the source of IDs, names and secrets of a world. It depends only on the seed.
type random struct {
	mu     sync.Mutex
	source *rand.ChaCha8
}

func newRandom(seed uint64) *random {
	return &random{source: rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), byte(seed >> 16), byte(seed >> 24)})}
}

// Read fills p.
func (r *random) Read(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.source.Read(p)
}

// Suffix returns the suffix of the name of a new Machine.
func (w *World) Suffix() string {
	var p [3]byte
	_, _ = w.Random.Read(p[:])
	return hex.EncodeToString(p[:])[:5]
}

// lagOf returns the delay of drover's watches in a world. The delay is up to a second, the same for all watches of a
// resource, and zero in every third world.
func lagOf(random *rand.Rand) func(resource string) time.Duration {
	base := time.Duration(random.IntN(3)) * 400 * time.Millisecond
	return func(resource string) time.Duration {
		return base * time.Duration(len(resource)%4) / 3
	}
}
