package main

import "testing"

func TestLogMessagesThatBeginWithASmallLetterAreFound(t *testing.T) {
	wantFindings(t, map[string]string{"a.go": `package a

func a() {
	log.V(1).Info("Created server", "id", 1)
	log.Info("created server", "id", 1)
	log.Error(err, "creating a server")
	t.Error("creating a server")
}
`}, "a.go:5 created server", "a.go:6 creating a server")
}

func TestTheWordCheckReportsTestNamesThatBeginWithAnItemNumber(t *testing.T) {
	wantFindings(t, map[string]string{"a.go": "package a\n", "a_test.go": `package a

func TestA(t *testing.T) {
	t.Run("MC-7 a server is created", nil)
	t.Run("a server is created (MC-7, CAPI-2)", nil)
	t.Run("a server (MC-7) is created as "+kind, nil)
	for name, test := range map[string]struct{}{"F-3 grows": {}, "MC-1": {}} {
	}
	_ = []struct{ name, text string }{{"F-4: shrinks", "F-4 in a text"}, {name: "F-5 stays", text: "F-5 in a text"}}
	t.Errorf("MC-7 failed: %v", err)
}
`}, "a_test.go:4 MC-7", "a_test.go:6 MC-7", "a_test.go:7 F-3", "a_test.go:9 F-4", "a_test.go:9 F-5")
}

func TestItemNumbersAtTheBeginningOfATestNameAreMovedToItsEnd(t *testing.T) {
	for name, tt := range map[string]struct{ before, want string }{
		"one item number is moved":                                                 {before: "MC-7 a server is created", want: "a server is created (MC-7)"},
		"an item number is moved and the colon after it is removed":                {before: "MC-7: a server is created", want: "a server is created (MC-7)"},
		"three item numbers are moved and separated by commas":                     {before: "MC-71 MCM-87 F-8 two at once", want: "two at once (MC-71, MCM-87, F-8)"},
		"a list of item numbers that contains a range is moved":                    {before: "CA-C80, C81 … C84 a size of 3", want: "a size of 3 (CA-C80, C81 … C84)"},
		"two item numbers with the word 'and' between them are moved together":     {before: "MCM-22a and 23 a server is replaced", want: "a server is replaced (MCM-22a and 23)"},
		"a name with item numbers at its beginning and in its middle is unchanged": {before: "MC-7 grows, and MC-8 shrinks", want: ""},
		"a name that has its item number at the end is unchanged":                  {before: "a server is created (MC-7)", want: ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got, _ := moveItems(tt.before); got != tt.want {
				t.Errorf("moveItems() = %q, want %q", got, tt.want)
			}
		})
	}
}
