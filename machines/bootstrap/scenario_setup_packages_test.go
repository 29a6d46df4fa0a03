package bootstrap

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// aptGet installs an apt-get that records its commands and then runs a script.
func (h *host) aptGet(script string) {
	h.program("bin/apt-get", "#!/bin/bash\necho apt-get \"$@\" >>"+h.path("commands")+"\n"+script)
}

// clock returns a script that lets a number of seconds pass. The number may be an expression of bash.
func (h *host) clock(seconds string) string {
	file := h.path("/proc/uptime")
	return "read -r now idle <" + file + "; echo \"$((${now%.*} + " + seconds + ")).50 $idle\" >" + file + "\n"
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
			"{ " + held, 60, "held by process 4711 (apt-get)\nthe setup failed: installing socat failed\n",
		},
		"installs packages in spite of a broken source (F-159)": {"[[ $* != *update ]] || exit 100\n", 0, ""},
		"names packages that cannot be installed (F-159)":       {"exit 100\n", 0, "the setup failed: installing socat failed\n"},
	} {
		t.Run("the setup "+name, func(t *testing.T) {
			h := newHost(t, input("ubuntu", "{}"))
			h.whole()
			h.must(os.Remove(h.path("bin/socat")))
			h.aptGet(tc.apt)
			h.program("bin/sleep", "#!/bin/bash\necho sleep $1 >>"+h.path("commands")+"\n"+h.clock("$1"))
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

func TestTheSetupScriptWaitsFiveMinutesForDpkgsLock_F159(t *testing.T) {
	h := newHost(t, input("ubuntu", "{}"))
	h.whole()
	h.must(os.Remove(h.path("bin/socat")))
	// apt-get can wait for this lock itself, as long as the setup tells it to.
	h.aptGet("[[ $* != *update ]] || exit 0\nfor word; do [[ $word != DPkg::Lock::Timeout=* ]] || left=${word#*=}; done\n" + h.clock("left") +
		"echo 'E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 4711 (dpkg)' >&2\nexit 100\n")
	h.program("bin/sleep", "#!/bin/bash\n"+h.clock("$1"))
	if out, err := h.run(pathSetup); err == nil || !strings.Contains(out, "held by process 4711 (dpkg)\nthe setup failed: installing socat failed\n") {
		t.Errorf("error %v, printed:\n%s", err, out)
	}
	if got := h.content("/proc/uptime"); got != "400.50 90.25\n" {
		t.Errorf("the setup began at 100.50 and ended at %s", got)
	}
}

func TestTheSetupScriptCompletesWhatDpkgWasInterruptedAt(t *testing.T) {
	const configure = "dpkg --force-confdef --force-confold --configure -a\n"
	for name, dpkg := range map[string]string{
		"once another process has released dpkg's lock (F-160)": "[[ ! -e $0.busy ]] || { rm $0.busy; echo 'dpkg: error: dpkg frontend lock was locked by another process with pid 4711' >&2; exit 2; }\nrm -f $0.interrupted\n",
		"before apt's first use (F-160)":                        "rm -f $0.interrupted\n",
		"and prints why that is impossible (F-160)":             "rm -f $0.interrupted\necho 'dpkg: error processing package x' >&2\nexit 1\n",
		"and goes on after ten minutes (F-160)":                 "rm -f $0.interrupted\nexit 124\n",
	} {
		t.Run("the setup completes what a power cut interrupted "+name, func(t *testing.T) {
			h := newHost(t, input("ubuntu", "{}"))
			h.whole()
			h.must(os.Remove(h.path("bin/socat")))
			h.write("bin/dpkg.interrupted", "")
			h.write("bin/dpkg.busy", "")
			h.program("bin/dpkg", "#!/bin/bash\necho dpkg \"$@\" >>"+h.path("commands")+"\n"+dpkg)
			h.aptGet("[[ ! -e " + h.path("bin/dpkg.interrupted") + " ]] || { echo 'E: dpkg was interrupted' >&2; exit 100; }\n")
			out, err := h.run(pathSetup)
			calls := 1 + strings.Count(dpkg, "lock was locked")
			if err != nil || strings.Count(h.content("commands"), configure) != calls {
				t.Errorf("error %v, commands:\n%s", err, h.content("commands"))
			}
			if failed := strings.Contains(dpkg, "exit") && calls == 1; strings.Contains(out, "dpkg --configure -a failed: ") != failed || strings.Contains(dpkg, "package x") != strings.Contains(out, "dpkg: error processing package x\n") {
				t.Errorf("printed:\n%s", out)
			}
		})
	}
}

func TestAPackageThatRestartsTheKubeletDuringTheSetupDoesNotWaitForTheSetup(t *testing.T) {
	t.Run("nothing orders the kubelet after the setup, and it does not start before the setup's last file (F-160)", func(t *testing.T) {
		unit, err := static.ReadFile("files/kubelet.service")
		if err != nil {
			t.Fatal(err)
		}
		condition := false
		for line := range strings.Lines(string(unit)) {
			key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
			condition = condition || key == "ConditionPathExists" && value == "/run/drover/provider-id.env"
			if (key == "After" || key == "Requires" || key == "BindsTo") && strings.Contains(value, "drover-") {
				t.Errorf("the kubelet waits for the setup: %s", line)
			}
		}
		if !condition {
			t.Errorf("the kubelet starts before the setup has ended:\n%s", unit)
		}
	})
	for name, tc := range map[string]struct {
		broken, disabled, started bool
	}{
		"starts the kubelet as its last work (F-160)":             {false, false, true},
		"does not start the kubelet when the setup fails (F-160)": {true, false, false},
		"does not start a kubelet that somebody disabled (F-160)": {false, true, false},
	} {
		t.Run("the setup "+name, func(t *testing.T) {
			h := newHost(t, input("ubuntu", "{}"))
			h.whole()
			ready := h.path("/run/drover/provider-id.env")
			script := "#!/bin/bash\n[[ $1 != start || $* != *kubelet.service ]] || { [[ -e " + ready + " ]] && echo \"$@\" >>" + h.path("started") + "; }\n"
			if tc.disabled {
				script += "[[ $1 != is-enabled ]]\n"
			}
			h.program("bin/systemctl", script)
			if tc.broken {
				h.program("bin/modprobe", "#!/bin/bash\nexit 1\n")
			}
			for try := range 2 {
				if _, err := h.setup(); (err != nil) != (tc.broken && try == 0) {
					t.Fatalf("try %d: error %v", try, err)
				}
				if _, err := os.Stat(h.path("started")); (err == nil) != (tc.started || tc.broken && try == 1) {
					t.Errorf("try %d: the kubelet is started: %v", try, err == nil)
				}
				h.program("bin/modprobe", "#!/bin/bash\n")
			}
		})
	}
	t.Run("needrestart restarts no services for the setup (F-160)", func(t *testing.T) {
		h := newHost(t, input("ubuntu", "{}"))
		h.whole()
		h.must(os.Remove(h.path("bin/socat")))
		h.aptGet("[[ ${NEEDRESTART_SUSPEND-} == 1 ]]\n")
		if out, err := h.run(pathSetup); err != nil {
			t.Errorf("error %v, printed:\n%s", err, out)
		}
	})
}
