package bootstrap

import (
	"encoding/json"
	"fmt"

	ignition "github.com/coreos/ignition/v2/config/v3_4"
	types "github.com/coreos/ignition/v2/config/v3_4/types"
	"github.com/vincent-petithory/dataurl"
	"k8s.io/utils/ptr"
)

// ignition returns the Ignition document for Flatcar.
func (in *Input) ignition(d *document) ([]byte, error) {
	spec, err := in.flatcarSpec()
	if err != nil {
		return nil, err
	}
	c := types.Config{Ignition: types.Ignition{Version: types.MaxVersion.String()}}
	if keys := in.sshKeys(); len(keys) > 0 {
		core := types.PasswdUser{Name: "core"}
		for _, key := range keys {
			core.SSHAuthorizedKeys = append(core.SSHAuthorizedKeys, types.SSHAuthorizedKey(key))
		}
		c.Passwd.Users = []types.PasswdUser{core}
	}
	files := append([]file{{"/etc/hostname", 0o644, in.Name + "\n"}}, d.files...)
	updates := !spec.DisableAutoUpdate && !spec.DisableUpdateEngine
	if updates && in.Site.HTTPProxy != "" {
		files = append(files, file{"/etc/systemd/system/update-engine.service.d/zz-drover-proxy.conf", 0o644, proxyDropIn})
	}
	for _, f := range files {
		c.Storage.Files = append(c.Storage.Files, types.File{
			Node: types.Node{Path: f.path, Overwrite: ptr.To(true)},
			FileEmbedded1: types.FileEmbedded1{
				Mode:     ptr.To(f.mode),
				Contents: types.Resource{Source: ptr.To(dataurl.EncodeBytes([]byte(f.content)))},
			},
		})
	}
	for _, u := range d.units {
		c.Systemd.Units = append(c.Systemd.Units, types.Unit{Name: u.name, Enabled: ptr.To(true), Contents: ptr.To(u.content)})
	}
	if spec.DisableAutoUpdate || spec.DisableLocksmithD {
		c.Systemd.Units = append(c.Systemd.Units, types.Unit{Name: "locksmithd.service", Mask: ptr.To(true)})
	}
	if !updates {
		c.Systemd.Units = append(c.Systemd.Units, types.Unit{Name: "update-engine.service", Mask: ptr.To(true)})
	}
	out, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("writing the Ignition document: %w", err)
	}
	if _, report, err := ignition.Parse(out); err != nil {
		return nil, fmt.Errorf("checking the Ignition document: %w: %s", err, report.String())
	}
	return out, nil
}
