package fault

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestAnErrorMessageBecomesOneLineOfAtMost4096Bytes(t *testing.T) {
	for name, text := range map[string]string{
		"a long message is cut":                                                 strings.Repeat("a", 10_000),
		"a long message is never cut within a character":                        strings.Repeat("ä", 3000),
		"the lines of a message are joined":                                     "a\n\tb\r\nc",
		"bytes that are not UTF-8 are dropped":                                  "a\xffb",
		"control characters become spaces":                                      "a\x00b",
		"characters that change the direction of the text become spaces (F-98)": "a\u202eb\u2066c\u200f",
	} {
		t.Run(name, func(t *testing.T) {
			got := Line(text)
			if len(got) > MaxMessage || strings.ContainsAny(got, "\n\r\t\x00\u202e\u2066\u200f") || !utf8.ValidString(got) {
				t.Fatalf("Line() = %q", got)
			}
		})
	}
	if got := Line("a\n  b"); got != "a b" {
		t.Fatalf("Line() = %q", got)
	}
}

func TestMessagesAreShortenedOnlyForTheAutoscaler(t *testing.T) {
	text := strings.Repeat("ä", 300) + " remedy: run kubectl"
	t.Run("a long message in the status is not cut, so its last words with the remedy are shown (F-45)", func(t *testing.T) {
		if got := New(Auth, CodeForbidden, "%s", text).Message; got != text {
			t.Errorf("Message has %d bytes of %d: %q", len(got), len(text), got)
		}
		if got := Line(strings.Repeat("ä", MaxMessage)); len(got) > MaxMessage || !strings.HasSuffix(got, "ä…") || !utf8.ValidString(got) {
			t.Errorf("Message has %d bytes and ends in %q", len(got), got[len(got)-8:])
		}
	})
	t.Run("a message to the autoscaler has at most 256 bytes (F-45)", func(t *testing.T) {
		if got := Short(text); len(got) > 256 || len(got) < 250 || !strings.HasSuffix(got, "ä…") || !utf8.ValidString(got) {
			t.Errorf("Short() returned %d bytes: %q", len(got), got)
		}
		if got := Short("short\ntext"); got != "short text" {
			t.Errorf("Short() = %q", got)
		}
	})
}

func TestTheFailureClassOfAWrappedErrorIsFound(t *testing.T) {
	err := fmt.Errorf("creating port: %w", New(Quota, CodePortQuotaExceeded, "no more"))
	if e := Of(err); e.Class != Quota || e.Code != CodePortQuotaExceeded {
		t.Fatalf("Of() = %+v", e)
	}
	if e := Of(errors.New("odd")); e.Class != Unknown || e.Message != "odd" {
		t.Fatalf("Of() of an error without a class = %+v, want Unknown", e)
	}
	if Of(nil) != nil || Is(nil, Unknown) {
		t.Fatal("Of(nil) is not nil")
	}
}

func TestTheSameFailureHasTheSameTextEachTime(t *testing.T) {
	for name, c := range map[string]struct{ first, again, want string }{
		"the port of a connection is left out (F-114)": {
			"read tcp 10.0.0.7:43210->10.0.0.1:443: i/o timeout", "read tcp 10.0.0.7:43211->10.0.0.1:443: i/o timeout", "i/o timeout",
		},
		"the port of a request for a name is left out (F-114)": {
			"dial tcp: lookup api: read udp 10.0.0.7:4321->10.0.0.2:53: i/o timeout", "dial tcp: lookup api: read udp 10.0.0.7:4322->10.0.0.2:53: i/o timeout",
			"dial tcp: lookup api: i/o timeout",
		},
		"the time at which a certificate was checked is left out (F-114)": {
			"x509: certificate has expired or is not yet valid: current time 2026-11-27T10:00:00Z is after 2026-11-01T00:00:00Z",
			"x509: certificate has expired or is not yet valid: current time 2026-11-27T10:00:30Z is after 2026-11-01T00:00:00Z",
			"x509: certificate has expired or is not yet valid: after 2026-11-01T00:00:00Z",
		},
		"the number of an HTTP/2 stream is left out (F-114)": {
			"stream error: stream ID 4711; INTERNAL_ERROR", "stream error: stream ID 4713; INTERNAL_ERROR", "stream error: INTERNAL_ERROR",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if first, again := Repeated(c.first), Repeated(c.again); first != c.want || again != c.want {
				t.Errorf("got %q and %q, want %q", first, again, c.want)
			}
		})
	}
}
