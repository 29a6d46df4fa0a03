package bootstrap

import (
	"errors"
	"net/url"
	"slices"
	"strings"
)

// Render returns the user data, compressed when it is large. The same input always results in the same bytes. Errors have the type
// *[Problem].
func (in *Input) Render() ([]byte, error) {
	out, err := in.small()
	if err == nil {
		err = in.fits(out, maxEncoded)
	}
	if known := (*Problem)(nil); err != nil && !errors.As(err, &known) {
		// Rendering reads nothing, so an error of a library is the input's too.
		err = problem("%v", err)
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}

// systems are the operating systems for which drover writes user data.
var systems = []string{"ubuntu", "flatcar"}

// render returns the document, with the files of an Ignition document in the given form.
func (in *Input) render(files contents) ([]byte, error) {
	system := in.Provider.OperatingSystem
	if !slices.Contains(systems, system) {
		return nil, problem("operatingSystem %q is not supported: use ubuntu or flatcar", system)
	}
	doc, err := in.document()
	if err != nil {
		return nil, err
	}
	if system == "flatcar" {
		return in.ignition(doc, files)
	}
	return in.cloudConfig(doc)
}

// Placeholders in user data that drover did not write: two of Gardener, and those of machine-controller. drover also replaces each
// placeholder in its URL-escaped form, which an Ignition document contains.
const (
	placeName       = "<<MACHINE_NAME>>"
	placeToken      = "<<BOOTSTRAP_TOKEN>>"
	placeNameLegacy = "<MACHINE_NAME>"
)

// wantsToken reports whether the text has a placeholder for a bootstrap token.
func wantsToken(text string) bool {
	return strings.Contains(text, placeToken) || strings.Contains(text, url.QueryEscape(placeToken))
}

// fill replaces the placeholders in a text. At each position at most one placeholder matches, because none is the beginning of
// another one.
func fill(text, name string, token Token) string {
	var pairs []string
	for _, p := range [][2]string{{placeName, name}, {placeToken, token.String()}, {placeNameLegacy, name}} {
		pairs = append(pairs, p[0], p[1], url.QueryEscape(p[0]), url.QueryEscape(p[1]))
	}
	return strings.NewReplacer(pairs...).Replace(text)
}
