package fault

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestLineIsOneBoundedLine(t *testing.T) {
	for name, text := range map[string]string{
		"a long text is cut":                    strings.Repeat("a", 10_000),
		"a character is never cut in two":       strings.Repeat("ä", 3000),
		"lines become one":                      "a\n\tb\r\nc",
		"what is no UTF-8 is left out":          "a\xffb",
		"control characters become white space": "a\x00b",
	} {
		t.Run(name, func(t *testing.T) {
			got := Line(text)
			if len(got) > MaxMessage || strings.ContainsAny(got, "\n\r\t\x00") || !utf8.ValidString(got) {
				t.Fatalf("got %q", got)
			}
		})
	}
	if got := Line("a\n  b"); got != "a b" {
		t.Fatalf("got %q", got)
	}
}

func TestMessagesAreCutTowardsTheAutoscalerOnly(t *testing.T) {
	text := strings.Repeat("ä", 300) + " remedy: run kubectl"
	t.Run("a status keeps the remedy at the end of a long message (F-45)", func(t *testing.T) {
		if got := New(Auth, CodeForbidden, "%s", text).Message; got != text {
			t.Errorf("got %d bytes of %d: %q", len(got), len(text), got)
		}
		if got := Line(strings.Repeat("ä", MaxMessage)); len(got) > MaxMessage || !strings.HasSuffix(got, "ä…") || !utf8.ValidString(got) {
			t.Errorf("%d bytes that end in %q", len(got), got[len(got)-8:])
		}
	})
	t.Run("the autoscaler gets at most 256 bytes (F-45)", func(t *testing.T) {
		if got := Short(text); len(got) > 256 || len(got) < 250 || !strings.HasSuffix(got, "ä…") || !utf8.ValidString(got) {
			t.Errorf("%d bytes: %q", len(got), got)
		}
		if got := Short("short\ntext"); got != "short text" {
			t.Errorf("got %q", got)
		}
	})
}

func TestOfFindsTheClassThroughWrapping(t *testing.T) {
	err := fmt.Errorf("creating port: %w", New(Quota, CodePortQuotaExceeded, "no more"))
	if e := Of(err); e.Class != Quota || e.Code != CodePortQuotaExceeded {
		t.Fatalf("got %+v", e)
	}
	if e := Of(errors.New("odd")); e.Class != Unknown || e.Message != "odd" {
		t.Fatalf("an error without a class is Unknown, got %+v", e)
	}
	if Of(nil) != nil || Is(nil, Unknown) {
		t.Fatal("nil stays nil")
	}
}

func TestPolicyOf(t *testing.T) {
	for class, want := range map[Class]struct {
		backoff, resources bool
		shown              time.Duration
	}{
		Quota:       {true, true, 0},
		NoCapacity:  {true, true, 0},
		Invalid:     {true, false, 0},
		NotFound:    {true, false, 0},
		RateLimited: {false, false, -1},
		Auth:        {false, false, 5 * time.Minute},
		Transient:   {false, false, 5 * time.Minute},
		Conflict:    {false, false, 5 * time.Minute},
		Unknown:     {false, false, 5 * time.Minute},
		"made up":   {false, false, 5 * time.Minute},
	} {
		t.Run("CA-C47 "+string(class), func(t *testing.T) {
			p := PolicyOf(class)
			if p.OpensBackoff != want.backoff || p.OutOfResources != want.resources || p.ShownAfter != want.shown {
				t.Fatalf("got %+v", p)
			}
			if p.Retry <= 0 || p.MaxRetry < p.Retry {
				t.Fatalf("no usable retry: %+v", p)
			}
		})
	}
}

func TestGroupWait(t *testing.T) {
	for name, tc := range map[string]struct {
		class Class
		code  Code
		want  []time.Duration
	}{
		"a shortage doubles from 30 s to 5 min":                  {NoCapacity, CodeNoValidHost, []time.Duration{30, 60, 120, 240, 300, 300}},
		"a name that matches nothing is tried every 30 s (F-49)": {Invalid, CodeFlavorNotFound, []time.Duration{30, 30, 30, 30}},
		"failed servers count from the second on (F-50)":         {Unknown, CodeUnknown, []time.Duration{0, 30, 60, 120, 240, 300}},
	} {
		t.Run(name, func(t *testing.T) {
			for n, want := range tc.want {
				if got := GroupWait(tc.class, tc.code, int32(n+1)); got != want*time.Second {
					t.Errorf("after %d failures: %v, want %v", n+1, got, want*time.Second)
				}
			}
		})
	}
}
