package nova

import (
	"fmt"
	"net/http"
	"time"

	"github.com/drover-project/drover/test/openstack/internal/api"
)

// withoutNetwork is what Nova answers when it needs Neutron and Neutron is down. The lock is held.
func (svc *Service) withoutNetwork(q *api.Request) (api.Reply, bool) {
	if !svc.Network.Down() {
		return api.Reply{}, false
	}
	return q.Refuse(http.StatusInternalServerError, "Unexpected API Error. Please report this at http://bugs.launchpad.net/nova/ and attach the "+
		"Nova API log if possible.\n<class 'keystoneauth1.exceptions.connection.ConnectFailure'>"), true
}

// failWithoutNetwork fails a build for which Nova cannot reach Neutron, with the words that Zed has for it. The lock is held.
func (svc *Service) failWithoutNetwork(s *server, at time.Time) {
	svc.fail(s, at, fmt.Sprintf("Build of instance %s aborted: Unable to establish connection to %s/network/v2.0/ports: "+
		"HTTPConnectionPool: Max retries exceeded with url: /v2.0/", s.id, svc.cfg.BaseURL()))
}
