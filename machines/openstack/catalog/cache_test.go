package catalog

import (
	"errors"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/drover-project/drover/machines/fault"
)

func TestHowLongTheCatalogCachesTheResultOfALookUp(t *testing.T) {
	for name, tc := range map[string]struct {
		err error
		// kept is how long lookups return the cached answer.
		kept time.Duration
	}{
		"the resource that a look-up finds is cached for ten minutes (CAPI-15)":                 {nil, positiveTTL},
		"the answer that no resource has the requested name is cached for 30 seconds (CAPI-15)": {fault.New(fault.Invalid, fault.CodeFlavorNotFound, "none"), negativeTTL},
		"a failure of the cloud is not cached (CAPI-15)":                                        {fault.New(fault.Transient, fault.CodeUnknown, "down"), 0},
		"an error that does not come from the cloud is not cached (CAPI-15)":                    {errors.New("broken"), 0},
		"a refused sign-in is not cached, because credentials can be corrected":                 {fault.New(fault.Auth, fault.CodeUnauthorized, "no"), 0},
	} {
		t.Run(name, func(t *testing.T) {
			clock := clocktesting.NewFakeClock(time.Unix(0, 0))
			c, asked := newCache(clock), 0
			ask := func() (string, error) { asked++; return "answer", tc.err }
			look := func() {
				t.Helper()
				if _, err := lookup(c, "key", ask); !errors.Is(err, tc.err) {
					t.Fatalf("got %v, want %v", err, tc.err)
				}
			}
			look()
			if tc.kept > 0 {
				clock.Step(tc.kept - time.Second)
				if look(); asked != 1 {
					t.Fatalf("asked %d times before %s have passed, want 1", asked, tc.kept)
				}
				clock.Step(time.Second + 1)
			}
			if look(); asked != 2 {
				t.Errorf("asked %d times after %s, want 2", asked, tc.kept)
			}
		})
	}
}
