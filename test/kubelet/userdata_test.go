package kubelet

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"strings"
	"testing"
)

func gzipped(t *testing.T, text string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestFilesAndHostNameAreReadFromUserData(t *testing.T) {
	cloudConfig := "#cloud-config\nhostname: n1\nwrite_files:\n- path: /a\n  content: |\n    hello\n"
	packed := base64.StdEncoding.EncodeToString(gzipped(t, "hello\n"))
	for name, raw := range map[string][]byte{
		"the files and the host name of a plain cloud-config are read":          []byte(cloudConfig),
		"the files and the host name of a compressed cloud-config are read":     gzipped(t, cloudConfig),
		"the host name and a base64-encoded file of a cloud-config are read":    []byte("#cloud-config\nhostname: n1\nwrite_files:\n- path: /a\n  encoding: b64\n  content: aGVsbG8K\n"),
		"the host name and a gz+base64-encoded file of a cloud-config are read": []byte("#cloud-config\nhostname: n1\nwrite_files:\n- path: /a\n  encoding: gz+base64\n  content: " + packed + "\n"),
		"the files and the host name of an Ignition document are read": []byte(`{"ignition":{"version":"3.4.0"},"storage":{"files":[
			{"path":"/etc/hostname","contents":{"source":"data:,n1"}},
			{"path":"/a","contents":{"source":"data:;base64,` + packed + `","compression":"gzip"}}]}}`),
	} {
		t.Run(name, func(t *testing.T) {
			boot, err := ParseUserData(raw)
			if err != nil {
				t.Fatal(err)
			}
			if boot.Files["/a"] != "hello\n" || boot.Hostname != "n1" {
				t.Errorf("got %q", boot)
			}
		})
	}
}

func TestParseUserDataReturnsTheSystemdUnitsThatTheUserDataStarts(t *testing.T) {
	for name, raw := range map[string]string{
		"units that runcmd of a cloud-config starts with a list of arguments are returned": "#cloud-config\nruncmd: [[systemctl, daemon-reload], [systemctl, enable, other.service], [systemctl, start, --no-block, a.service, kubelet.service]]\n",
		"units that runcmd of a cloud-config starts with a line of shell are returned":     "#cloud-config\nruncmd: ['systemctl enable --now a.service kubelet.service', 'echo start b.service']\n",
		"units that an Ignition document enables are returned":                             `{"systemd":{"units":[{"name":"a.service","enabled":true},{"name":"b.service","mask":true},{"name":"kubelet.service","enabled":true}]}}`,
	} {
		t.Run(name, func(t *testing.T) {
			boot, err := ParseUserData([]byte(raw))
			if err != nil || strings.Join(boot.Units, " ") != "a.service kubelet.service" {
				t.Errorf("got %+v, error %v", boot, err)
			}
		})
	}
}

func TestInvalidUserDataIsRefused(t *testing.T) {
	for name, c := range map[string]struct{ raw, want string }{
		"empty user data is refused":                                   {" \n", "it is empty"},
		"a shell script as user data is refused":                       {"#!/bin/sh\ntrue\n", `begins with "#!/bin/sh"`},
		"a cloud-config that is not YAML is refused":                   {"#cloud-config\n\t- x", "reading cloud-config"},
		"a cloud-config with a file in an unknown encoding is refused": {"#cloud-config\nwrite_files:\n- path: /a\n  encoding: rot13\n  content: x\n", `file /a: unknown encoding "rot13"`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ParseUserData([]byte(c.raw))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}
