package client

import (
	"strings"
	"testing"

	"github.com/drover-project/drover/machines/fault"
)

func TestFaultTextOfAServerIsMappedToAnErrorCode(t *testing.T) {
	for name, tt := range map[string]struct {
		text string
		code fault.Code
	}{
		"a text about too few hosts is mapped to NoValidHost":                {"No valid host was found. There are not enough hosts available.", fault.CodeNoValidHost},
		"a text about the limit of volumes is mapped to VolumeQuotaExceeded": {"Build of instance x aborted: VolumeLimitExceeded: Maximum number of volumes (10)", fault.CodeVolumeQuotaExceeded},
		"a text about the limit of ports is mapped to PortQuotaExceeded":     {"Maximum number of ports exceeded", fault.CodePortQuotaExceeded},
		"a text about the quota of servers is mapped to QuotaExceeded":       {"Quota exceeded for instances", fault.CodeQuotaExceeded},
		"a text that drover does not recognize is mapped to Unknown":         {"Something nobody has seen", fault.CodeUnknown},
		"an empty text is mapped to Unknown":                                 {"", fault.CodeUnknown},
	} {
		t.Run(name+" (CAPI-21, MC-49)", func(t *testing.T) {
			e := ServerFault("id", 500, tt.text)
			if e.Code != tt.code || !strings.Contains(e.Message, "server id went to ERROR") || !strings.Contains(e.Message, tt.text) {
				t.Fatalf("got %s %q", e.Code, e.Message)
			}
		})
	}
}

func TestErrorClassOfAFailedServerBuild(t *testing.T) {
	const retries = "Exceeded maximum number of retries. "
	for name, tt := range map[string]struct {
		text  string
		class fault.Class
		code  fault.Code
	}{
		"is Transient, not NoCapacity, when the build failed on every host (F-58)": {
			retries + "Exhausted all hosts available for retrying build failures for instance x.", fault.Transient, fault.CodeServerError,
		},
		"is Transient when the binding of a port failed on the last host (F-58)": {
			retries + "Exceeded max scheduling attempts 3 for instance x. Last exception: Binding failed for port y", fault.Transient, fault.CodeServerError,
		},
		"is Transient when Nova could not connect to Neutron (F-58)": {
			"Build of instance x aborted: Unable to establish connection to http://cloud:9696/v2.0/ports/y: HTTPConnectionPool(host='cloud', port=9696): " +
				"Max retries exceeded with url: /v2.0/", fault.Transient, fault.CodeServerError,
		},
		"is Transient when Nova's fault text is RemoteError, which Nova shows while Neutron is down (F-58)": {"RemoteError", fault.Transient, fault.CodeServerError},
		"is NoCapacity when the last host had too few free vCPUs (F-58)": {
			retries + "Exceeded max scheduling attempts 3 for instance x. Last exception: Insufficient compute resources: Free vcpu 0.00 VCPU < requested 4 VCPU.",
			fault.NoCapacity, fault.CodeNoValidHost,
		},
		"is Invalid when Cinder does not know the zone of the server, because only another spec helps (report 60)": {
			"Build of instance x aborted: Invalid input received: Availability zone 'rack-4' is invalid. (HTTP 400) (Request-ID: req-1)", fault.Invalid, fault.CodeZoneNotFound,
		},
		"is Quota when the quota of ports stopped the build (F-58)": {
			retries + "Last exception: Maximum number of ports exceeded", fault.Quota, fault.CodePortQuotaExceeded,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if e := ServerFault("id", 500, tt.text); e.Class != tt.class || e.Code != tt.code || !strings.Contains(e.Message, tt.text) {
				t.Errorf("got %s %s %q, want %s %s", e.Class, e.Code, e.Message, tt.class, tt.code)
			}
		})
	}
}
