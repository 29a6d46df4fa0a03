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
		"accepted without an error":                  {nil, startAccepted},
		"not sent when the rate limit refuses it":    {fault.New(fault.RateLimited, fault.CodeRateLimited, "429"), startNotSent},
		"not sent without valid credentials":         {fault.New(fault.Auth, fault.CodeUnauthorized, "401"), startNotSent},
		"refused when the account is not authorized": {fault.New(fault.Auth, fault.CodeForbidden, "403"), startRefused},
		"refused by a conflict":                      {fault.New(fault.Conflict, fault.CodeConflict, "409"), startRefused},
		"unknown without an answer":                  {fault.New(fault.Transient, fault.CodeCloudUnavailable, "no answer"), startUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			if got := outcomeOf(tt.err); got != tt.want {
				t.Errorf("outcomeOf(%v) = %v, want %v", tt.err, got, tt.want)
			}
		})
	}
}
