package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/drover-project/drover/deploy"
)

// arguments returns drover's arguments: those of deploy/deployment.yaml, with addresses and files of this machine instead of the
// pod's, the sandbox's certificates, a kubeconfig, and the options' own flags.
func (s *Sandbox) arguments(r *replica) ([]string, error) {
	args, err := deploy.Args()
	if err != nil {
		return nil, err
	}
	clouds := filepath.Join(s.Dir, "clouds.yaml")
	here := map[string]string{
		"--grpc-address": r.grpc, "--metrics-address": r.metrics, "--health-address": r.health, "--clouds-yaml": clouds,
	}
	// The sandbox issues the certificates, because the names of its servers are not those of a Service.
	out := []string{"--grpc-cert-dir=" + filepath.Dir(s.pki.ca)}
	for _, arg := range args {
		name, value, _ := strings.Cut(arg, "=")
		if name == "--grpc-secrets" {
			continue
		}
		if local, ok := here[name]; ok {
			arg = name + "=" + local
			delete(here, name)
		}
		if name == "--cloud" {
			if err := WriteClouds(clouds, value, credentials(s.Cloud, s.options.Password)); err != nil {
				return nil, err
			}
		}
		out = append(out, arg)
	}
	if len(here) > 0 {
		return nil, fmt.Errorf("starting drover as deployment.yaml does: it does not set %v", here)
	}
	out = append(out, "--kubeconfig="+s.droverConfig())
	if s.options.TwoClusters {
		out = append(out, "--target-kubeconfig="+s.targetConfig())
	}
	return append(out, s.options.DroverFlags...), nil
}

// WriteClouds writes a clouds.yaml with one cloud. variables are the environment variables that OpenStack's clients
// read (NAME=value).
func WriteClouds(path, name string, variables []string) error {
	auth, cloud := map[string]string{}, map[string]any{}
	for _, variable := range variables {
		key, value, _ := strings.Cut(strings.TrimPrefix(variable, "OS_"), "=")
		switch key = strings.ToLower(key); key {
		case "region_name", "identity_api_version":
			cloud[key] = value
		default:
			auth[key] = value
		}
	}
	cloud["auth"] = auth
	raw, err := yaml.Marshal(map[string]any{"clouds": map[string]any{name: cloud}})
	if err != nil {
		return fmt.Errorf("writing clouds.yaml: %w", err)
	}
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		return fmt.Errorf("writing clouds.yaml: %w", err)
	}
	return nil
}
