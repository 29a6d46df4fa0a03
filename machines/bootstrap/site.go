package bootstrap

import (
	"encoding/pem"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
)

// Site is what the operator sets for every node. The zero value sets nothing. User data of somebody else's making
// (overwriteCloudConfig, a class's Secret, operating-system-manager) takes nothing of it.
type Site struct {
	// HTTPProxy is the URL of the proxy for downloads, packages and images; NoProxy what is reached without it (comma
	// separated). The kubelet itself speaks to the API server without a proxy.
	HTTPProxy, NoProxy string
	// RegistryMirrors are tried before the registry itself, in order: registry=URL, or URL alone for docker.io. A URL
	// with a path is taken as the whole prefix of the registry's API there.
	RegistryMirrors []string
	// InsecureRegistries are hosts whose certificates are not checked.
	InsecureRegistries []string
	// PauseImage replaces the container runtime's image of a pod's sandbox.
	PauseImage string
	// CABundle are certificates, in PEM form, that the whole system trusts.
	CABundle []byte
	// ContainerdVersion is installed on an image without containerd. Default: 2.1.4.
	ContainerdVersion string
	// Packages are installed on Ubuntu where they are missing, such as the tools that mount NFS volumes. A node joins without
	// those that cannot be installed.
	Packages []string
	// FeatureGates of every kubelet; a Machine's annotations lie over them.
	FeatureGates map[string]bool
}

var (
	// plain is what may stand in an environment file, a TOML string and a unit without any quoting.
	plain     = regexp.MustCompile(`^[A-Za-z0-9._~:/?#@!&*+,;=%\[\]-]*$`)
	imageName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/@-]*$`)
	// packageName is Debian's rule for a package's name.
	packageName = regexp.MustCompile(`^[a-z0-9][a-z0-9+.-]+$`)
	hostName    = regexp.MustCompile(`^(\[[0-9A-Fa-f:]+\]|[A-Za-z0-9][A-Za-z0-9.-]*)(:[0-9]{1,5})?$`)
)

// Check says everything that is wrong, each with what it is about.
func (s *Site) Check() error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if s.HTTPProxy != "" {
		if u, err := url.Parse(s.HTTPProxy); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || !plain.MatchString(s.HTTPProxy) {
			wrong("the nodes' HTTP proxy is no URL such as http://proxy.example:3128")
		}
	}
	if !plain.MatchString(s.NoProxy) {
		wrong("the nodes' list without proxy %q: give host names, domains and networks, with commas and no white space", s.NoProxy)
	}
	if _, err := s.registries(); err != nil {
		errs = append(errs, err)
	}
	if s.PauseImage != "" && !imageName.MatchString(s.PauseImage) {
		wrong("the nodes' pause image %q is no image such as registry.example/pause:3.10", s.PauseImage)
	}
	if s.ContainerdVersion != "" {
		if _, err := version.ParseSemantic(s.ContainerdVersion); err != nil {
			wrong("the nodes' containerd version %q is no version such as 2.1.4", s.ContainerdVersion)
		}
	}
	errs = append(errs, s.checkPackages())
	if _, err := s.certificates(); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// checkPackages returns an error that names the first package whose name is none.
func (s *Site) checkPackages() error {
	for _, name := range s.Packages {
		if !packageName.MatchString(name) {
			return fmt.Errorf("the nodes' package %q is no name of a Debian package such as nfs-common", name)
		}
	}
	return nil
}

// certificates splits the CA bundle: the systems' tools want one certificate per file.
func (s *Site) certificates() ([]string, error) {
	var out []string
	for rest := s.CABundle; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			if len(strings.TrimSpace(string(rest))) > 0 {
				return nil, errors.New("the nodes' CA bundle holds something else than certificates in PEM form")
			}
			return out, nil
		}
		if block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("the nodes' CA bundle holds a %s: it may hold certificates only", block.Type)
		}
		out = append(out, string(pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: block.Bytes})))
	}
}

// proxy is the environment of everything that downloads; empty without a proxy. What is next to the server is never
// reached through it.
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
	// update-engine reads ALL_PROXY alone.
	for _, name := range []string{"ALL_PROXY", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"} {
		value := s.HTTPProxy
		if name == "NO_PROXY" {
			value = strings.Join(direct, ",")
		}
		out.WriteString(assign(name, value) + assign(strings.ToLower(name), value))
	}
	return out.String()
}

// assign is a line that a shell and systemd read alike: nothing is special between single quotes. What has quotes or
// line ends in it does not come here (see [Site.Check] and [Input.check]).
func assign(name, value string) string { return name + "='" + value + "'\n" }
