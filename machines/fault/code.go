package fault

// classes holds the class of each code. A code that occurs with several classes has the most frequent one here.
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
	CodeWaitingForInitializers:  Transient,
	CodePaused:                  Transient,
	CodeObjectQuotaExceeded:     Quota,
	CodeMachineRefused:          Invalid,
	CodeCreateError:             Transient,
	// The class is Invalid, because a longer wait does not help a server that did not join in time.
	CodeJoinTimeout: Invalid,
}

// ConcernsObjects reports whether the code means that a set cannot create the objects of its Machines.
func ConcernsObjects(code Code) bool {
	return code == CodeObjectQuotaExceeded || code == CodeMachineRefused || code == CodeCreateError
}

// ClassOf returns the class of a code when only the code is known, as in a Machine's status.errorReason. It returns Unknown for a code
// that this package does not define.
func ClassOf(code Code) Class {
	if class, ok := classes[code]; ok {
		return class
	}
	return Unknown
}

// unmatched holds the codes for names and IDs that match no resource in the cloud, or several resources.
var unmatched = map[Code]bool{
	CodeFlavorNotFound: true, CodeImageNotFound: true, CodeNetworkNotFound: true, CodeSubnetNotFound: true,
	CodeSecurityGroupNotFound: true, CodeServerGroupNotFound: true, CodeVolumeTypeNotFound: true, CodeKeyPairNotFound: true,
	CodeZoneNotFound: true, CodeIPPoolNotFound: true, CodeAmbiguousName: true,
}

// Unmatched reports whether the code means that a name or ID in a spec matches no resource in the cloud, or several resources.
func Unmatched(code Code) bool { return unmatched[code] }
