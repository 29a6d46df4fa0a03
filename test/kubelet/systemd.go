package kubelet

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"time"
)

// The units in drover's own user data that a boot starts in addition to the kubelet's unit.
const (
	setupUnit  = "drover-setup.service"
	reportUnit = "drover-report.service"
)

const (
	// setupAgain is how long systemd waits before it restarts a failed setup.
	setupAgain = 10 * time.Second
	// reportEvery, mostReports and reportLines are the interval of reports, their number and their length. The script
	// of drover-report.service has the same values.
	reportEvery = time.Minute
	mostReports = 15
	reportLines = 20
)

// host is the part of a server's systemd that decides what appears on the console. The output of a unit is written to the
// journal. It is written to the console only when the unit's file in the user data configures that.
type host struct {
	options Options
	boot    *Boot

	mu sync.Mutex
	// kubelet holds the last lines of the kubelet's journal.
	kubelet       []string
	ready, joined bool
}

// setting returns the last value of a key in a unit's file and its drop-ins, which systemd merges in the order of their names; empty when
// none of them sets the key.
func (h *host) setting(unit, key string) string {
	files := []string{unitFolder + unit}
	for _, file := range slices.Sorted(maps.Keys(h.boot.Files)) {
		if strings.HasPrefix(file, unitFolder+unit+".d/") {
			files = append(files, file)
		}
	}
	last := ""
	for _, file := range files {
		for line := range strings.Lines(h.boot.Files[file]) {
			if value, ok := strings.CutPrefix(strings.TrimSpace(line), key+"="); ok {
				last = value
			}
		}
	}
	return last
}

// print handles a line that a unit's program prints.
func (h *host) print(unit, line string) {
	name := h.setting(unit, "SyslogIdentifier")
	if name == "" {
		program, _, _ := strings.Cut(h.setting(unit, "ExecStart"), " ")
		name = path.Base(program)
	}
	line = name + ": " + line
	h.options.Journal(line)
	if strings.HasSuffix(h.setting(unit, "StandardOutput"), "+console") {
		h.options.Console(line)
	}
	if unit != kubeletUnit {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.kubelet = append(h.kubelet, line)
	h.kubelet = h.kubelet[max(0, len(h.kubelet)-reportLines):]
}

// setup runs the setup unit until it succeeds, as systemd does. It returns false when ctx has ended. It carries out only one part
// of the unit's script: the download of the kubelet.
func (h *host) setup(ctx context.Context, version string) bool {
	url := "https://dl.k8s.io/release/" + version + "/bin/linux/amd64/kubelet"
	for slices.Contains(h.boot.Units, setupUnit) && ctx.Err() == nil {
		err := h.options.Download(url)
		if err == nil {
			break
		}
		h.print(setupUnit, err.Error())
		h.print(setupUnit, "downloading "+url+" failed")
		h.options.Console("[FAILED] Failed to start " + setupUnit + " - " + h.setting(setupUnit, "Description") + ".")
		h.options.Console("See 'systemctl status " + setupUnit + "' for details.")
		sleep(ctx, h.options.Clock, setupAgain)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ready = true
	return ctx.Err() == nil
}

// hasJoined records that the kubelet has its certificate and keeps running.
func (h *host) hasJoined() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.joined = true
}

// report runs the unit that prints the kubelet's last lines until the kubelet has joined. It does nothing when the user data does
// not have that unit.
func (h *host) report(ctx context.Context) {
	script := h.setting(reportUnit, "ExecStart")
	if !slices.Contains(h.boot.Units, reportUnit) || h.boot.Files[script] == "" {
		return
	}
	for range mostReports {
		sleep(ctx, h.options.Clock, reportEvery)
		h.mu.Lock()
		lines, ready, joined := slices.Clone(h.kubelet), h.ready, h.joined
		h.mu.Unlock()
		if joined || ctx.Err() != nil {
			return
		}
		if !ready {
			continue
		}
		h.print(reportUnit, fmt.Sprintf("the kubelet has not joined the cluster; its last %d lines:", len(lines)))
		for _, line := range lines {
			h.print(reportUnit, line)
		}
	}
}
