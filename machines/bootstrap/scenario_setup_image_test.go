package bootstrap

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/drover-project/drover/test/kubelet"
)

func TestCloudInitStopsTheKubeletOfTheImageBeforeItWritesFiles(t *testing.T) {
	sent, err := input("ubuntu", "{}").Render()
	if err != nil {
		t.Fatal(err)
	}
	userData, err := kubelet.Decompress(sent)
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		BootCmd [][]string `json:"bootcmd"`
	}
	if err := yaml.Unmarshal(userData, &doc); err != nil {
		t.Fatal(err)
	}
	// cloud-init runs bootcmd before write_files, at every boot.
	if len(doc.BootCmd) != 1 || len(doc.BootCmd[0]) < 4 || !slices.Equal(doc.BootCmd[0][:2], []string{"cloud-init-per", "instance"}) {
		t.Fatalf("bootcmd is %q, want one command for the first boot only (F-151)", doc.BootCmd)
	}
	for name, result := range map[string]string{
		"stops the kubelet of the image (F-151)":               "exit 0\n",
		"succeeds on an image without kubelet.service (F-151)": "exit 5\n",
	} {
		t.Run("the first boot "+name, func(t *testing.T) {
			h := newHost(t, input("ubuntu", "{}"))
			h.program("bin/systemctl", "#!/bin/bash\necho \"$*\" >>"+h.path("commands")+"\n"+result)
			c := exec.CommandContext(t.Context(), "/bin/"+doc.BootCmd[0][3], doc.BootCmd[0][4:]...)
			c.Env = []string{"PATH=" + h.path("bin")}
			if out, err := c.CombinedOutput(); err != nil || h.content("commands") != "stop kubelet.service\n" {
				t.Errorf("error %v, printed %s, called %q", err, out, h.content("commands"))
			}
		})
	}
}

func TestTheSetupScriptFindsTheServersUUIDWithoutTheMetadataService(t *testing.T) {
	const product, uuid = "/sys/class/dmi/id/product_name", "/sys/class/dmi/id/product_uuid"
	const drive = "/run/drover/config-drive/openstack/latest/meta_data.json"
	document := `{"uuid": "` + hostID + `"}`
	for name, tc := range map[string]struct {
		files     map[string]string
		cloudInit string // the answer of cloud-init query; empty when the image has no cloud-init
		fails     bool
	}{
		"on a config drive with the label config-2":                                         {map[string]string{"/dev/disk/by-label/config-2": "", drive: document}, "", false},
		"on a config drive with the label CONFIG-2 (F-158)":                                 {map[string]string{"/dev/disk/by-label/CONFIG-2": "", drive: document}, "", false},
		"in what cloud-init has read (F-158)":                                               {nil, hostID, false},
		"in the firmware of a server of Nova (F-158)":                                       {map[string]string{product: "OpenStack Nova\n", uuid: hostID + "\n"}, "iid-datasource-none", false},
		"in the firmware, in capital letters (F-158)":                                       {map[string]string{product: "OpenStack Compute\n", uuid: strings.ToUpper(hostID) + "\n"}, "", false},
		"nowhere, when cloud-init has no UUID and the firmware is not that of Nova (F-158)": {map[string]string{product: "PowerEdge R650\n", uuid: hostID + "\n"}, "i-00000a1b", true},
	} {
		t.Run("the setup finds the server's UUID "+name, func(t *testing.T) {
			h := newHost(t, input("ubuntu", "{}"))
			h.whole()
			h.must(os.Remove(h.path("web/meta_data.json")))
			for path, content := range tc.files {
				h.write(path, content)
			}
			if tc.cloudInit != "" {
				h.program("bin/cloud-init", "#!/bin/bash\n[[ $* != 'query v1.instance_id' ]] || echo "+tc.cloudInit+"\n")
			}
			out, err := h.run(pathSetup)
			if tc.fails {
				if err == nil || !strings.Contains(out, "the setup failed: neither the metadata service, a config drive, cloud-init nor the firmware names this server\n") {
					t.Errorf("error %v, printed:\n%s", err, out)
				}
				return
			}
			if err != nil || h.content("/run/drover/provider-id.env") != providerEnv {
				t.Errorf("error %v, provider ID %q", err, h.content("/run/drover/provider-id.env"))
			}
		})
	}
}

