package openstack_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack/blockstorage/v3/limits"
	"github.com/gophercloud/gophercloud/v2/openstack/blockstorage/v3/volumes"

	"github.com/drover-project/drover/test/openstack"
)

// rawCall is an HTTP call that gophercloud's options cannot express.
type rawCall struct {
	method, url string
	header      map[string]string
	body        any
}

// raw makes a rawCall and returns the decoded answer.
func (c clients) raw(t *testing.T, in rawCall) (status int, h http.Header, body map[string]any) {
	t.Helper()
	text, err := json.Marshal(in.body)
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), in.method, in.url, bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Auth-Token", c.provider.Token())
	for k, v := range in.header {
		r.Header.Set(k, v)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if err := json.NewDecoder(resp.Body).Decode(&body); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, body
}

func TestTheSimulatedNovaTakesTheMicroversionFromTheHeaderOfTheRequest(t *testing.T) {
	c := login(t, start(t, openstack.Config{}), nil)
	for name, tc := range map[string]struct {
		header map[string]string
		status int
		told   string
	}{
		"the microversion is 2.1 when the request has no header":                  {nil, 200, "2.1"},
		"the header OpenStack-API-Version selects the microversion":               {map[string]string{"OpenStack-API-Version": "compute 2.47"}, 200, "2.47"},
		"the header X-OpenStack-Nova-API-Version selects the microversion":        {map[string]string{"X-OpenStack-Nova-API-Version": "2.30"}, 200, "2.30"},
		"the header OpenStack-API-Version wins over X-OpenStack-Nova-API-Version": {map[string]string{"X-OpenStack-Nova-API-Version": "2.30", "OpenStack-API-Version": "compute 2.47"}, 200, "2.47"},
		"a header that names another service is ignored":                          {map[string]string{"OpenStack-API-Version": "placement 1.30"}, 200, "2.1"},
		"the header value latest selects the newest microversion":                 {map[string]string{"OpenStack-API-Version": "compute latest"}, 200, "2.93"},
		"a header without a valid version is refused with 400":                    {map[string]string{"OpenStack-API-Version": "compute new"}, 400, "2.1"},
		"a header with a version beyond the newest is refused with 406":           {map[string]string{"OpenStack-API-Version": "compute 2.94"}, 406, "2.1"},
	} {
		t.Run(name, func(t *testing.T) {
			status, h, _ := c.raw(t, rawCall{method: http.MethodGet, url: c.compute.ServiceURL("servers"), header: tc.header})
			if status != tc.status || h.Get("OpenStack-API-Version") != "compute "+tc.told || h.Get("X-OpenStack-Nova-API-Version") != tc.told {
				t.Errorf("status %d, headers %v", status, h)
			}
		})
	}
}

func TestInTheSimulatedCloudAListOfPortsHasOnlyTheRequestedFields(t *testing.T) {
	c := login(t, start(t, openstack.Config{}), nil)
	p := c.port(t, c.known(t), "port")
	_, _, body := c.raw(t, rawCall{method: http.MethodGet, url: c.network.ServiceURL("ports") + "?fields=id&fields=description"})
	row := body["ports"].([]any)[0].(map[string]any)
	if len(row) != 2 || row["id"] != p.ID || row["description"] != "port" {
		t.Errorf("row %v", row)
	}
}

func TestTheSimulatedCinderShowsItsLimitsAndRefusesAVolumeBeyondThem(t *testing.T) {
	c := login(t, start(t, openstack.Config{Quota: openstack.Quota{Volumes: 3, Gigabytes: 100}}), nil)
	if _, err := volumes.Create(t.Context(), c.volume, volumes.CreateOpts{Size: 60}, nil).Extract(); err != nil {
		t.Fatal(err)
	}
	l, err := limits.Get(t.Context(), c.volume).Extract()
	if err != nil || l.Absolute.MaxTotalVolumes != 3 || l.Absolute.TotalVolumesUsed != 1 || l.Absolute.TotalGigabytesUsed != 60 {
		t.Errorf("limits %+v, %v", l, err)
	}
	_, err = volumes.Create(t.Context(), c.volume, volumes.CreateOpts{Size: 60}, nil).Extract()
	refused(t, err, 413)
}

func TestInTheSimulatedCloudUnknownPathsReturn404AndInvalidTokensReturn401(t *testing.T) {
	c := login(t, start(t, openstack.Config{}), nil)
	if status, _, _ := c.raw(t, rawCall{method: http.MethodGet, url: c.compute.ServiceURL("os-hypervisors")}); status != 404 {
		t.Errorf("status %d", status)
	}
	if status, h, _ := c.raw(t, rawCall{method: http.MethodGet, url: c.compute.ServiceURL("servers"), header: map[string]string{"X-Auth-Token": "nope"}}); status != 401 || h.Get("WWW-Authenticate") == "" {
		t.Errorf("status %d, headers %v", status, h)
	}
}
