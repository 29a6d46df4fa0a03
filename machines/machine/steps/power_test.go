package steps

import (
	"testing"

	"github.com/drover-project/drover/machines/fault"
)

func TestOutcomeOfARequestToStartAServer(t *testing.T) {
	for name, tt := range map[string]struct {
		cause              *fault.Error
		notSent, mayBeSent bool
	}{
		"a request that the rate limit refused counts as not sent":           {fault.New(fault.RateLimited, fault.CodeRateLimited, "429"), true, false},
		"a request with invalid credentials counts as not sent":              {fault.New(fault.Auth, fault.CodeUnauthorized, "401"), true, false},
		"a request that the cloud answers with 403 counts as refused":        {fault.New(fault.Auth, fault.CodeForbidden, "403"), false, false},
		"a request that the cloud answers with a conflict counts as refused": {fault.New(fault.Conflict, fault.CodeConflict, "409"), false, false},
		"a request without an answer has an unknown outcome":                 {fault.New(fault.Transient, fault.CodeCloudUnavailable, "no answer"), false, true},
	} {
		t.Run(name, func(t *testing.T) {
			if notSent(tt.cause) != tt.notSent || mayBeSent(tt.cause) != tt.mayBeSent {
				t.Errorf("notSent %v, mayBeSent %v, want %v and %v", notSent(tt.cause), mayBeSent(tt.cause), tt.notSent, tt.mayBeSent)
			}
		})
	}
}
