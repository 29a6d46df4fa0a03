package openstack

import (
	"time"
)

// Calls returns the calls that have ended, in that order: all of them, or at least the last hundred thousand. The metadata
// service's do not count.
func (c *Cloud) Calls() []Call { return c.calls.All() }

// CallCount returns how many calls have ended; given names (`POST /servers`) or services (`compute`), how many of those.
func (c *Cloud) CallCount(which ...string) int { return c.calls.Count(which...) }

// CallsByName counts the calls that have ended by name, such as `POST /servers`.
func (c *Cloud) CallsByName() map[string]int { return c.calls.ByName() }

// ForgetCalls empties the log, so that a test counts from here.
func (c *Cloud) ForgetCalls() { c.calls.Forget() }

// PeakCalls returns the largest number of calls that were in hand at once since the log was last emptied.
func (c *Cloud) PeakCalls() int { return c.calls.Most() }

// Inject arms a fault; of several that match, the one armed first is met. The function that comes back clears it.
func (c *Cloud) Inject(f Fault) (clear func()) { return c.faults.Inject(f) }

// ClearFaults clears all faults.
func (c *Cloud) ClearFaults() { c.faults.Clear() }

// SetRateLimit changes a service's limit; the zero RateLimit lifts it.
func (c *Cloud) SetRateLimit(service string, l RateLimit) { c.rates.Set(service, l) }

// SetListLag makes Nova's lists show servers as they were that long ago; a GET by ID stays exact.
func (c *Cloud) SetListLag(d time.Duration) { c.kernel.Hold(func() { c.compute.SetListLag(d) }) }

// LoseCell makes a Nova cell unreachable: its servers vanish from every list that is paged or filtered
// (changes-since is a filter) and from all lists below microversion 2.69; from there on a plain list shows them UNKNOWN.
// Nothing happens to the servers themselves.
func (c *Cloud) LoseCell(name string) { c.kernel.Hold(func() { c.compute.LoseCell(name) }) }

// RestoreCells ends what LoseCell began.
func (c *Cloud) RestoreCells() { c.kernel.Hold(c.compute.RestoreCells) }

// SetNetworkDown stops Neutron, or starts it again. While it is down its connections are refused, Nova answers 500 to
// requests that need it (making a server, showing servers with all fields), and servers that are being built go to ERROR.
func (c *Cloud) SetNetworkDown(down bool) { c.kernel.Do(func() { c.network.SetDown(down) }) }