func TestAServerWhoseImageWasMadeOfANodeBecomesANodeOfItsOwn(t *testing.T) {
	const certificate, kubeconfig, record = "/var/lib/kubelet/pki/kubelet-client-current.pem", "/var/lib/kubelet/kubeconfig", "/var/lib/drover/server-id"
	const other = "11111111-2222-4333-8444-555555555555"
	h := newHost(t, input("ubuntu", "{}"))
	h.whole()
	for path, content := range map[string]string{certificate: "old", kubeconfig: "old", record: other + "\n", "/var/lib/drover/owner": "another server\n"} {
		h.write(path, content)
	}
	h.must(os.Rename(h.path("web/meta_data.json"), h.path("web/later")))
	t.Run("the setup does not use the record of the other server (F-158)", func(t *testing.T) {
		if _, err := h.setup(); err == nil {
			t.Errorf("the server is set up as %q", h.content("/run/drover/provider-id.env"))
		}
	})
	h.must(os.Rename(h.path("web/later"), h.path("web/meta_data.json")))
	t.Run("the kubelet has no certificate of the other node (F-158)", func(t *testing.T) {
		if _, err := h.setup(); err != nil || h.content("/run/drover/provider-id.env") != providerEnv {
			t.Errorf("error %v, provider ID %q", err, h.content("/run/drover/provider-id.env"))
		}
		for _, path := range []string{certificate, kubeconfig} {
			if _, err := os.Stat(h.path(path)); err == nil {
				t.Errorf("%s is that of the other node", path)
			}
		}
	})
	t.Run("the setup keeps the certificate and the record of this server at the next boot (F-158)", func(t *testing.T) {
		h.write(certificate, "own")
		h.must(os.Remove(h.path("web/meta_data.json")))
		if _, err := h.setup(); err != nil || h.content(certificate) != "own" || h.content("/run/drover/provider-id.env") != providerEnv {
			t.Errorf("error %v, certificate %q, provider ID %q", err, h.content(certificate), h.content("/run/drover/provider-id.env"))
		}
	})
}

func TestPodsGetTheDNSServersOfTheImage(t *testing.T) {
	const resolved, manager, plain = "/run/systemd/resolve/resolv.conf", "/run/NetworkManager/no-stub-resolv.conf", "/etc/resolv.conf"
	for name, tc := range map[string]struct {
		files []string
		want  string // the file that the kubelet reads; empty when it is an empty file
	}{
		"systemd-resolved":        {[]string{resolved, manager, plain}, resolved},
		"NetworkManager (F-160)":  {[]string{manager, plain}, manager},
		"neither of them (F-160)": {[]string{plain}, plain},
		"no DNS at all (F-160)":   {nil, ""},
	} {
		t.Run("pods get the DNS servers of an image with "+name, func(t *testing.T) {
			h := newHost(t, input("ubuntu", "{}"))
			h.whole()
			for _, path := range tc.files {
				h.write(path, "nameserver 192.0.2.1 # "+path)
			}
			for range 2 {
				if _, err := h.setup(); err != nil {
					t.Fatal(err)
				}
			}
			want := ""
			if tc.want != "" {
				want = "nameserver 192.0.2.1 # " + tc.want
			}
			if got := h.content("/run/drover/resolv.conf"); got != want || !strings.Contains(h.content("/var/lib/kubelet/config.yaml"), "resolvConf: "+h.path("/run/drover/resolv.conf")+"\n") {
				t.Errorf("the kubelet reads %q, want %q", got, want)
			}
		})
	}
	t.Run("an image without systemd-resolved cannot have network.dns.servers (F-160)", func(t *testing.T) {
		h := newHost(t, siteInput("ubuntu"))
		h.whole()
		h.must(os.MkdirAll(h.path("/usr/local/share/ca-certificates"), 0o755))
		h.program("bin/systemctl", "#!/bin/bash\n[[ $* != *systemd-resolved.service ]]\n")
		out, err := h.run(pathSetup)
		if err == nil || !strings.Contains(out, "the setup failed: network.dns.servers is for systemd-resolved, which does not run on this image\n") {
			t.Errorf("error %v, printed\n%s", err, out)
		}
	})
}

