package openstack

import (
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Fault makes chosen calls fail.
type Fault struct {
	// Call is method and path template, `POST /servers`; `*` stands for any method, and for any path as a whole
	// (`GET *`). Empty: every call.
	Call string
	// Service narrows it: compute, network … Empty: all.
	Service string
	// After lets that many matching calls pass first.
	After int
	// Times ends the fault after so many calls; 0: it lasts until cleared.
	Times int

	// Delay lets time pass before anything else happens.
	Delay time.Duration
	// Hang never answers; the call is not carried out.
	Hang bool
	// Refuse cuts the connection; the call is not carried out.
	Refuse bool
	// Status, Header and Body are answered; the call is not carried out. An empty Body is filled with an error text.
	Status int
	Header http.Header
	Body   string
	// Drop carries the call out and cuts the connection instead of answering.
	Drop bool
}

func (f Fault) matches(call *Call) bool {
	if f.Service != "" && f.Service != call.Service {
		return false
	}
	method, path, found := strings.Cut(f.Call, " ")
	if !found {
		return f.Call == "" || f.Call == "*"
	}
	return (method == "*" || method == call.Method) && (path == "*" || path == call.Path)
}

func (f Fault) reply() answered {
	a := answered{status: f.Status, header: f.Header.Clone(), body: []byte(f.Body)}
	if a.header == nil {
		a.header = http.Header{}
	}
	if f.Body == "" {
		text := http.StatusText(f.Status)
		a.body = encode(nil, object{{"error", object{{"code", f.Status}, {"title", text}, {"message", text + " (asked for by a test)"}}}})
	}
	if a.header.Get("Content-Type") == "" {
		a.header.Set("Content-Type", "application/json")
	}
	return a
}

// RateLimit is a token bucket on the cloud's clock. What goes beyond is answered 429 with Retry-After.
type RateLimit struct {
	// PerSecond is how many calls may be made in the long run.
	PerSecond float64
	// Burst is how many may come at once; 0: one second's worth, at least 1.
	Burst int
}

type armed struct {
	Fault
	seen, hit int
	cleared   bool
}

type bucket struct {
	RateLimit
	tokens float64
	last   time.Time
}

type trouble struct {
	faults    []*armed
	limits    map[string]*bucket
	listLag   time.Duration
	lostCells []string
	// networkDown: nobody reaches Neutron, Nova neither.
	networkDown bool
}

// Inject arms a fault; of several that match, the one armed first is met. The function that comes back clears it.
func (c *Cloud) Inject(f Fault) (clear func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := &armed{Fault: f}
	c.trouble.faults = append(c.trouble.faults, a)
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		a.cleared = true
	}
}

// ClearFaults clears all faults.
func (c *Cloud) ClearFaults() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.trouble.faults = nil
}

// SetListLag makes Nova's lists show servers as they were that long ago; a GET by ID stays exact.
func (c *Cloud) SetListLag(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.trouble.listLag = d
}

// LoseCell makes a Nova cell unreachable: its servers vanish from every list that is paged or filtered
// (changes-since is a filter) and from all lists below microversion 2.69; from there on a plain list shows them UNKNOWN. Nothing happens to the servers themselves.
func (c *Cloud) LoseCell(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.trouble.lostCells = append(c.trouble.lostCells, name)
}

// RestoreCells ends what LoseCell began.
func (c *Cloud) RestoreCells() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.trouble.lostCells = nil
}

// SetRateLimit changes a service's limit; the zero RateLimit lifts it.
func (c *Cloud) SetRateLimit(service string, l RateLimit) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.trouble.limits, service)
	if l.PerSecond > 0 {
		c.trouble.limits[service] = newBucket(l)
	}
}

// take gives the fault that a call meets; the zero Fault when it meets none. The lock is held.
func (t *trouble) take(call *Call) Fault {
	t.faults = slices.DeleteFunc(t.faults, func(a *armed) bool {
		return a.cleared || (a.Times > 0 && a.hit >= a.Times)
	})
	for _, a := range t.faults {
		if !a.matches(call) {
			continue
		}
		if a.seen++; a.seen > a.After {
			a.hit++
			return a.Fault
		}
	}
	return Fault{}
}

func newBuckets(limits map[string]RateLimit) map[string]*bucket {
	out := map[string]*bucket{}
	for service, l := range limits {
		out[service] = newBucket(l)
	}
	return out
}

func newBucket(l RateLimit) *bucket {
	if l.Burst == 0 {
		l.Burst = max(1, int(l.PerSecond))
	}
	return &bucket{RateLimit: l, tokens: float64(l.Burst)}
}

// overRate answers 429 for a call too many.
func (c *Cloud) overRate(service string) (answered, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	b, limited := c.trouble.limits[service]
	if !limited {
		return answered{}, false
	}
	now := c.clock.Now()
	if !b.last.IsZero() {
		b.tokens = math.Min(float64(b.Burst), b.tokens+now.Sub(b.last).Seconds()*b.PerSecond)
	}
	b.last = now
	if b.tokens >= 1 {
		b.tokens--
		return answered{}, false
	}
	seconds := int(math.Ceil((1 - b.tokens) / b.PerSecond))
	f := Fault{Status: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {strconv.Itoa(seconds)}}}
	f.Body = fmt.Sprintf(`{"overLimit":{"code":429,"message":"This request was rate-limited.","details":"Only %g %s request(s) can be made every second.","retryAfter":"%d"}}`,
		b.PerSecond, service, seconds)
	return f.reply(), true
}
