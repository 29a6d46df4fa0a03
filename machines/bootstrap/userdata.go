package bootstrap

import (
	"encoding/base64"
	"errors"
	"net/url"
	"strings"
)

// maxEncoded is the maximum length of user data in base64 form (Nova's limit).
const maxEncoded = 65535

// Render returns the user data. The same input always results in the same bytes. Errors have the type *[Problem].
func (in *Input) Render() ([]byte, error) {
	out, err := in.render()
	if err == nil {
		err = fits(in.Name, out)
	}
	var known *Problem
	if err != nil && !errors.As(err, &known) {
		// Rendering reads nothing, so an error of a library is the input's too.
		known = &Problem{Message: err.Error()}
	}
	if known != nil {
		return nil, known
	}
	return out, nil
}

// fits returns an error for user data that Nova would refuse (MC-44, CAPI-29).
func fits(name string, userData []byte) error {
	if n := base64.StdEncoding.EncodedLen(len(userData)); n > maxEncoded {
		return problem("the user data of %s has %d bytes in base64 form and may have at most %d: shorten overwriteCloudConfig, sshPublicKeys or other settings of yours", name, n, maxEncoded)
	}
	return nil
}

func (in *Input) render() ([]byte, error) {
	if text := in.Provider.OverwriteCloudConfig; text != nil && *text != "" {
		return []byte(in.fill(*text)), nil
	}
	var write func(*document) ([]byte, error)
	switch in.Provider.OperatingSystem {
	case "ubuntu":
		write = in.cloudConfig
	case "flatcar":
		write = in.ignition
	default:
		return nil, problem("operatingSystem %q is not supported: use ubuntu or flatcar", in.Provider.OperatingSystem)
	}
	doc, err := in.document()
	if err != nil {
		return nil, err
	}
	return write(doc)
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

// fill replaces the placeholders for the Machine's name and token in user data that drover did not write.
func (in *Input) fill(text string) string { return fill(text, in.Name, in.Token) }

// fill replaces the placeholders in a text. At each position at most one placeholder matches, because none is the beginning of
// another one.
func fill(text, name string, token Token) string {
	var pairs []string
	for _, p := range [][2]string{{placeName, name}, {placeToken, token.String()}, {placeNameLegacy, name}} {
		pairs = append(pairs, p[0], p[1], url.QueryEscape(p[0]), url.QueryEscape(p[1]))
	}
	return strings.NewReplacer(pairs...).Replace(text)
}
