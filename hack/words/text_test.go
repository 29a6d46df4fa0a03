package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFindingsInText(t *testing.T) {
	for name, test := range map[string]struct {
		text text
		want []finding
	}{
		"plain words":                        {text: joined([]string{"A Machine that exists has a server."}, 1)},
		"a former word, ignoring case":       {text: joined([]string{"Whoever asks"}, 7), want: []finding{{line: 7, found: "Whoever"}}},
		"the line of a word":                 {text: joined([]string{"one", "two anew", "three"}, 7), want: []finding{{line: 8, found: "anew"}}},
		"a phrase over two lines":            {text: joined([]string{"what the caller is", "told"}, 7), want: []finding{{line: 8, found: "is told"}}},
		"part of a longer word":              {text: joined([]string{"a bearer token, renewed"}, 1)},
		"a noun that is denied":              {text: joined([]string{"A file that is no socket stays."}, 1), want: []finding{{line: 1, found: "is no"}}},
		"a noun that does not exist":         {text: joined([]string{"There is no socket, and there are no files."}, 1)},
		"a time that has ended":              {text: joined([]string{"It is no longer there to be read."}, 1)},
		"a part of several":                  {text: joined([]string{"three pods, two of which run"}, 1)},
		"a relative clause as the subject":   {text: joined([]string{"It waits. What fails is repeated."}, 1), want: []finding{{line: 1, found: "What fails"}}},
		"a question":                         {text: joined([]string{"What fails, and why?"}, 1)},
		"a relative clause in a literal":     {text: text{body: "What fails is repeated.", line: 1}},
		"what a sentence of a report begins": {text: joined([]string{"tells whether it runs"}, 3), want: []finding{{line: 3, found: "tells whether"}}},
	} {
		t.Run(name, func(t *testing.T) {
			got := test.text.findings()
			for i := range got {
				if got[i].instead == "" {
					t.Errorf("%q has no replacement", got[i].found)
				}
				got[i].instead = ""
			}
			if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(finding{}, edit{})); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
		})
	}
}
