package bootstrap

import (
	"encoding/base64"
	"encoding/json"
	"fmt"

	ignition "github.com/coreos/ignition/v2/config/v3_4"
	types "github.com/coreos/ignition/v2/config/v3_4/types"
	"github.com/vincent-petithory/dataurl"
	"k8s.io/utils/ptr"
)

// contents is a form in which an Ignition document contains a file.
type contents func(file string) types.Resource

// plainContents returns a file as readable text.
func plainContents(file string) types.Resource {
	return types.Resource{Source: ptr.To(dataurl.EncodeBytes([]byte(file)))}
}

// smallContents returns a file in the shorter form: as text, or compressed.
func smallContents(file string) types.Resource {
	plain := plainContents(file)
	small := "data:;base64," + base64.StdEncoding.EncodeToString(compressed([]byte(file)))
	if len(small) < len(*plain.Source) {
		return types.Resource{Source: &small, Compression: ptr.To("gzip")}
	}
	return plain
}

// ignition returns the Ignition document for Flatcar, with its files in the given form.
func (in *Input) ignition(d *document, form contents) ([]byte, error) {
	spec, err := in.osSpec()
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
				Contents: form(f.content),
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
	return out, nil
}

// checkIgnition returns an error for a document that Ignition would refuse.
func checkIgnition(document []byte) error {
	if _, report, err := ignition.Parse(document); err != nil {
		return fmt.Errorf("checking the Ignition document: %w: %s", err, report.String())
	}
	return nil
}
