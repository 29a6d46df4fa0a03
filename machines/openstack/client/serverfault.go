package client

import (
	"regexp"

	"github.com/drover-project/drover/machines/fault"
)

// serverFaults maps the reasons why a server is in ERROR to fault classes. Nova reports such a reason only as a text, without a
// code. Each row names the release in which its text was seen. A text that matches no row is Unknown and is shown unchanged.
var serverFaults = []struct {
	text  *regexp.Regexp
	class fault.Class
	code  fault.Code
}{
	// Zed, Epoxy: the scheduler found no host. Nova shows the same text when Placement is down.
	{regexp.MustCompile(`(?i)no valid host was found`), fault.NoCapacity, fault.CodeNoValidHost},
	// From Nova's source code: every host was tried, and the last one no longer had the resources for the server.
	{regexp.MustCompile(`(?i)insufficient compute resources`), fault.NoCapacity, fault.CodeNoValidHost},
	// Zed: the port quota was too small for a port that Nova creates itself.
	{regexp.MustCompile(`(?i)maximum number of ports exceeded`), fault.Quota, fault.CodePortQuotaExceeded},
	// Zed: the volume quota was too small for the boot volume.
	{regexp.MustCompile(`(?i)volume.*quota|quota.*(volume|gigabytes)|VolumeLimitExceeded|maximum number of volumes`), fault.Quota, fault.CodeVolumeQuotaExceeded},
	{regexp.MustCompile(`(?i)quota exceeded`), fault.Quota, fault.CodeQuotaExceeded},
	// Zed: hosts were found, but the build failed on each host that was tried, for example because Neutron is down. So this text
	// does not mean a lack of capacity.
	{regexp.MustCompile(`(?i)exceeded maximum number of retries|exhausted all hosts available`), fault.Transient, fault.CodeServerError},
	// Zed: Nova did not reach Neutron, or another service.
	{regexp.MustCompile(`(?i)unable to establish connection to|max retries exceeded with url`), fault.Transient, fault.CodeServerError},
	// Zed: a call between two Nova services failed; one possible cause is that Neutron is down.
	{regexp.MustCompile(`^RemoteError\b`), fault.Transient, fault.CodeServerError},
}

// JudgeServer returns the class of a server's fault.
func JudgeServer(serverID, message string) *fault.Error {
	if message == "" {
		message = "the cloud reports no reason"
	}
	for _, f := range serverFaults {
		if f.text.MatchString(message) {
			return fault.New(f.class, f.code, "server %s went to ERROR: %s", serverID, message)
		}
	}
	return fault.New(fault.Unknown, fault.CodeUnknown, "server %s went to ERROR: %s", serverID, message)
}
