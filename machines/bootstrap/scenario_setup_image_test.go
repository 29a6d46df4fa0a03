package bootstrap

import (
	"os/exec"
	"slices"
	"testing"

	"sigs.k8s.io/yaml"
)

func TestCloudInitStopsTheKubeletOfTheImageBeforeItWritesFiles(t *testing.T) {
	userData, err := input("ubuntu", "{}").Render()
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
