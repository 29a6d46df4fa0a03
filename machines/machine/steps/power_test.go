package steps

import (
	"testing"

	"github.com/drover-project/drover/machines/fault"
)

func TestOutcomeOfARequestToStartAServer(t *testing.T) {
	for name, tt := range map[string]struct {
		err  error
		want startOutcome
	}{
		"a request without an error counts as accepted":                      {nil, startAccepted},
		"a request that the rate limit refused counts as not sent":           {fault.New(fault.RateLimited, fault.CodeRateLimited, "429"), startNotSent},
		"a request with invalid credentials counts as not sent":              {fault.New(fault.Auth, fault.CodeUnauthorized, "401"), startNotSent},
		"a request that the cloud answers with 403 counts as refused":        {fault.New(fault.Auth, fault.CodeForbidden, "403"), startRefused},
		"a request that the cloud answers with a conflict counts as refused": {fault.New(fault.Conflict, fault.CodeConflict, "409"), startRefused},
		"a request without an answer has an unknown outcome":                 {fault.New(fault.Transient, fault.CodeCloudUnavailable, "no answer"), startUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			if got := outcomeOf(tt.err); got != tt.want {
				t.Errorf("outcomeOf(%v) = %v, want %v", tt.err, got, tt.want)
			}
		})
	}
}
