package bootstrap

import (
	"bytes"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	ignition "github.com/coreos/ignition/v2/config/v3_4"
	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	"github.com/drover-project/drover/test/kubelet"
)

// noise returns bytes that no compression shortens, which are the same in each run.
func noise(n int) []byte {
	out := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(out)
	return out
}

// noisyKeys returns SSH keys of 400 bytes each.
func noisyKeys(n int) (keys []string) {
	all := base64.StdEncoding.EncodeToString(noise(300 * n))
	for i := range n {
		keys = append(keys, "ssh-rsa AAAA"+all[400*i:400*(i+1)-12])
	}
	return keys
}

// bundle returns n certificates of 1000 bytes each, which are 1400 in PEM form.
func bundle(n int) []byte {
	var out bytes.Buffer
	all := noise(1000 * n)
	for i := range n {
		_ = pem.Encode(&out, &pem.Block{Type: "CERTIFICATE", Bytes: all[1000*i : 1000*(i+1)]})
	}
	return out.Bytes()
}

func TestLargeUserDataIsCompressed(t *testing.T) {
	for _, system := range systems {
		in := siteInput(system)
		in.Site.CABundle = bundle(3)
		plain, err := in.render(plainContents)
		if err != nil || encodedLen(plain) <= maxPlain {
			t.Fatalf("the document has %d bytes in base64 form, error %v", encodedLen(plain), err)
		}
		sent, err := in.Render()
		if err != nil {
			t.Fatal(err)
		}
		t.Run("user data of "+system+" above a third of Nova's limit is compressed (F-156)", func(t *testing.T) {
			if len(sent) > len(plain)*3/4 {
				t.Errorf("%d bytes became %d", len(plain), len(sent))
			}
		})
		t.Run("compressed user data of "+system+" has the same files and units as the document (F-156)", func(t *testing.T) {
			want, err := kubelet.ParseUserData(plain)
			if err != nil {
				t.Fatal(err)
			}
			got, err := kubelet.ParseUserData(sent)
			if diff := cmp.Diff(want, got); err != nil || diff != "" {
				t.Errorf("error %v\n%s", err, diff)
			}
		})
		t.Run("the secrets of compressed user data of "+system+" are removed from a console (F-156)", func(t *testing.T) {
			if got := Redact(sent, "got 0123456789abcdef and pa55word here"); got != "got "+Redacted+" and "+Redacted+" here" {
				t.Error(got)
			}
		})
	}
	t.Run("Ignition gets a document that it can read, with compressed files (F-156)", func(t *testing.T) {
		sent, err := siteInput("flatcar").Render()
		if err != nil || !bytes.HasPrefix(sent, []byte("{")) {
			t.Fatalf("error %v, %.20q", err, sent)
		}
		parsed, report, err := ignition.Parse(sent)
		if err != nil {
			t.Fatal(err, report)
		}
		found := 0
		for _, f := range parsed.Storage.Files {
			if ptr.Deref(f.Contents.Compression, "") == "gzip" {
				found++
			}
		}
		if found == 0 || found == len(parsed.Storage.Files) {
			t.Errorf("%d of %d files are compressed", found, len(parsed.Storage.Files))
		}
	})
}

func TestUserDataThatIsTooLargeIsRefusedWithItsLargestPart(t *testing.T) {
	many := func(n int, text string) (out []string) {
		all := noise(30 * n)
		for i := range n {
			out = append(out, fmt.Sprintf(text, base64.RawURLEncoding.EncodeToString(all[30*i:30*(i+1)])))
		}
		return out
	}
	for name, tc := range map[string]struct {
		change func(*Input)
		says   string
	}{
		"the CA bundle":     {func(in *Input) { in.Site.CABundle = bundle(60) }, "the certificates of --node-ca-bundle with 84660 bytes"},
		"the mirrors":       {func(in *Input) { in.Site.RegistryMirrors = many(2500, "docker.io=https://mirror.example/%s") }, "the list of --node-registry-mirrors with"},
		"the proxy's hosts": {func(in *Input) { in.Site.NoProxy = strings.Join(many(1500, "%s.example"), ",") }, "the value of --node-no-proxy with"},
		"the SSH keys":      {func(in *Input) { in.Provider.SSHPublicKeys = noisyKeys(150) }, "the list of sshPublicKeys with"},
		"the cluster's CA":  {func(in *Input) { in.CA = bundle(60) }, "the CA of the API server with"},
	} {
		for _, system := range systems {
			t.Run("the refusal of a server with "+system+" names "+name+" (F-156)", func(t *testing.T) {
				in := siteInput(system)
				tc.change(in)
				_, err := in.Render()
				var p *Problem
				if !errors.As(err, &p) || !strings.Contains(p.Message, "may have at most 65535") || !strings.Contains(p.Message, tc.says) {
					t.Errorf("error %v", err)
				}
			})
		}
	}
}

