package bootstrap

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// aptGet returns an apt-get that records its commands and then runs a script.
func (h *host) aptGet(script string) {
	h.program("bin/apt-get", "#!/bin/bash\necho apt-get \"$@\" >>"+h.path("commands")+"\n"+script)
}

func TestPackagesThatTheOperatorListsAreInstalledOnServers(t *testing.T) {
	const install = "install --yes --no-install-recommends "
	for name, tc := range map[string]struct {
		installed []string
		apt       string
		want      []string // the packages that are tried
		fails     string   // the packages that drover-packages.service reports, and tries again
	}{
		"missing packages are installed (F-41)":                                   {[]string{"nfs-common"}, "", []string{"cifs-utils"}, ""},
		"apt-get installs nothing when all packages are already installed (F-41)": {[]string{"nfs-common", "cifs-utils"}, "", nil, ""},
		"packages that cannot be installed fail the unit, and not the node (F-41, F-159)": {
			nil, "exit 100\n", []string{"nfs-common", "cifs-utils"}, "nfs-common cifs-utils",
		},
		"a package that does not exist keeps no other one away, and is named (F-159)": {
			nil, "[[ $* != *nfs-common* ]] || exit 100\n", []string{"nfs-common", "cifs-utils"}, "nfs-common",
		},
		"a broken source of packages keeps none away (F-159)": {
			nil, "[[ $* != *update ]] || exit 100\n", []string{"nfs-common", "cifs-utils"}, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			in := input("ubuntu", "{}")
			in.Site.Packages = []string{"nfs-common", "cifs-utils"}
			h := newHost(t, in)
			h.whole()
			for _, p := range tc.installed {
				h.write("packages/"+p, "")
			}
			h.aptGet(tc.apt)
			if _, err := h.setup(); err != nil || strings.Contains(h.content("commands"), install) {
				t.Fatalf("the setup did not end, or the kubelet waits for packages: %v\n%s", err, h.content("commands"))
			}
			out, err := h.run(pathSetup, "packages")
			if failed := "installing " + tc.fails + " failed: drover-packages.service tries again\n"; (err != nil) != (tc.fails != "") || tc.fails != "" && !strings.Contains(out, failed) {
				t.Errorf("error %v, printed:\n%s", err, out)
			}
			var tried []string
			for line := range strings.Lines(h.content("commands")) {
				if _, packages, found := strings.Cut(line, install); found {
					tried = append(tried, strings.TrimSpace(packages))
				}
			}
			if !slices.Equal(tried, tc.want) {
				t.Errorf("apt-get was asked for %q, want %q", tried, tc.want)
			}
		})
	}
	t.Run("the unit that installs the packages tries again after a failure (F-159)", func(t *testing.T) {
		unit, err := static.ReadFile("files/drover-packages.service")
		if err != nil || !strings.Contains(string(unit), "Restart=on-failure\n") || !strings.Contains(string(unit), "StartLimitIntervalSec=0\n") {
			t.Errorf("error %v, the unit is\n%s", err, unit)
		}
	})
}

func TestTheSetupScriptWaitsForAptsLocksAndSurvivesABrokenSource(t *testing.T) {
	const held = "echo 'E: Could not get lock /var/lib/apt/lists/lock. It is held by process 4711 (apt-get)' >&2; exit 100; }\n"
	for name, tc := range map[string]struct {
		apt   string
		waits int
		want  string // what the setup prints when it fails; empty when it succeeds
	}{
		"waits while another process has the lock of the lists (F-159)": {
			"[[ -e $0.free ]] || { [[ ! -e $0.busy ]] || mv $0.busy $0.free; echo >>$0.busy; " + held, 2, "",
		},
		"gives up after five minutes, and names the process that has the lock (F-159)": {
			"{ " + held, 58, "held by process 4711 (apt-get)\nthe setup failed: installing socat failed\n",
		},
		"installs packages in spite of a broken source (F-159)": {"[[ $* != *update ]] || exit 100\n", 0, ""},
		"names packages that cannot be installed (F-159)":       {"exit 100\n", 0, "the setup failed: installing socat failed\n"},
	} {
		t.Run("the setup "+name, func(t *testing.T) {
			h := newHost(t, input("ubuntu", "{}"))
			h.whole()
			h.must(os.Remove(h.path("bin/socat")))
			h.aptGet(tc.apt)
			out, err := h.run(pathSetup)
			if (err != nil) != (tc.want != "") || !strings.Contains(out, tc.want) {
				t.Errorf("error %v, printed:\n%s", err, out)
			}
			if n := strings.Count(h.content("commands"), "sleep 10\n"); n != tc.waits {
				t.Errorf("the setup waited %d times for 10 s, want %d", n, tc.waits)
			}
		})
	}
}
