package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestForbiddenWordsAndSentencesAreFoundInText(t *testing.T) {
	for name, test := range map[string]struct {
		text text
		want []finding
	}{
		"a sentence without a forbidden word is accepted":                                        {text: joined([]string{"A Machine that exists has a server."}, 1)},
		"a forbidden word that begins with a capital letter is found":                            {text: joined([]string{"Whoever asks"}, 7), want: []finding{{line: 7, found: "Whoever"}}},
		"a forbidden word is reported with the number of its line":                               {text: joined([]string{"one", "two anew", "three"}, 7), want: []finding{{line: 8, found: "anew"}}},
		"a forbidden phrase that spans two lines is reported with the number of the second line": {text: joined([]string{"what the caller is", "told"}, 7), want: []finding{{line: 8, found: "is told"}}},
		"a forbidden word inside a longer word is accepted":                                      {text: joined([]string{"a bearer token, renewed"}, 1)},
		"the phrase 'is no' before a noun is found":                                              {text: joined([]string{"A file that is no socket stays."}, 1), want: []finding{{line: 1, found: "is no"}}},
		"the phrase 'there is no' is accepted":                                                   {text: joined([]string{"There is no socket, and there are no files."}, 1)},
		"the phrase 'is no longer' is accepted":                                                  {text: joined([]string{"It is no longer there to be read."}, 1)},
		"the phrase 'two of which' is accepted after a comma":                                    {text: joined([]string{"three pods, two of which run"}, 1)},
		"in a comment, a sentence that begins with a relative clause is found":                   {text: joined([]string{"It waits. What fails is repeated."}, 1), want: []finding{{line: 1, found: "What fails"}}},
		"a question that begins with 'What' is accepted":                                         {text: joined([]string{"What fails, and why?"}, 1)},
		"a string literal that begins with a relative clause is accepted":                        {text: text{body: "What fails is repeated.", line: 1}},
		"the phrase 'tells whether' is found":                                                    {text: joined([]string{"tells whether it runs"}, 3), want: []finding{{line: 3, found: "tells whether"}}},
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
