package openstack_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"

	"github.com/drover-project/drover/test/openstack"
)

func TestTheSimulatedCloudCreatesNoPortWhenASimulatedProxyAnswersTheCallWith404(t *testing.T) {
	cloud := start(t, openstack.Config{})
	c := login(t, cloud, nil)
	cloud.Inject(openstack.ProxyPage("POST /ports", http.StatusNotFound))
	_, err := ports.Create(t.Context(), c.network, ports.CreateOpts{NetworkID: c.known(t).network}).Extract()
	var answer gophercloud.ErrUnexpectedResponseCode
	if !errors.As(err, &answer) || answer.Actual != http.StatusNotFound || answer.ResponseHeader.Get("Content-Type") != "text/html" ||
		!strings.Contains(string(answer.Body), "default backend") {
		t.Errorf("got %v, want the proxy's page with status 404", err)
	}
	if made := len(cloud.Leftovers().Ports); made != 0 {
		t.Errorf("%d ports were made, want none", made)
	}
}
