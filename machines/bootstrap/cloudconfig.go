package bootstrap

import (
	"fmt"
	"slices"
)

// cloudConfig is a cloud-init document with the modules that drover uses.
type cloudConfig struct {
	Hostname          string     `json:"hostname"`
	ManageEtcHosts    string     `json:"manage_etc_hosts"`
	SSHAuthorizedKeys []string   `json:"ssh_authorized_keys,omitempty"`
	Apt               *aptConfig `json:"apt,omitempty"`
	BootCmd           [][]string `json:"bootcmd"`
	RunCmd            [][]string `json:"runcmd"`
}

// aptConfig holds apt's proxies. They are used for all downloads of packages, not only for those of cloud-init.
type aptConfig struct {
	HTTPProxy  string `json:"http_proxy"`
	HTTPSProxy string `json:"https_proxy"`
}

type writeFile struct {
	Path        string `json:"path"`
	Permissions string `json:"permissions"`
	Content     string `json:"content"`
}

// cloudConfig returns the cloud-init document for Ubuntu.
func (in *Input) cloudConfig(d *document) ([]byte, error) {
	if _, err := in.ubuntuSpec(); err != nil {
		return nil, err
	}
	c := cloudConfig{Hostname: in.Name, ManageEtcHosts: "localhost", SSHAuthorizedKeys: in.sshKeys()}
	if proxy := in.Site.HTTPProxy; proxy != "" {
		c.Apt = &aptConfig{HTTPProxy: proxy, HTTPSProxy: proxy}
	}
	enable := []string{"systemctl", "enable"}
	start := []string{"systemctl", "start", "--no-block"}
	var written []writeFile
	for _, f := range d.files {
		written = append(written, writeFile{f.path, fmt.Sprintf("%04o", f.mode), f.content})
	}
	for _, u := range d.units {
		written = append(written, writeFile{"/etc/systemd/system/" + u.name, "0644", u.content})
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
	out := slices.Concat([]byte("#cloud-config\n"), body, []byte("write_files:\n"))
	for _, f := range written {
		entry, err := f.entry()
		if err != nil {
			return nil, fmt.Errorf("writing file %s into cloud-config: %w", f.Path, err)
		}
		out = append(out, entry...)
	}
	return out, nil
}

// entry returns the file as an entry of the list write_files, in YAML. It caches files that are the same for many Machines, but not those
// with the Machine's token or name.
func (f writeFile) entry() ([]byte, error) {
	if f.Path == pathBootstrap || f.Path == pathArgs {
		return toYAML([]writeFile{f})
	}
	return remembered(f, func() ([]byte, error) { return toYAML([]writeFile{f}) })
}
