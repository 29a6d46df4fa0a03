package client

import (
	"regexp"
	"strings"

	"github.com/drover-project/drover/machines/fault"
)

// trait is what a row of the table may need of a refusal besides its status and text.
type trait int

const (
	// making means that a resource was to be made, or that a server went to ERROR: the request or the template may be wrong.
	making trait = 1 << iota
	// building means that a server went to ERROR. The text is that of its fault.
	building
	// absent means that the answer names what the call asked for, and says that it does not exist.
	absent
	// notService means that the answer did not come from the service, so that its status proves nothing.
	notService
)

// refusal is a row of the table of refusals.
type refusal struct {
	// needs are the traits that the refusal must have.
	needs trait
	// service is empty for any service. A server's fault comes from Compute.
	service Service
	// status is the HTTP status. 0 fits any status; 4 fits 400 to 499, and 5 fits 500 to 599.
	status int
	// text matches Neutron's error type, a colon and the message. nil matches any text.
	text *regexp.Regexp
	code fault.Code
	// fallback is true for a row that has only a safe code for texts that no other row knows.
	fallback bool
}

// says compiles the patterns of a row, one of which must match. It ignores case.
func says(patterns ...string) *regexp.Regexp {
	return regexp.MustCompile("(?i)" + strings.Join(patterns, "|"))
}

// wrongTemplate matches texts about what a template asks for.
var wrongTemplate = says(`unacceptable|unsupported`,
	`not (support(ed)?|permitted|allowed|usable|compatible|recogni[sz]ed|defined|bootable)|invalid|malformed|too (small|large)`,
	`(smaller|larger) than|requires? |conflicting|could not be found|volume-backed|validation failed|bad ?request|\bforbidden|marker`,
	`exceeds the limits?|impossible|must (be|have)|cannot (set|specify|be evenly)|not (valid|acceptable|match|authorized for)|only supported`)

