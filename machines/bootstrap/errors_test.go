package bootstrap

import (
	"errors"
	"strings"
	"testing"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

func TestEveryErrorOfRenderingIsAProblem(t *testing.T) {
	for name, spoil := range map[string]func(*Input){
		"a mirror without a URL":                func(in *Input) { in.Site.RegistryMirrors = []string{"quay.io="} },
		"a CA bundle without certificates":      func(in *Input) { in.Site.CABundle = []byte("hello") },
		"an operating system that drover lacks": func(in *Input) { in.Provider.OperatingSystem = "rhel" },
		"a specification that is a list":        func(in *Input) { in.Provider.OperatingSystemSpec.Raw = []byte("[]") },
		"a name that cannot be a node's":        func(in *Input) { in.Name = "a b" },
		"more SSH keys than fit":                func(in *Input) { in.Provider.SSHPublicKeys = noisyKeys(150) },
	} {
		for _, system := range []string{"ubuntu", "flatcar"} {
			t.Run("the user data of "+system+" with "+name+" is refused with a Problem (F-154)", func(t *testing.T) {
				in := siteInput(system)
				spoil(in)
				_, err := in.Render()
				var p *Problem
				if !errors.As(err, &p) || p.Message == "" {
					t.Errorf("error %T: %v", err, err)
				}
			})
		}
	}
}

func TestEqualSSHKeysAreWrittenOnce(t *testing.T) {
	const key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIO"
	for name, tc := range map[string]struct {
		entries []string
		want    []string
	}{
		"the same key twice (F-154)":                                 {[]string{key + " a", key + " a"}, []string{key + " a"}},
		"the same key with another comment (F-154)":                  {[]string{key + " a", key + " b", key}, []string{key + " a"}},
		"the same key with other white space (F-154)":                {[]string{key, strings.Replace(key, " ", "\t ", 1) + "\r\n"}, []string{key}},
		"the same key in one entry of several lines (F-154)":         {[]string{key + " a\n" + key + " b\n"}, []string{key + " a"}},
		"the same key with options is another entry":                 {[]string{key, "restrict " + key}, []string{key, "restrict " + key}},
		"another key is another entry":                               {[]string{key, key + "x"}, []string{key, key + "x"}},
		"a key of another type with a comment that looks like a key": {[]string{"sk-ssh-ed25519@openssh.com AAAAG AAAAC", "sk-ssh-ed25519@openssh.com AAAAG AAAAD"}, []string{"sk-ssh-ed25519@openssh.com AAAAG AAAAC"}},
	} {
		t.Run(name, func(t *testing.T) {
			in := &Input{Provider: &v1alpha1.ProviderConfig{SSHPublicKeys: tc.entries}}
			if got := in.sshKeys(); strings.Join(got, "|") != strings.Join(tc.want, "|") {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
	for _, system := range []string{"ubuntu", "flatcar"} {
		t.Run("a server with "+system+" is made although a key is there twice (F-154)", func(t *testing.T) {
			in := input(system, `{}`)
			in.Provider.SSHPublicKeys = []string{key, key, key + " again"}
			if _, err := in.Render(); err != nil {
				t.Error(err)
			}
		})
	}
}
