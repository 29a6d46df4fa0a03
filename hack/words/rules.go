package main

import "regexp"

// rule is a word that drover's texts must not contain, and what to write instead.
type rule struct {
	word *regexp.Regexp
	// unlessAfter and unlessBefore allow some uses of the word: those directly after a text that unlessAfter matches, and those
	// directly before a text that unlessBefore matches. nil matches no text.
	unlessAfter, unlessBefore *regexp.Regexp
	instead                   string
	prose                     bool // true when the rule applies to comments and documents, but not to string literals
	advice                    bool // true when the word is often, but not always, hard to read; reported only with -advice
}

// re compiles a pattern that ignores case.
func re(pattern string) *regexp.Regexp { return regexp.MustCompile(`(?i)` + pattern) }

// question matches the rest of a sentence that is a question.
var question = re(`^[^.!]*\?`)

// rules are the words to avoid, in the order in which they are searched for.
var rules = []rule{
	{word: re(`\banew\b`), instead: `write "again", or name the event: "was re-created", "is built again"`},
	{word: re(`\bwho(m)?(so)?ever\b`), instead: `name the actor: "the caller", "the client that holds the lock"`},
	{word: re(`\b(bears?|bearing|bore|borne)\b`), unlessBefore: re(`^ in mind`), instead: `write "has" or "carries"`},
	{word: re(`\b(tells?|telling) (whether|if|why)\b`), instead: `write "reports whether" or "explains why"`},
	{word: re(`\bsays (whether|why)\b`), instead: `write "reports whether" or "explains why"`},
	{word: re(`\b(is|are|be|was|were|been|being) told\b`), unlessBefore: re(`^ apart`),
		instead: `write who receives or reports it: "the autoscaler receives", "the user sees"`},
	{word: re(`\bpersons?['’]s? words?\b`), instead: `write "an operator's confirmation"`},
	{word: re(`\b(is|are|was|were|be) no\b`), unlessAfter: re(`\bthere( still| also| now)? $`),
		unlessBefore: re(`^( (longer|such|more|less|fewer|other|later|earlier|larger|smaller|shorter|older|newer|better|worse|need|way|matter)\b|-op\b|[-.,;:)"'` + "`" + `]|$)`),
		instead:      `write "is not a …"`},
	{word: re(`\btwins?\b`), instead: `write "duplicate": a second server of the same Machine`},
	{word: re(`\bfor ever\b`), instead: `write "forever", or what would end it: "until …", "without a limit"`},
	{word: re(`\bby (itself|themselves|himself)\b`), instead: `write "automatically", "on its own" or "alone"`},
	{word: re(`\b[a-z]+ of which\b`),
		unlessAfter: re(`(,|\() $`), unlessBefore: nil,
		instead: `make it a sentence of its own, or write "whose …"`},
	{word: re(`\bthe ones? whose\b`), instead: `repeat the noun: "the server whose …"`},
	{word: re(`\b(speaks?|spoke|spoken|speaking) of\b`), instead: `write "names" or "refers to"`},
	{word: re(`\bto the letter\b`), instead: `write "exactly" or "byte for byte"`},
	{word: re(`\b(cease|ceases|ceased)\b`), instead: `write "stops"`},
	{word: re(`\b(it|that|which|one|they|there) (is|are|was|were) (not |still |already )?there\b`), unlessBefore: re(`^ (a|an|no|any|one)\b`),
		instead: `write "exists"`},
	{word: re(`\b(is|are|was|were) (not |still |already )?there( yet| already| again| too)?[.,;:)]`), instead: `write "exists"`},
	{word: regexp.MustCompile(`(^|[.!:] )Of (a|an|the|those|what|one)\b`), prose: true,
		instead: `begin with the subject: "drover keeps the oldest of the servers …"`},
	{word: regexp.MustCompile(`(^|[.!] )(What|Who|Whose|Whom) [a-z]+`), unlessBefore: question, prose: true,
		instead: `begin with the subject, not with a relative clause: "Servers without a tag …"`},
	{word: re(`\b(design|house|findings|rulings) ?§|\brulings\b`), instead: `refer to a document of this repository`},

	{advice: true, word: re(`\b(nobody|somebody|anybody|everybody|someone|anyone)\b`), instead: `name the actor: "an operator", "another client", "no controller"`},
	{advice: true, word: re(`\b(who|whom)\b`), instead: `for a program write "that", or name it: "the caller"`},
	{advice: true, word: re(`\b(the|that|those|these) ones? (that|which|who)\b`), instead: `repeat the noun`},
	{advice: true, word: re(`\bthings?\b`), instead: `name it`},
	{advice: true, word: re(`\bgoes\b`), unlessBefore: re(`^ (on|through|to|into|back|up|down|with|wrong|beyond|by)\b`), instead: `write "is deleted", "is removed" or "is lost"`},
	{advice: true, word: re(`\bgives\b`), unlessBefore: re(`^ (up|way)\b`), instead: `write "returns" or "yields"`},
	{advice: true, word: re(`\bknows\b`), instead: `write "has in its cache", "has read", "supports"`},
	{advice: true, word: re(`\bsays (what|how|which|so|nothing|that)\b`), instead: `write "describes", "lists", "reports"`},
	{advice: true, word: re(`\b(ours|theirs)\b`), instead: `write "drover's", "the user's"`},
	{advice: true, word: re(`\b(people|persons?)\b`), instead: `write "users" or "an operator"`},
	{advice: true, word: re(`\b(lets?|letting) through\b`), instead: `write "allows" or "accepts"`},
	{advice: true, word: re(`\btakes in\b`), instead: `write "accepts", "reads" or "applies"`},
}

// docVerbs are verbs that must not begin a doc comment, and their replacements.
var docVerbs = map[string]string{
	"gives":  `write "returns"`,
	"tells":  `write "reports whether" or "returns"`,
	"says":   `write "reports whether", "describes" or "returns"`,
	"knows":  `write "holds" or "caches"`,
	"bears":  `write "has"`,
	"stands": `write "represents" or "is"`,
	"goes":   `write "is deleted"`,
	"comes":  `write "is created", "arrives" or "returns"`,
	"lets":   `write "allows" or "makes"`,
	"wants":  `write "requires" or "requests"`,
	"lives":  `write "exists"`,
}
