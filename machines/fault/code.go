package fault

// classes holds the class of each code. A code whose class depends on more than itself has the one it is made with most.
var classes = map[Code]Class{
	CodeQuotaExceeded:           Quota,
	CodePortQuotaExceeded:       Quota,
	CodeVolumeQuotaExceeded:     Quota,
	CodeFloatingIPQuotaExceeded: Quota,
	CodeIPPoolExhausted:         NoCapacity,
	CodeAddressesExhausted:      NoCapacity,
	CodeZoneUnavailable:         NoCapacity,
	CodeNoValidHost:             NoCapacity,
	CodeServerGroupFull:         NoCapacity,
	CodeFlavorNotFound:          Invalid,
	CodeImageNotFound:           Invalid,
	CodeNetworkNotFound:         Invalid,
	CodeSubnetNotFound:          Invalid,
	CodeSecurityGroupNotFound:   Invalid,
	CodeServerGroupNotFound:     Invalid,
	CodeVolumeTypeNotFound:      Invalid,
	CodeKeyPairNotFound:         Invalid,
	CodeZoneNotFound:            Invalid,
	CodeIPPoolNotFound:          Invalid,
	CodeResourceNotFound:        NotFound,
	CodeAmbiguousName:           Invalid,
	CodeUserDataTooLarge:        Invalid,
	CodeInvalidSpec:             Invalid,
	CodeUnauthorized:            Auth,
	CodeCredentialsMissing:      Auth,
	CodeForbidden:               Auth,
	CodeReferenceForbidden:      Auth,
	CodeEndpointNotAllowed:      Auth,
	CodeProjectNotAllowed:       Auth,
	CodeConflict:                Conflict,
	CodeRateLimited:             RateLimited,
	CodeWaitingForTurn:          RateLimited,
	CodeServerError:             Transient,
	CodeCloudUnavailable:        Transient,
	CodeForeignAnswer:           Transient,
	CodeUnsettled:               Transient,
	CodeBootstrapPending:        Transient,
	// What a server did not become in its time will not come by waiting longer.
	CodeJoinTimeout: Invalid,
}

// ClassOf gives the class of a code where nothing but the code is known, as in a Machine's status.errorReason; Unknown
// for one that is not of this package.
func ClassOf(code Code) Class {
	if class, ok := classes[code]; ok {
		return class
	}
	return Unknown
}

// unmatched are the codes of names and IDs that match nothing in the cloud, or several things.
var unmatched = map[Code]bool{
	CodeFlavorNotFound: true, CodeImageNotFound: true, CodeNetworkNotFound: true, CodeSubnetNotFound: true,
	CodeSecurityGroupNotFound: true, CodeServerGroupNotFound: true, CodeVolumeTypeNotFound: true, CodeKeyPairNotFound: true,
	CodeZoneNotFound: true, CodeIPPoolNotFound: true, CodeAmbiguousName: true,
}

// Unmatched reports whether the code says that a name or ID in a spec matches nothing in the cloud, or several things.
func Unmatched(code Code) bool { return unmatched[code] }