// refusals is the table of what clouds answer when they do not carry out a call, and of the faults of servers in ERROR. The first row
// that fits decides. The code has a class ([fault.ClassOf]), which shows how the failure ends: without help, with another group, flavor
// or zone, with another template, or with other credentials. testdata/ has texts, each with the file of the cloud's source that has it.
var refusals = []refusal{
	{needs: notService, code: fault.CodeForeignAnswer},

	// The status alone decides. During a build, a token may expire or a service may be asked too often; the next attempt may work.
	{needs: building, status: 401, code: fault.CodeServerError},
	{needs: building, status: 429, code: fault.CodeServerError},
	{needs: building, text: says(`rate.?limit`), code: fault.CodeServerError},
	{status: 401, code: fault.CodeUnauthorized},
	{status: 429, code: fault.CodeRateLimited},
	{status: 413, text: says(`rate.?limit`), code: fault.CodeRateLimited},
	{status: 405, code: fault.CodeInvalidSpec},
	{status: 406, code: fault.CodeInvalidSpec},
	{status: 415, code: fault.CodeInvalidSpec},
	{status: 501, code: fault.CodeInvalidSpec},
	{status: 503, code: fault.CodeCloudUnavailable},
	{status: 5, code: fault.CodeServerError},
	{service: Identity, status: 403, code: fault.CodeForbidden},
	{service: Identity, status: 4, code: fault.CodeUnauthorized},
	{needs: absent, code: fault.CodeResourceNotFound},

	// A policy forbids the call. These rows come before those of quotas, because the names of policies contain that word.
	{text: says(`policy doesn't allow|(dis|not )allowed by policy|requires a scope of`), code: fault.CodeForbidden},
	{status: 403, code: fault.CodeForbidden, text: says(`\b(you|user|account|token)\b.* not (authorized|allowed|permitted)`,
		`admin privileges|not have .*(permission|privilege|right|role)|(permission|access) (is |was )?denied|no permission`,
		`op_suspended|insufficient (permission|privilege|right)|unauthorized|authorization`,
		`account.*(suspended|frozen|restricted|arrears|balance)|only admin|^forbidden\.?$|not authorized\.?$`)},

	// Limits of one request or one server. The project's quota is not exhausted.
	{status: 413, text: says(`request (is|entity) too large`), code: fault.CodeInvalidSpec},
	{needs: making, code: fault.CodeInvalidSpec, text: says(`server_(metadata|injected)|metadata items exceed|personality file`,
		`serial port|(larger|higher) than (the )?maximum|number of disk devices|local devices than`)},

	// Quotas.
	{text: says(`too many servers in group|server_group_members`), code: fault.CodeServerGroupFull},
	{text: says(`maximum number of ports|quota.*\bports?\b|\bports? quota`), code: fault.CodePortQuotaExceeded},
	{code: fault.CodeFloatingIPQuotaExceeded, text: says(`maximum number of floating|quota.*(floating ?ip|\beips?\b)`,
		`(floating ?ip|\beips?) quota`)},
	{code: fault.CodeVolumeQuotaExceeded, text: says(`(volume|gigabytes|disk).*quota|quota.*(volume|gigabytes|\bdisks?\b)`,
		`number of volumes|VolumeLimitExceeded`)},
	{text: says(`quota|over ?(a )?limit|LimitExceeded|maximum number of [a-z ]+exceeded`), code: fault.CodeQuotaExceeded},

	// Nothing is free.
	{code: fault.CodeNoValidHost, text: says(`no valid (host|backend) was found|insufficient compute resources`,
		`subset of (free|known) CPU set|PCI device .* (failed|instead of)|from empty pool|virtual functions of .* are free|sold out|out of stock`,
		`(insufficient|not enough) (free|host|memory|capacity|resources)|(capacity|resources) (is|are) insufficient`,
		`scheduling failed|allocation candidates`)},
	{text: says(`NoMatchingSubnet|no valid service subnet`), code: fault.CodeInvalidSpec},
	{text: says(`ExternalIpAddressExhausted|any IP address on external network`), code: fault.CodeIPPoolExhausted},
	{code: fault.CodeAddressesExhausted, text: says(`IpAddressGenerationFailure|no (more|fixed) ip addresses`,
		`(insufficient|enough) ip addresses`)},
	{text: says(`availability zone is not available`), code: fault.CodeZoneUnavailable},

	// The Machine's own port is gone or in use.
	{code: fault.CodeConflict, text: says(`^PortNotFound|\bport (id )?\S+ could not be found|\bport \S+ is still in use`,
		`ip address \S+ is already (in use|being used)`)},

	// A resource that the template names does not exist.
	{needs: making, code: fault.CodeImageNotFound, text: says(`find requested image|failed to get image`,
		`image \S+ (could not be found|is not active)|invalid imageRef`)},
	{needs: making, text: says(`flavor.* could not be found|invalid flavorRef`), code: fault.CodeFlavorNotFound},
	{needs: making, code: fault.CodeSecurityGroupNotFound, text: says(`security group \S+ (could )?not (be )?found`,
		`^SecurityGroupNotFound`)},
	{needs: making, text: says(`(instance|server) group \S+ (could not be|not) found`), code: fault.CodeServerGroupNotFound},
	{needs: making, text: says(`volume type.* (could not be found|is invalid)|invalid volume type`), code: fault.CodeVolumeTypeNotFound},
	{needs: making, text: says(`key_name|key ?pair \S+ not found`), code: fault.CodeKeyPairNotFound},
	{needs: making, text: says(`availability ?zone '?\S+ (is invalid|could not be found)`), code: fault.CodeZoneNotFound},
	{needs: making, text: says(`not in the same availability.?zone`), code: fault.CodeInvalidSpec},
	{needs: making, text: says(`not a valid external network`), code: fault.CodeIPPoolNotFound},
	{needs: making, text: says(`^SubnetNotFound|\bsubnet \S+ could not be found`), code: fault.CodeSubnetNotFound},
	{needs: making, text: says(`^NetworkNotFound|\bnetwork \S+ could not be found`), code: fault.CodeNetworkNotFound},
	{needs: making, text: says(`(multiple|more than one) .*found`), code: fault.CodeAmbiguousName},

	// A call within the cloud failed, or a host did. Nova stores another library's error as the name of its class alone, and passes the
	// error of a call between its services on as that name, a colon and a text.
	{service: Compute, code: fault.CodeServerError, text: says(
		`^\w*(Error|Exception|Timeout|Failure|Failed|Deadlock|Unavailable|Gateway)(_Remote)?(:|$)`)},
	{code: fault.CodeServerError, text: says(`connection (to .* )?(failed|refused|is broken)|establish connection`,
		`unable to communicate|retries exceeded with url|timed? ?out|unavailable at this time|temporarily|try again|not responding`,
		`ECONNREFUSED|no route to host|internal (server )?error|erred or is|system exception`)},
	{needs: building, code: fault.CodeServerError, text: says(`^(Unauthorized|Conflict|EndpointNotFound)$|policy was violated`,
		`binding.failed|port update failed|allocations? for|placement|resource provider|any cell|no mapping`,
		`(host|instance) \S+ could not be found|volume \S+ (did not|could not)|invalid volume:|unexpected|an unauthorized`,
		`virtual interface|allocate the network|prepping block device|accelerator|key manager|failed to (deploy|provision|power)`,
		`fetch image|no space left|allocate memory|with the host|corrupt image|conflict updating|maximum number of retries`)},

	// The state of what exists.
	{status: 409, code: fault.CodeInvalidSpec, text: says(
		`^(AddressPairAndPortSecurity|PortSecurity|UnsupportedPort|SecurityGroupConflict)|must be upgraded`)},
	{status: 409, text: says(`in.?use|already|exists|locked|state\b|not ready|concurrent|conflict`), code: fault.CodeConflict},
	{service: Volume, status: 400, text: says(`volume status must be|still attached`), code: fault.CodeConflict},

	// Only another template helps.
	{status: 404, text: says(`^External`), code: fault.CodeInvalidSpec},
	{needs: making, status: 403, text: wrongTemplate, code: fault.CodeInvalidSpec},
	{needs: building, text: wrongTemplate, code: fault.CodeInvalidSpec},
	{needs: building, text: says(`\b(failed|failure|errors?|unable|busy|not ready|could not)\b`), code: fault.CodeServerError},
	{status: 400, text: wrongTemplate, code: fault.CodeInvalidSpec},

	// All other refusals. Neutron answers 404 also for a resource that a policy hides.
	{needs: making, status: 403, code: fault.CodeInvalidSpec, fallback: true},
	{status: 403, code: fault.CodeForbidden, fallback: true},
	{status: 409, code: fault.CodeConflict, fallback: true},
	{status: 413, code: fault.CodeQuotaExceeded, fallback: true},
	{needs: making, status: 404, code: fault.CodeInvalidSpec, fallback: true},
	{status: 404, text: says(`^HTTPNotFound`), code: fault.CodeForbidden},
	{status: 404, code: fault.CodeUnknown, fallback: true},
	{status: 4, code: fault.CodeInvalidSpec, fallback: true},
	{code: fault.CodeUnknown, fallback: true},
}
