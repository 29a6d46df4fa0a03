package bootstrap

import (
	"encoding/pem"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// Site holds the operator's settings for every node. The zero value sets nothing. User data that drover did not write
// (overwriteCloudConfig, a class's Secret, operating-system-manager) does not use it.
type Site struct {
	// HTTPProxy is the URL of the proxy for downloads, packages and images. NoProxy lists the hosts that are reached without the proxy,
	// separated by commas. The kubelet itself connects to the API server without a proxy.
	HTTPProxy, NoProxy string
	// RegistryMirrors are tried in the order of the list, before the registry itself. Each is registry=URL, or only a URL for
	// docker.io. The path of a URL is the whole prefix of the registry's API on the mirror.
	RegistryMirrors []string
	// InsecureRegistries are hosts whose certificates are not checked.
	InsecureRegistries []string
	// PauseImage replaces the container runtime's image of a pod's sandbox.
	PauseImage string
	// CABundle holds certificates, in PEM form, that the whole system trusts.
	CABundle []byte
	// ContainerdVersion, RuncVersion and CNIPluginsVersion are the versions to install on an image without these programs. Default:
	// DefaultContainerd, DefaultRunc, DefaultCNIPlugins.
	ContainerdVersion, RuncVersion, CNIPluginsVersion string
	// Packages are installed on Ubuntu when they are missing, such as the tools that mount NFS volumes. A node also joins when its
	// packages cannot be installed.
	Packages []string
}

var (
	// plain matches what an environment file, a TOML string and a unit may contain without quoting.
	plain     = regexp.MustCompile(`^[A-Za-z0-9._~:/?#@!&*+,;=%\[\]-]*$`)
	imageName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/@-]*$`)
	// packageName is Debian's rule for the name of a package.
	packageName = regexp.MustCompile(`^[a-z0-9][a-z0-9+.-]+$`)
	hostName    = regexp.MustCompile(`^(\[[0-9A-Fa-f:]+\]|[A-Za-z0-9][A-Za-z0-9.-]*)(:[0-9]{1,5})?$`)
)

// Check returns an error that lists every invalid setting, or that names the largest one of settings that are too large together.
func (s *Site) Check() error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if s.HTTPProxy != "" {
		if u, err := url.Parse(s.HTTPProxy); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || !plain.MatchString(s.HTTPProxy) {
			wrong("the nodes' HTTP proxy is not a URL such as http://proxy.example:3128")
		}
	}
	if !plain.MatchString(s.NoProxy) {
		wrong("the nodes' list of hosts without proxy %q must have host names, domains and networks, separated by commas, and no white space", s.NoProxy)
	}
	_, err := s.registries()
	errs = append(errs, err)
	if s.PauseImage != "" && !imageName.MatchString(s.PauseImage) {
		wrong("the nodes' pause image %q is not an image such as registry.example/pause:3.10", s.PauseImage)
	}
	errs = append(errs,
		checkVersion("containerd", s.ContainerdVersion, DefaultContainerd),
		checkVersion("runc", s.RuncVersion, DefaultRunc),
		checkVersion("CNI plugins", s.CNIPluginsVersion, DefaultCNIPlugins))
	if i := slices.IndexFunc(s.Packages, func(name string) bool { return !packageName.MatchString(name) }); i >= 0 {
		wrong("the nodes' package %q is not the name of a Debian package such as nfs-common", s.Packages[i])
	}
	_, err = s.certificates()
	if err := errors.Join(append(errs, err)...); err != nil {
		return err
	}
	tooLarge := s.TooLargeFor()
	if len(tooLarge) < len(systems) {
		return nil
	}
	return errors.Join(tooLarge["ubuntu"], tooLarge["flatcar"])
}

// certificates splits the CA bundle into single certificates, because the operating systems' tools expect one certificate per file.
func (s *Site) certificates() ([]string, error) {
	var out []string
	for rest := s.CABundle; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			if len(strings.TrimSpace(string(rest))) > 0 {
				return nil, errors.New("the nodes' CA bundle has something other than certificates in PEM form")
			}
			return out, nil
		}
		if block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("the nodes' CA bundle has a %s: it may have certificates only", block.Type)
		}
		out = append(out, string(pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: block.Bytes})))
	}
}

// proxy returns the environment variables for every program that downloads; empty without a proxy. Local addresses are never reached
// through the proxy.
func (s *Site) proxy(apiServer string) string {
	if s.HTTPProxy == "" {
		return ""
	}
	direct := []string{"localhost", "127.0.0.1", "::1", "169.254.169.254"}
	if u, err := url.Parse(apiServer); err == nil && u.Hostname() != "" {
		direct = append(direct, u.Hostname())
	}
	if s.NoProxy != "" {
		direct = append(direct, s.NoProxy)
	}
	var out strings.Builder
	// Flatcar's update-engine reads ALL_PROXY and none of the other variables.
	for _, name := range []string{"ALL_PROXY", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"} {
		value := s.HTTPProxy
		if name == "NO_PROXY" {
			value = strings.Join(direct, ",")
		}
		out.WriteString(assign(name, value) + assign(strings.ToLower(name), value))
	}
	return out.String()
}

// assign returns a line that assigns a value to an environment variable. A shell and systemd read the line in the same way, because no
// character has a special meaning between single quotes. Values with quotes or line ends were refused earlier (see [Site.Check] and
// [Input.check]).
func assign(name, value string) string { return name + "='" + value + "'\n" }