func TestTheSizeOfTheSettingsForAllNodesIsMeasuredAtStart(t *testing.T) {
	for _, tt := range []struct {
		name  string
		site  Site
		large string // the systems for which the settings are too large, separated by spaces
	}{
		{"no settings", Site{}, ""},
		{"all settings together", siteInput("ubuntu").Site, ""},
		{"10 certificates", Site{CABundle: bundle(10)}, ""},
		{"25 certificates", Site{CABundle: bundle(25)}, "flatcar"},
		{"40 certificates", Site{CABundle: bundle(40)}, "flatcar ubuntu"},
	} {
		t.Run("drover knows at start for which systems the settings are too large: "+tt.name+" (F-156)", func(t *testing.T) {
			tooLarge := tt.site.TooLargeFor()
			if got := strings.Join(slices.Sorted(maps.Keys(tooLarge)), " "); got != tt.large {
				t.Errorf("the settings are too large for %q, want %q", got, tt.large)
			}
			for _, err := range tooLarge {
				if !strings.Contains(err.Error(), "--node-ca-bundle") {
					t.Error(err)
				}
			}
			if err := tt.site.Check(); (err != nil) != (tt.large == "flatcar ubuntu") {
				t.Errorf("the check at start returns %v", err)
			}
		})
	}
	t.Run("settings that pass the check at start leave room for a Machine's own settings (F-156)", func(t *testing.T) {
		in := siteInput("ubuntu")
		for n := 1; n <= 100; n++ {
			site := in.Site
			site.CABundle = bundle(n)
			if site.Check() != nil {
				break
			}
			in.Site = site
		}
		in.Provider.SSHPublicKeys, in.CA = noisyKeys(8), bundle(1)
		if _, err := in.Render(); err != nil {
			t.Error(err)
		}
	})
}

func TestUserDataOfAnotherAuthorIsCompressedOnlyIfItIsTooLarge(t *testing.T) {
	long := strings.Repeat("echo a line of a script\n", 4000)
	for _, tt := range []struct {
		name, content string
		zipped        bool
		says          string // a part of the error; empty means that there is none
	}{
		{"user data of the maximum size is not compressed (MC-44)", strings.Repeat("a", 49149), false, ""},
		{"user data for cloud-init that exceeds the maximum size is compressed (MC-44)", "#!/bin/sh\n" + long, true, ""},
		{"user data for Ignition that exceeds the maximum size is refused, because Ignition does not decompress it (MC-44)", `{"a": "` + long + `"}`, false, "overwriteCloudConfig has 128012"},
		{"user data that is too large even after compression is refused, and its source is named (MC-44, CAPI-29)", "#" + string(noise(60000)), false, "overwriteCloudConfig has 80"},
		{"compressed user data is not compressed again (MC-44)", string(compressed(noise(50000))), false, "overwriteCloudConfig has 66"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out, err := text{content: tt.content, from: "overwriteCloudConfig"}.filled("m", Token{})
			var p *Problem
			if tt.says != "" {
				if !errors.As(err, &p) || !strings.Contains(p.Message, tt.says) || !strings.Contains(p.Message, "at most 65535") {
					t.Errorf("error %v", err)
				}
				return
			}
			if err != nil || isCompressed(out) != tt.zipped || readable(out)[0] != tt.content {
				t.Errorf("error %v, %d bytes", err, len(out))
			}
		})
	}
}
