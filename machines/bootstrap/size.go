package bootstrap

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

const (
	// maxEncoded is the maximum length of user data in base64 form (Nova's limit).
	maxEncoded = 65535
	// maxPlain is the length in base64 form above which drover compresses its own user data.
	maxPlain = maxEncoded / 3
	// ownPart is how much of maxEncoded the settings that are the same for all nodes must leave for those of a Machine: SSH keys, labels, taints
	// and annotations.
	ownPart = 8192
)

// part is a setting, and how many bytes of user data it takes.
type part struct {
	name string
	size int
}

// largest returns the largest of the settings that a person can shorten.
func (in *Input) largest() part {
	sum := func(texts ...string) int { return len(strings.Join(texts, "")) }
	var labels, taints []string
	for key, value := range in.Labels {
		labels = append(labels, key, value)
	}
	for _, t := range in.Taints {
		taints = append(taints, t.ToString())
	}
	s := &in.Site
	return slices.MaxFunc([]part{
		{"the certificates of --node-ca-bundle", len(s.CABundle)},
		{"the list of --node-registry-mirrors", sum(s.RegistryMirrors...)},
		{"the list of --node-insecure-registries", sum(s.InsecureRegistries...)},
		{"the value of --node-no-proxy", len(s.NoProxy)},
		{"the value of --node-http-proxy", len(s.HTTPProxy)},
		{"the list of --node-packages", sum(s.Packages...)},
		{"the list of sshPublicKeys", sum(in.sshKeys()...)},
		{"the CA of the API server", len(in.CA)},
		{"the labels of the Node", sum(labels...)},
		{"the taints of the Node", sum(taints...)},
	}, func(a, b part) int { return cmp.Compare(a.size, b.size) })
}

// small returns the document, compressed when it is large. cloud-init decompresses all user data. Ignition decompresses only the files
// in its document.
func (in *Input) small() ([]byte, error) {
	out, err := in.render(plainContents)
	if err == nil && encodedLen(out) > maxPlain {
		if in.Provider.OperatingSystem != "flatcar" {
			return compressed(out), nil
		}
		out, err = in.render(smallContents)
	}
	if err == nil && in.Provider.OperatingSystem == "flatcar" {
		err = checkIgnition(out)
	}
	return out, err
}

// fits returns an error for user data that has more than the given bytes in base64 form, which names the largest setting in it.
func (in *Input) fits(userData []byte, most int) error {
	if n := encodedLen(userData); n > most {
		p := in.largest()
		return problem("the user data has %d bytes in compressed base64 form, and may have at most %d; the largest part that can be shortened is %s with %d bytes",
			n, most, p.name, p.size)
	}
	return nil
}

// TooLargeFor returns the operating systems whose user data has too little room for the settings of a Machine beside those for all nodes,
// each with an error that names the largest setting (F-156).
func (s *Site) TooLargeFor() map[string]error {
	out := map[string]error{}
	for _, system := range systems {
		in := &Input{
			Name: strings.Repeat("n", 63), Provider: &v1alpha1.ProviderConfig{OperatingSystem: system}, KubeletVersion: "1.99.99", Kubelet: DefaultKubeletSettings(),
			Server: "https://kubernetes.example:6443", ClusterDomain: "cluster.local", Site: *s,
		}
		document, err := in.small()
		if err == nil {
			err = in.fits(document, maxEncoded-ownPart)
		}
		if err != nil {
			out[system] = fmt.Errorf("the settings for all nodes are too large for servers with %s: %w", system, err)
		}
	}
	return out
}
