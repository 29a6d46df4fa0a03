package main

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

var (
	// first matches an item with the prefix of its list: CA-C56, MC-2, MCM-22a, CAPI-18, F-47.
	first = regexp.MustCompile(`\b(CA-C|MCM-|MC-|CAPI-|F-)(\d+)([ab]?)\b`)
	// further matches what may follow an item: a comma or "and" and one more item of the same list, or dots and the end of a range.
	// The item may lack the prefix, or have only the C of CA-C.
	further = regexp.MustCompile(`^(\s*(?:,|and)\s*|\s*(?:…|\.{2,3}|–)\s*)(CA-C|C|MCM-|MC-|CAPI-|F-)?(\d+)([ab]?)\b`)
	// identifier matches an item in a Go name, which cannot contain a dash: CAC56, MC_2, and _F47, which needs the
	// underscore.
	identifier = regexp.MustCompile(`(CA_?C|MCM|MC|CAPI|_F)_?(\d+)([ab]?)(?:_|[A-Z]|$)`)
)

// maxRange limits the length of a range, so that a typing error does not produce thousands of items.
const maxRange = 120

// mentions returns the item numbers in a text, in their order. It expands lists and ranges of numbers.
func mentions(text string) []string {
	var ids []string
	for {
		at := first.FindStringSubmatchIndex(text)
		if at == nil {
			return ids
		}
		prefix, number, letter := text[at[2]:at[3]], text[at[4]:at[5]], text[at[6]:at[7]]
		last := atoi(number)
		ids = append(ids, canonical(prefix, last, letter))
		text = text[at[1]:]
		for {
			next := further.FindStringSubmatch(text)
			if next == nil || !continues(prefix, next[2]) {
				break
			}
			number := atoi(next[3])
			if isRange(next[1]) {
				for n := last + 1; n < number && n-last < maxRange; n++ {
					ids = append(ids, canonical(prefix, n, ""))
				}
			}
			ids = append(ids, canonical(prefix, number, next[4]))
			last, text = number, text[len(next[0]):]
		}
	}
}

// nameMentions returns the items in the name of a test function.
func nameMentions(name string) []string {
	var ids []string
	for _, match := range identifier.FindAllStringSubmatch(name, -1) {
		prefix := map[string]string{"MCM": "MCM-", "MC": "MC-", "CAPI": "CAPI-", "_F": "F-"}[match[1]]
		if prefix == "" {
			prefix = "CA-C"
		}
		ids = append(ids, canonical(prefix, atoi(match[2]), match[3]))
	}
	return ids
}

// continues reports whether the prefix of a further item matches that of the first item. A further item may have no prefix,
// or only the letter C.
func continues(prefix, next string) bool {
	if prefix == "CA-C" {
		return next == "C" || next == prefix
	}
	return next == "" || next == prefix
}

func isRange(separator string) bool {
	return strings.ContainsAny(separator, "….–")
}

// canonical returns an item's id as the checklists write it.
func canonical(prefix string, number int, letter string) string {
	if prefix == "CA-C" {
		return fmt.Sprintf("%s%02d%s", prefix, number, letter)
	}
	return fmt.Sprintf("%s%d%s", prefix, number, letter)
}

// atoi converts digits that a pattern has matched. It returns 0 when the digits are too many for an item.
func atoi(digits string) int {
	n, err := strconv.Atoi(digits)
	if err != nil {
		return 0
	}
	return n
}