func TestTheSetupScriptUpgradesThePackagesBeforeTheKubeletStarts(t *testing.T) {
	const upgrade = " dist-upgrade --yes"
	for name, tc := range map[string]struct {
		apt    string // what apt-get does
		node   bool   // the setup ends with a node, not with a reboot
		first  int    // upgrades at the first boot
		second int    // upgrades at the second boot
		files  []string
	}{
		"once, when that succeeds (F-160)":                                 {"exit 0\n", true, 1, 0, nil},
		"three times, and again at the next boot, when that fails (F-160)": {"exit 100\n", true, 3, 3, nil},
		"once, when only a source of packages is broken (F-160)":           {"[[ $* != *update ]] || exit 100\n", true, 1, 0, nil},
		"and reboots when that is required (F-160)":                        {"exit 0\n", false, 1, 0, []string{"/run/reboot-required"}},
	} {
		t.Run("the setup upgrades the packages "+name, func(t *testing.T) {
			in := siteInput("ubuntu")
			in.Provider.OperatingSystemSpec.Raw = []byte(`{"distUpgradeOnBoot": true}`)
			h := newHost(t, in)
			h.whole()
			h.must(os.MkdirAll(h.path("/usr/local/share/ca-certificates"), 0o755))
			// The shutdown ends the setup while it sleeps.
			h.program("bin/sleep", "#!/bin/bash\n[[ $1 != infinity ]]\n")
			h.aptGet(tc.apt)
			for _, path := range tc.files {
				h.write(path, "")
			}
			out, err := h.run(pathSetup)
			if _, missing := os.Stat(h.path("/run/drover/provider-id.env")); (err == nil) != tc.node || (missing == nil) != tc.node {
				t.Fatalf("error %v, provider ID %v:\n%s", err, missing, out)
			}
			first := h.content("commands")
			if trust := strings.Index(first, "update-ca-certificates"); trust < 0 || trust > strings.Index(first, upgrade) || strings.Index(first, "systemd-resolved") > strings.Index(first, upgrade) {
				t.Errorf("the upgrade does not have the site's certificates and DNS:\n%s", first)
			}
			if strings.Contains(first, "systemctl reboot") == tc.node || strings.Count(first, upgrade) != tc.first {
				t.Errorf("commands:\n%s", first)
			}
			if _, err := h.run(pathSetup); err != nil || strings.Count(strings.TrimPrefix(h.content("commands"), first), upgrade) != tc.second {
				t.Errorf("the second boot, error %v:\n%s", err, h.content("commands"))
			}
		})
	}
}

func TestTheSetupScriptWaitsForCloudInitBeforeAReboot(t *testing.T) {
	for name, later := range map[string]bool{
		"waits for cloud-init, which has other tasks at the first boot (F-160)":              false,
		"does not wait for cloud-init at later boots, where cloud-init waits for it (F-160)": true,
	} {
		t.Run("a setup that reboots the server "+name, func(t *testing.T) {
			in := input("ubuntu", `{"distUpgradeOnBoot": true}`)
			h := newHost(t, in)
			h.whole()
			h.program("bin/cloud-init", "#!/bin/bash\necho cloud-init \"$@\" >>"+h.path("commands")+"\n")
			h.program("bin/sleep", "#!/bin/bash\n[[ $1 != infinity ]]\n")
			if later { // the upgrade of the first boot has failed
				h.aptGet("exit 100\n")
				if _, err := h.setup(); err != nil {
					t.Fatal(err)
				}
			}
			h.aptGet("")
			h.write("/run/reboot-required", "")
			if _, err := h.setup(); err == nil || !strings.Contains(h.content("commands"), "systemctl reboot\n") {
				t.Fatalf("the setup does not wait for the reboot: error %v", err)
			}
			if strings.Contains(h.content("commands"), "cloud-init status --wait\n") == later {
				t.Errorf("commands:\n%s", h.content("commands"))
			}
		})
	}
}
