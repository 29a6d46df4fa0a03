package bootstrap

import (
	"os"
	"strings"
	"testing"

	"github.com/drover-project/drover/test/kubelet"
)

func TestTheSetupScriptSetsTheSysctlKeys(t *testing.T) {
	for name, tc := range map[string]struct {
		missing string
		want    string // a key that the setup must set; empty when the setup must fail
	}{
		"sets the sysctl keys of IPv6 on an image with IPv6":                      {"", "net/ipv6/conf/all/forwarding"},
		"succeeds on an image whose IPv6 is off (F-41)":                           {"net/ipv6", "net/ipv4/ip_forward"},
		"fails when a key that does not belong to IPv6 is missing (F-41)":         {"net/bridge/bridge-nf-call-iptables", ""},
		"fails when one IPv6 key is missing and the other IPv6 keys exist (F-41)": {"net/ipv6/conf/all/forwarding", ""},
	} {
		t.Run("the setup "+name, func(t *testing.T) {
			h := newHost(t, input("ubuntu", "{}"))
			h.whole()
			if tc.missing != "" {
				h.must(os.RemoveAll(h.path("/proc/sys/" + tc.missing)))
			}
			if _, err := h.run(pathSetup); (err == nil) != (tc.want != "") {
				t.Fatalf("error %v", err)
			}
			if got := h.content("/proc/sys/" + tc.want); tc.want != "" && got != "1\n" {
				t.Errorf("%s is %q", tc.want, got)
			}
		})
	}
}

func TestDownloadsOfTheSetupScriptAreLimitedInTime(t *testing.T) {
	h := newHost(t, input("ubuntu", "{}"))
	h.publishAll()
	h.must(os.Remove(h.path("bin/socat")))
	if _, err := h.setup(); err != nil {
		t.Fatal(err)
	}
	t.Run("every request of the setup has a time limit (F-41)", func(t *testing.T) {
		for line := range strings.Lines(h.content("requests")) {
			if !strings.Contains(line, "--max-time ") {
				t.Errorf("a request without a time limit: %s", line)
			}
		}
	})
	t.Run("a download that stalls or does not connect is retried for a limited time (F-41)", func(t *testing.T) {
		for line := range strings.Lines(h.content("requests")) {
			for _, flag := range []string{"--connect-timeout 15 ", "--speed-limit 1024 --speed-time 60 ", "--retry 10 ", "--retry-max-time 1800 "} {
				if strings.Contains(line, " https://") && !strings.Contains(line, flag) {
					t.Errorf("%s is missing: %s", flag, line)
				}
			}
		}
	})
	t.Run("package downloads of apt-get have a time limit (F-41)", func(t *testing.T) {
		if got := h.content("commands"); !strings.Contains(got, "Acquire::http::Timeout=30 -o Acquire::https::Timeout=30 install --yes --no-install-recommends socat\n") {
			t.Errorf("commands:\n%s", got)
		}
	})
}

func TestTheSetupScriptInstallsCurlBeforeTheDownloads_F41(t *testing.T) {
	h := newHost(t, input("ubuntu", "{}"))
	h.publishAll()
	// The stub of apt-get installs curl.
	h.must(os.Rename(h.path("bin/curl"), h.path("curl")))
	h.must(os.Symlink("/usr/bin/cp", h.path("bin/cp")))
	h.program("bin/apt-get", "#!/bin/bash\n[[ \" $* \" != *' curl '* ]] || cp "+h.path("curl")+" "+h.path("bin/curl")+"\n")
	if _, err := h.setup(); err != nil || h.content("/opt/bin/kubelet") != hostKubelet {
		t.Errorf("curl is not installed before the downloads: error %v", err)
	}
}

func TestTheWatchdogRestartsAHangingKubelet(t *testing.T) {
	const restart = "restart kubelet.service\n"
	for name, tc := range map[string]struct {
		certificate bool
		healthy     string // the results of twelve checks in order: y when the kubelet answers, n when it does not, s when it is stopped
		restarts    int
	}{
		"does not restart a kubelet that answers (F-41)":                          {true, "yyyyyyyyyyyy", 0},
		"restarts a kubelet after six failed checks in a row (F-41)":              {true, "yynnnnnnyyyy", 1},
		"restarts a kubelet again after six further failed checks (F-41)":         {true, "nnnnnnnnnnnn", 2},
		"counts failed checks from 0 again after an answer of the kubelet (F-41)": {true, "nnnnnynnnnny", 0},
		"does not restart a kubelet that waits for its certificate (F-41)":        {false, "nnnnnnnnnnnn", 0},
		"does not start a kubelet that somebody stopped (F-160)":                  {true, "yyssssssssss", 0},
		"counts from 0 again after a stopped kubelet is started (F-160)":          {true, "nnnnnsnnnnns", 0},
	} {
		t.Run("the watchdog "+name, func(t *testing.T) {
			h := newHost(t, input("flatcar", "{}"))
			if tc.certificate {
				h.write("/var/lib/kubelet/pki/kubelet-client-current.pem", "x")
			}
			h.write("looks", tc.healthy)
			// The watchdog calls sleep between two checks. This stub selects the result of the next check; after the last check it
			// fails, which ends the watchdog.
			h.program("bin/sleep", "#!/bin/bash\nlooks=$(<"+h.path("looks")+")\n[[ $looks ]] || exit 1\necho \"${looks:0:1}\" >"+h.path("answer")+"\necho \"${looks:1}\" >"+h.path("looks")+"\n")
			h.program("bin/curl", "#!/bin/bash\n[[ $(<"+h.path("answer")+") == y ]]\n")
			h.program("bin/systemctl", "#!/bin/bash\n[[ $1 != is-active ]] || { [[ $(<"+h.path("answer")+") != s ]]; exit; }\necho systemctl \"$@\" >>"+h.path("commands")+"\n")
			if _, err := h.run(pathWatchdog); err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(h.content("commands"), restart); n != tc.restarts {
				t.Errorf("%d restarts, want %d", n, tc.restarts)
			}
		})
	}
}

