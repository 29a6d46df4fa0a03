package client

import (
	"regexp"

	"github.com/drover-project/drover/machines/fault"
)

// Nova gives no code for why a server went to ERROR, only a text. This is the one place where such texts are matched;
// each row names the release it was seen in. A text without a row is Unknown and shown as it is.
var serverFaults = []struct {
	text  *regexp.Regexp
	class fault.Class
	code  fault.Code
}{
	// Zed, Epoxy: the scheduler found nothing; also when placement is down.
	{regexp.MustCompile(`(?i)no valid host was found`), fault.NoCapacity, fault.CodeNoValidHost},
	// From Nova's source: every host was tried, and the last one had no room when the server arrived there.
	{regexp.MustCompile(`(?i)insufficient compute resources`), fault.NoCapacity, fault.CodeNoValidHost},
	// Zed: ports that Nova makes itself.
	{regexp.MustCompile(`(?i)maximum number of ports exceeded`), fault.Quota, fault.CodePortQuotaExceeded},
	// Zed: the boot volume.
	{regexp.MustCompile(`(?i)volume.*quota|quota.*(volume|gigabytes)|VolumeLimitExceeded|maximum number of volumes`), fault.Quota, fault.CodeVolumeQuotaExceeded},
	{regexp.MustCompile(`(?i)quota exceeded`), fault.Quota, fault.CodeQuotaExceeded},
	// Zed: there were hosts, and the build failed on each that was tried, as when Neutron is down. It is no word about room.
	{regexp.MustCompile(`(?i)exceeded maximum number of retries|exhausted all hosts available`), fault.Transient, fault.CodeServerError},
	// Zed: Nova did not reach Neutron, or another service.
	{regexp.MustCompile(`(?i)unable to establish connection to|max retries exceeded with url`), fault.Transient, fault.CodeServerError},
	// Zed: one part of Nova failed when another called it, for which Neutron being down is one cause.
	{regexp.MustCompile(`^RemoteError\b`), fault.Transient, fault.CodeServerError},
}

// JudgeServer gives the class of a server's fault.
func JudgeServer(serverID, message string) *fault.Error {
	if message == "" {
		message = "the cloud gives no reason"
	}
	for _, f := range serverFaults {
		if f.text.MatchString(message) {
			return fault.New(f.class, f.code, "server %s went to ERROR: %s", serverID, message)
		}
	}
	return fault.New(fault.Unknown, fault.CodeUnknown, "server %s went to ERROR: %s", serverID, message)
}
