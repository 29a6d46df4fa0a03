package openstack

import (
	"time"
)

// Calls returns the calls that have ended, in the order in which they ended. When there are very many, it returns at least
// the last hundred thousand. Calls of the metadata service are not included.
func (c *Cloud) Calls() []Call { return c.calls.All() }

// CallCount returns how many calls have ended. Its arguments restrict the count to calls with these names
// (`POST /servers`) or of these services (`compute`).
func (c *Cloud) CallCount(which ...string) int { return c.calls.Count(which...) }

// CallsByName returns the number of calls that have ended, by name such as `POST /servers`.
func (c *Cloud) CallsByName() map[string]int { return c.calls.ByName() }

// ForgetCalls empties the log, so that a test counts only later calls.
func (c *Cloud) ForgetCalls() { c.calls.Forget() }

// PeakCalls returns the largest number of concurrent calls since the log was last emptied.
func (c *Cloud) PeakCalls() int { return c.calls.Most() }

// Inject adds a fault. When several faults match a call, the one added first applies. The returned function clears the
// fault.
func (c *Cloud) Inject(f Fault) (clear func()) { return c.faults.Inject(f) }

// ClearFaults clears all faults.
func (c *Cloud) ClearFaults() { c.faults.Clear() }

// SetRateLimit changes a service's rate limit. The zero RateLimit removes it.
func (c *Cloud) SetRateLimit(service string, l RateLimit) { c.rates.Set(service, l) }

// SetListLag makes Nova's lists show servers as they were d ago. A GET by ID still shows the current state.
func (c *Cloud) SetListLag(d time.Duration) { c.kernel.Hold(func() { c.compute.SetListLag(d) }) }

// LoseCell makes a Nova cell unreachable. Its servers vanish from every list that is paged or filtered (changes-since is a
// filter), and from all lists below microversion 2.69. From 2.69 on, a plain list shows them as UNKNOWN. The servers
// themselves do not change.
func (c *Cloud) LoseCell(name string) { c.kernel.Hold(func() { c.compute.LoseCell(name) }) }

// RestoreCells makes all cells reachable again.
func (c *Cloud) RestoreCells() { c.kernel.Hold(c.compute.RestoreCells) }

// SetNetworkDown stops Neutron, or starts it again. While Neutron is down, it refuses connections. Nova then answers 500
// to requests that need Neutron (creating a server, showing servers with all fields), and servers that are being built
// change to ERROR.
func (c *Cloud) SetNetworkDown(down bool) { c.kernel.Do(func() { c.network.SetDown(down) }) }
