package openstack

import (
	"time"
)

// RealPaces returns how fast a real cloud carries out the kinds of calls that drover makes for a Machine. The cloud
// carries out atATime calls of each kind concurrently.
//
// The creates are as slow as in the cloud of finding F-56, in which the ten workers of a controller were measured: a port
// takes 1.4 s, a floating IP 2 s, a server 1 s. The other kinds were measured on an otherwise idle OpenStack Zed
// (docs/testing.md has the times). In that cloud atATime is 1, and there is no limit for GET /ports.
func RealPaces(atATime int) map[string]Pace {
	paces := map[string]Pace{"GET /ports": {Latency: 20 * time.Millisecond}}
	for name, latency := range map[string]time.Duration{
		"POST /ports": 1400 * time.Millisecond, "POST /floatingips": 2 * time.Second, "POST /servers": time.Second,
		"DELETE /ports/{id}": 170 * time.Millisecond, "DELETE /floatingips/{id}": 500 * time.Millisecond,
		"DELETE /servers/{id}": 100 * time.Millisecond, "GET /servers/{id}": 70 * time.Millisecond,
		"GET /servers/detail": 130 * time.Millisecond,
	} {
		paces[name] = Pace{Latency: latency, AtATime: atATime}
	}
	return paces
}

// Realistic returns cfg with the times of a real cloud: RealPaces(atATime), and 20 ms for every other call. A server
// shows its zone 2 s after the POST, the host 2.5 s later and the addresses 1 s after that, and becomes ACTIVE 10 s after
// the POST. A client that lists every 2 s sees each of these states in a separate list, as in a real cloud that is
// building many servers. A deletion takes 2 s.
func Realistic(cfg Config, atATime int) Config {
	schedule := 2 * time.Second
	cfg.Paces, cfg.Latency = RealPaces(atATime), 20*time.Millisecond
	cfg.ScheduleTime, cfg.ClaimTime, cfg.NetworkTime = &schedule, 2500*time.Millisecond, time.Second
	cfg.BootTime, cfg.DeleteTime = 10*time.Second, 2*time.Second
	return cfg
}
