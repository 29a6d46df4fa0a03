package bootstrap

import (
	"embed"
	"fmt"
	"strings"
)

// Paths on the server. The kubelet's are those that its own documentation uses.
const (
	pathBootstrap = "/etc/kubernetes/bootstrap-kubelet.conf"
	pathCA        = "/etc/kubernetes/pki/ca.crt"
	pathConfig    = "/var/lib/kubelet/config.yaml"
	pathArgs      = "/etc/default/kubelet"
	pathSettings  = "/etc/drover/setup.env"
	pathSetup     = "/opt/drover/setup"
)

//go:embed files
var static embed.FS

// file is one file on the server's disk.
type file struct {
	path    string
	mode    int
	content string
}

// unit is a systemd unit that is started at boot.
type unit struct{ name, content string }

// document is a first boot, whatever the format it is written in.
type document struct {
	files []file
	units []unit
}

// document puts together what every operating system gets.
func (in *Input) document() (*document, error) {
	config, err := in.kubeletConfig()
	if err != nil {
		return nil, fmt.Errorf("writing the kubelet's configuration: %w", err)
	}
	kubeconfig, err := in.bootstrapKubeconfig()
	if err != nil {
		return nil, fmt.Errorf("writing the bootstrap kubeconfig: %w", err)
	}
	d := &document{files: []file{
		{pathBootstrap, 0o600, string(kubeconfig)},
		{pathCA, 0o644, string(in.CA)},
		{pathConfig, 0o600, string(config)},
		{pathArgs, 0o644, in.kubeletArgs()},
		{pathSettings, 0o644, in.settings()},
	}}
	for _, s := range []file{
		{"/etc/modules-load.d/kubernetes.conf", 0o644, "modules.conf"},
		{"/etc/sysctl.d/90-kubernetes.conf", 0o644, "sysctl.conf"},
		{"/opt/drover/containerd.service", 0o644, "containerd.service"},
		{pathSetup, 0o755, "setup.sh"},
	} {
		content, err := static.ReadFile("files/" + s.content)
		if err != nil {
			return nil, fmt.Errorf("reading the built-in file %s: %w", s.content, err)
		}
		d.files = append(d.files, file{s.path, s.mode, string(content)})
	}
	for _, name := range []string{"drover-setup.service", "kubelet.service"} {
		content, err := static.ReadFile("files/" + name)
		if err != nil {
			return nil, fmt.Errorf("reading the built-in unit %s: %w", name, err)
		}
		d.units = append(d.units, unit{name, string(content)})
	}
	return d, nil
}

// settings is the environment of the setup script: all that differs from machine to machine.
func (in *Input) settings() string {
	return fmt.Sprintf("KUBELET_VERSION=%s\nCONTAINERD_VERSION=%s\nRUNC_VERSION=%s\nCNI_PLUGINS_VERSION=%s\nPROVIDER_ID_PREFIX=%s\n",
		strings.TrimPrefix(in.KubeletVersion, "v"), containerdVersion, runcVersion, cniPluginsVersion, in.ProviderIDPrefix)
}

// What is installed on an image that does not hold it.
const (
	containerdVersion = "2.1.4"
	runcVersion       = "1.3.0"
	cniPluginsVersion = "1.7.1"
)
