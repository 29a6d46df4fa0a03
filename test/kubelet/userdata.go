package kubelet

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/vincent-petithory/dataurl"
	"sigs.k8s.io/yaml"
)

// Boot holds the files that the first boot of a server writes, by path.
type Boot struct {
	Files map[string]string
	// Hostname is the host name in the user data; empty when the user data has none.
	Hostname string
	// Units are the systemd units that the boot starts.
	Units []string
}

// ParseUserData parses a cloud-config or an Ignition document, compressed or not.
func ParseUserData(raw []byte) (*Boot, error) {
	plain, err := Decompress(raw)
	if err != nil {
		return nil, fmt.Errorf("unpacking user data: %w", err)
	}
	text := bytes.TrimLeft(plain, " \t\r\n")
	switch {
	case len(text) == 0:
		return nil, fmt.Errorf("reading user data: it is empty")
	case bytes.HasPrefix(text, []byte("#cloud-config")):
		return parseCloudConfig(text)
	case text[0] == '{':
		return parseIgnition(text)
	}
	line, _, _ := strings.Cut(string(text), "\n")
	return nil, fmt.Errorf("reading user data: it begins with %q; expected #cloud-config or an Ignition document", line)
}

// Decompress decompresses data that begins with gzip's magic number, and returns other data unchanged.
func Decompress(raw []byte) ([]byte, error) {
	if !bytes.HasPrefix(raw, []byte{0x1f, 0x8b}) {
		return raw, nil
	}
	r, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}

func parseCloudConfig(text []byte) (*Boot, error) {
	var doc struct {
		Hostname   string `json:"hostname"`
		WriteFiles []struct {
			Path     string `json:"path"`
			Content  string `json:"content"`
			Encoding string `json:"encoding"`
		} `json:"write_files"`
		RunCmd []any `json:"runcmd"`
	}
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return nil, fmt.Errorf("reading cloud-config: %w", err)
	}
	boot := &Boot{Files: map[string]string{}, Hostname: doc.Hostname, Units: started(doc.RunCmd)}
	for _, f := range doc.WriteFiles {
		content, err := decodeContent(f.Content, f.Encoding)
		if err != nil {
			return nil, fmt.Errorf("reading cloud-config: file %s: %w", f.Path, err)
		}
		boot.Files[f.Path] = content
	}
	return boot, nil
}

// started returns the units that the commands of a boot start. A command is a shell command line, or a list of
// words.
func started(commands []any) []string {
	var units []string
	for _, c := range commands {
		words := strings.Fields(strings.Trim(fmt.Sprint(c), "[]"))
		if len(words) < 2 || words[0] != "systemctl" || !slices.Contains([]string{"start", "restart", "enable"}, words[1]) {
			continue
		}
		if words[1] == "enable" && !slices.Contains(words, "--now") {
			continue
		}
		for _, w := range words[2:] {
			if !strings.HasPrefix(w, "-") {
				units = append(units, w)
			}
		}
	}
	return units
}

// decodeContent decodes the content of a write_files entry. It supports the names of encodings that cloud-init
// supports.
func decodeContent(content, encoding string) (string, error) {
	switch encoding {
	case "", "text/plain":
		return content, nil
	case "b64", "base64":
	case "gz+b64", "gz+base64", "gzip+b64", "gzip+base64":
	default:
		return "", fmt.Errorf("unknown encoding %q", encoding)
	}
	raw, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(content), ""))
	if err != nil {
		return "", err
	}
	if strings.HasPrefix(encoding, "gz") {
		raw, err = Decompress(raw)
	}
	return string(raw), err
}

// hostnameFile is the file in which Ignition documents set the host name.
const hostnameFile = "/etc/hostname"

// unitFolder is the directory to which Ignition writes the units of a document.
const unitFolder = "/etc/systemd/system/"

// ignitionResource is a file that an Ignition document contains as a data URL.
type ignitionResource struct {
	Source      string `json:"source"`
	Compression string `json:"compression"`
}

// content returns the decoded content. Like Ignition, it decompresses only what the document describes as compressed.
func (r ignitionResource) content() ([]byte, error) {
	source, err := dataurl.DecodeString(r.Source)
	if err != nil {
		return nil, err
	}
	switch r.Compression {
	case "":
		return source.Data, nil
	case "gzip":
		return Decompress(source.Data)
	}
	return nil, fmt.Errorf("unknown compression %q", r.Compression)
}

func parseIgnition(text []byte) (*Boot, error) {
	var doc struct {
		Storage struct {
			Files []struct {
				Path     string           `json:"path"`
				Contents ignitionResource `json:"contents"`
			} `json:"files"`
		} `json:"storage"`
		Systemd struct {
			Units []struct {
				Name     string `json:"name"`
				Enabled  bool   `json:"enabled"`
				Contents string `json:"contents"`
			} `json:"units"`
		} `json:"systemd"`
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		return nil, fmt.Errorf("reading Ignition document: %w", err)
	}
	boot := &Boot{Files: map[string]string{}}
	for _, f := range doc.Storage.Files {
		content, err := f.Contents.content()
		if err != nil {
			return nil, fmt.Errorf("reading Ignition document: file %s: %w", f.Path, err)
		}
		boot.Files[f.Path] = string(content)
	}
	for _, u := range doc.Systemd.Units {
		if u.Contents != "" {
			boot.Files[unitFolder+u.Name] = u.Contents
		}
		if u.Enabled {
			boot.Units = append(boot.Units, u.Name)
		}
	}
	boot.Hostname = strings.TrimSpace(boot.Files[hostnameFile])
	return boot, nil
}
