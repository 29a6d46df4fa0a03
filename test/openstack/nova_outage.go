package openstack

import (
	"fmt"
	"net/http"
	"time"
)

// withoutNetwork is what Nova answers when it needs Neutron and Neutron is down. The lock is held.
func (svc *nova) withoutNetwork(q *request) (reply, bool) {
	if !svc.Network.down() {
		return reply{}, false
	}
	return q.refuse(http.StatusInternalServerError, "Unexpected API Error. Please report this at http://bugs.launchpad.net/nova/ and attach the "+
		"Nova API log if possible.\n<class 'keystoneauth1.exceptions.connection.ConnectFailure'>"), true
}

// failWithoutNetwork fails a build for which Nova cannot reach Neutron, with the words that Zed has for it. The lock is held.
func (svc *nova) failWithoutNetwork(s *server, at time.Time) {
	svc.fail(s, at, fmt.Sprintf("Build of instance %s aborted: Unable to establish connection to %s/network/v2.0/ports: "+
		"HTTPConnectionPool: Max retries exceeded with url: /v2.0/", s.id, svc.cfg.BaseURL()))
}
