package bootstrap

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
)

const defaultRegistry = "docker.io"

// mirror is one host that serves the images of a registry.
type mirror struct {
	url string
	// override is true when the URL's path is the whole prefix of the registry's API, to which nothing is added.
	override bool
}

// registries returns the mirrors of each registry. A registry that is only listed as insecure has no mirrors.
func (s *Site) registries() (map[string][]mirror, error) {
	out := map[string][]mirror{}
	for _, host := range s.InsecureRegistries {
		if !hostName.MatchString(host) {
			return nil, fmt.Errorf("the nodes' insecure registry %q is not a host such as registry.example:5000", host)
		}
		out[host] = nil
	}
	for _, entry := range s.RegistryMirrors {
		registry, target, named := strings.Cut(entry, "=")
		if !named {
			registry, target = defaultRegistry, entry
		}
		if !strings.Contains(target, "://") {
			target = "https://" + target
		}
		u, err := url.Parse(target)
		if err != nil || !hostName.MatchString(u.Host) || u.Scheme != "http" && u.Scheme != "https" || u.User != nil ||
			!plain.MatchString(target) || !hostName.MatchString(registry) {
			return nil, fmt.Errorf("the nodes' registry mirror %q is not of the form registry=URL, such as docker.io=https://mirror.example", entry)
		}
		path := strings.TrimSuffix(u.Path, "/")
		out[registry] = append(out[registry], mirror{url: u.Scheme + "://" + u.Host + path, override: path != ""})
	}
	return out, nil
}

// registryFiles returns containerd's configuration of mirrors and insecure registries, one file per registry.
func (s *Site) registryFiles() ([]file, error) {
	registries, err := s.registries()
	if err != nil {
		return nil, err
	}
	var out []file
	for _, registry := range slices.Sorted(maps.Keys(registries)) {
		server := "https://" + registry
		if registry == defaultRegistry {
			server = "https://registry-1.docker.io"
		}
		var text strings.Builder
		fmt.Fprintf(&text, "server = %q\n", server)
		mirrors := registries[registry]
		if slices.Contains(s.InsecureRegistries, registry) {
			mirrors = append(slices.Clone(mirrors), mirror{url: server})
		}
		for _, m := range mirrors {
			fmt.Fprintf(&text, "\n[host.%q]\n  capabilities = [\"pull\", \"resolve\"]\n", m.url)
			if m.override {
				text.WriteString("  override_path = true\n")
			}
			if u, err := url.Parse(m.url); err == nil && slices.Contains(s.InsecureRegistries, u.Host) {
				text.WriteString("  skip_verify = true\n")
			}
		}
		out = append(out, file{pathRegistries + "/" + registry + "/hosts.toml", 0o644, text.String()})
	}
	return out, nil
}
