package bootstrap

import (
	"net/url"
	"strings"
)

// Placeholders of user data that somebody else wrote: Gardener's two, and machine-controller's. Each also stands for
// itself in URL-escaped form, as it does in an Ignition document.
const (
	placeName       = "<<MACHINE_NAME>>"
	placeToken      = "<<BOOTSTRAP_TOKEN>>"
	placeNameLegacy = "<MACHINE_NAME>"
)

// wantsToken tells whether the text has a place for a bootstrap token.
func wantsToken(text string) bool {
	return strings.Contains(text, placeToken) || strings.Contains(text, url.QueryEscape(placeToken))
}

// fill puts the Machine's name and token into user data that somebody else wrote.
func (in *Input) fill(text string) string { return fill(text, in.Name, in.Token) }

// fill compares in this order at each position of the text; no placeholder begins another one.
func fill(text, name string, token Token) string {
	var pairs []string
	for _, p := range [][2]string{{placeName, name}, {placeToken, token.String()}, {placeNameLegacy, name}} {
		pairs = append(pairs, p[0], p[1], url.QueryEscape(p[0]), url.QueryEscape(p[1]))
	}
	return strings.NewReplacer(pairs...).Replace(text)
}