func TestUserDataHasTheSameSettingsAsThatOfOperatingSystemManager(t *testing.T) {
	const dropIn = "/etc/systemd/system/update-engine.service.d/zz-drover-proxy.conf"
	for name, tc := range map[string]struct {
		system, path string
		parts        []string
		absent       string
	}{
		"the kubelet pulls images in parallel, at most ten at once (F-41)":                         {"ubuntu", kubelet.ConfigFile, []string{"serializeImagePulls: false\n", "maxParallelImagePulls: 10\n"}, "volumePluginDir"},
		"the folder for the kubelet's volume plugins is outside of /usr on Flatcar (F-41)":         {"flatcar", kubelet.ConfigFile, []string{"volumePluginDir: /var/lib/kubelet/volumeplugins\n"}, ""},
		"a container's log file may grow to 100 MiB (F-41)":                                        {"ubuntu", kubelet.ConfigFile, []string{"containerLogMaxSize: 100Mi\n"}, ""},
		"Flatcar's update-engine reads its proxy from the file proxy.env (F-41)":                   {"flatcar", dropIn, []string{"EnvironmentFile=/etc/drover/proxy.env\n"}, ""},
		"the file proxy.env on Flatcar contains the proxy that the operator has configured (F-41)": {"flatcar", "/etc/drover/proxy.env", []string{"ALL_PROXY='http://user:pa55word@proxy.example:3128'\n"}, ""},
		"the packages to install on Ubuntu are those that the operator lists (F-41)":               {"ubuntu", pathSettings, []string{"PACKAGES='nfs-common cifs-utils'\n"}, ""},
		"the list of packages to install is empty on Flatcar (F-41)":                               {"flatcar", pathSettings, []string{"PACKAGES=''\n"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			in := siteInput(tc.system)
			userData, err := in.Render()
			if err != nil {
				t.Fatal(err)
			}
			boot, err := kubelet.ParseUserData(userData)
			if err != nil {
				t.Fatal(err)
			}
			for _, part := range tc.parts {
				if !strings.Contains(boot.Files[tc.path], part) {
					t.Errorf("%s has no %q:\n%s", tc.path, part, boot.Files[tc.path])
				}
			}
			if tc.absent != "" && strings.Contains(boot.Files[tc.path], tc.absent) {
				t.Errorf("%s has %q", tc.path, tc.absent)
			}
		})
	}
}

func TestTheSetupScriptRaisesKernelSettingsOnlyAndLeavesTheLastWordToTheOperator(t *testing.T) {
	const watches = "fs/inotify/max_user_watches"
	for name, tc := range map[string]struct{ before, operator, want string }{
		"raises a number of watches that is too small (F-160)":     {"8192", "", "524288\n"},
		"keeps a number of watches that is larger (F-160)":         {"1048576", "", "1048576\n"},
		"leaves the operator's 99-site.conf the last word (F-160)": {"1048576", "100000", "100000\n"},
	} {
		t.Run("the setup "+name, func(t *testing.T) {
			h := newHost(t, input("ubuntu", "{}"))
			h.whole()
			h.write("/proc/sys/"+watches, tc.before)
			if tc.operator != "" { // systemd-sysctl applies all files in the order of their names
				h.program("bin/systemctl", "#!/bin/bash\n[[ $* != 'restart systemd-sysctl.service' ]] || echo "+tc.operator+" >"+h.path("/proc/sys/"+watches)+"\n")
			}
			if _, err := h.setup(); err != nil {
				t.Fatal(err)
			}
			if got := h.content("/proc/sys/" + watches); got != tc.want {
				t.Errorf("%s is %q, want %q", watches, got, tc.want)
			}
			if got := h.content("/run/sysctl.d/90-drover.conf"); !strings.Contains(got, "fs.inotify.max_user_instances = 8192\n") {
				t.Errorf("settings:\n%s", got)
			}
		})
	}
}
