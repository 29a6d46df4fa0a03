package gate

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/drover-project/drover/test/openstack/internal/api"
)

// RateLimit is a token bucket on the cloud's clock. Calls beyond it are answered with 429 and Retry-After.
type RateLimit struct {
	// PerSecond is how many calls per second may be made in the long run.
	PerSecond float64
	// Burst is how many calls may arrive at the same time. 0 means as many as PerSecond allows in one second, but at
	// least one call.
	Burst int
}

// Rates holds the rate limit of each service.
type Rates struct {
	clock clock.PassiveClock

	mu      sync.Mutex
	buckets map[string]*bucket
}

type bucket struct {
	RateLimit
	tokens float64
	last   time.Time
}

// NewRates returns the rate limits of services.
func NewRates(c clock.PassiveClock, limits map[string]RateLimit) *Rates {
	r := &Rates{clock: c, buckets: map[string]*bucket{}}
	for service, l := range limits {
		r.buckets[service] = newBucket(l)
	}
	return r
}

func newBucket(l RateLimit) *bucket {
	if l.Burst == 0 {
		l.Burst = max(1, int(l.PerSecond))
	}
	return &bucket{RateLimit: l, tokens: float64(l.Burst)}
}

// Set changes a service's rate limit. The zero RateLimit removes it.
func (r *Rates) Set(service string, l RateLimit) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.buckets, service)
	if l.PerSecond > 0 {
		r.buckets[service] = newBucket(l)
	}
}

// Over returns the answer 429 when a call exceeds the service's rate limit.
func (r *Rates) Over(service string) (api.Answer, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	b, limited := r.buckets[service]
	if !limited {
		return api.Answer{}, false
	}
	now := r.clock.Now()
	if !b.last.IsZero() {
		b.tokens = math.Min(float64(b.Burst), b.tokens+now.Sub(b.last).Seconds()*b.PerSecond)
	}
	b.last = now
	if b.tokens >= 1 {
		b.tokens--
		return api.Answer{}, false
	}
	seconds := int(math.Ceil((1 - b.tokens) / b.PerSecond))
	f := Fault{Status: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {strconv.Itoa(seconds)}}}
	f.Body = fmt.Sprintf(`{"overLimit":{"code":429,"message":"This request was rate-limited.","details":"Only %g %s request(s) can be made every second.","retryAfter":"%d"}}`,
		b.PerSecond, service, seconds)
	return f.Reply(), true
}
