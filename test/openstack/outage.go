package openstack

import (
	"fmt"
	"net/http"
	"time"
)

// SetNetworkDown stops Neutron, or starts it again. While it is down its connections are refused, Nova answers 500 to
// requests that need it (making a server, showing servers with all fields), and servers that are being built go to ERROR.
func (c *Cloud) SetNetworkDown(down bool) {
	c.locked(func() { c.trouble.networkDown = down })
}

// refusesConnections reports whether a service does not listen.
func (c *Cloud) refusesConnections(service string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return service == serviceNetwork && c.trouble.networkDown
}

// withoutNetwork is what Nova answers when it needs Neutron and Neutron is down. The lock is held.
func (c *Cloud) withoutNetwork(q *request) (reply, bool) {
	if !c.trouble.networkDown {
		return reply{}, false
	}
	return q.refuse(http.StatusInternalServerError, "Unexpected API Error. Please report this at http://bugs.launchpad.net/nova/ and attach the "+
		"Nova API log if possible.\n<class 'keystoneauth1.exceptions.connection.ConnectFailure'>"), true
}

// failWithoutNetwork fails a build for which Nova cannot reach Neutron, with the words that Zed has for it. The lock is held.
func (c *Cloud) failWithoutNetwork(s *server, at time.Time) {
	c.fail(s, at, fmt.Sprintf("Build of instance %s aborted: Unable to establish connection to %s/network/v2.0/ports: "+
		"HTTPConnectionPool: Max retries exceeded with url: /v2.0/", s.id, c.baseURL()))
}
