package bootstrap

import "fmt"

// cloudConfig is a cloud-init document with the modules that drover uses.
type cloudConfig struct {
	Apt               *aptConfig  `yaml:"apt,omitempty"`
	BootCmd           [][]string  `yaml:"bootcmd"`
	Hostname          string      `yaml:"hostname"`
	ManageEtcHosts    string      `yaml:"manage_etc_hosts"`
	RunCmd            [][]string  `yaml:"runcmd"`
	SSHAuthorizedKeys []string    `yaml:"ssh_authorized_keys,omitempty"`
	WriteFiles        []writeFile `yaml:"write_files"`
}

// aptConfig holds apt's proxies. They are used for all downloads of packages, not only for those of cloud-init.
type aptConfig struct {
	HTTPProxy  string `yaml:"http_proxy"`
	HTTPSProxy string `yaml:"https_proxy"`
}

type writeFile struct {
	Content     string `yaml:"content"`
	Path        string `yaml:"path"`
	Permissions string `yaml:"permissions"`
}

// cloudConfig returns the cloud-init document for Ubuntu.
func (in *Input) cloudConfig(d *document) ([]byte, error) {
	c := cloudConfig{Hostname: in.Name, ManageEtcHosts: "localhost", SSHAuthorizedKeys: in.sshKeys()}
	if proxy := in.Site.HTTPProxy; proxy != "" {
		c.Apt = &aptConfig{HTTPProxy: proxy, HTTPSProxy: proxy}
	}
	enable := []string{"systemctl", "enable"}
	start := []string{"systemctl", "start", "--no-block"}
	for _, f := range d.files {
		c.WriteFiles = append(c.WriteFiles, writeFile{f.content, f.path, fmt.Sprintf("%04o", f.mode)})
	}
	for _, u := range d.units {
		c.WriteFiles = append(c.WriteFiles, writeFile{u.content, "/etc/systemd/system/" + u.name, "0644"})
		enable, start = append(enable, u.name), append(start, u.name)
	}
	// The kubelet of an image that starts one at boot must not read the files below: it would join before the setup. cloud-init runs this
	// before it writes files. The program that cloud-init has for it runs this at the first boot only.
	c.BootCmd = [][]string{{"cloud-init-per", "instance", "drover-kubelet", "sh", "-c", "systemctl stop kubelet.service || true"}}
	// cloud-init starts the units without waiting for them: the setup may take minutes, and cloud-init has other tasks.
	c.RunCmd = [][]string{{"systemctl", "daemon-reload"}, enable, start}
	body, err := toYAML(c)
	if err != nil {
		return nil, fmt.Errorf("writing cloud-config: %w", err)
	}
	return append([]byte("#cloud-config\n"), body...), nil
}
