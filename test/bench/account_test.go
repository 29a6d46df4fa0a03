package bench

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/drover-project/drover/test/kube"
)

// costs holds the processor time that was used: by drover, by the control plane, and in this test process (here), which
// runs the simulated cloud, registers nodes, and runs the bare client.
type costs struct{ drover, control, here time.Duration }

func (c costs) minus(o costs) costs {
	return costs{c.drover - o.drover, c.control - o.control, c.here - o.here}
}

func (c costs) String() string {
	return fmt.Sprintf("drover %.1f s, API server and etcd %.1f s, simulated cloud and clients %.1f s", c.drover.Seconds(), c.control.Seconds(), c.here.Seconds())
}

// spent returns the processor time that has been used so far.
func (p *plant) spent(drover *exec.Cmd) costs {
	c := costs{here: p.cpu(os.Getpid())}
	if drover != nil {
		c.drover = p.cpu(drover.Process.Pid)
	}
	for _, pid := range p.control.Pids() {
		c.control += p.cpu(pid)
	}
	return c
}

// cpu returns the processor time that a process has used: fields 14 and 15 of /proc/PID/stat, in hundredths of a second.
func (p *plant) cpu(pid int) time.Duration {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	p.must(err)
	fields := strings.Fields(string(raw[strings.LastIndexByte(string(raw), ')')+1:]))
	var ticks int
	for _, i := range []int{11, 12} {
		n, err := strconv.Atoi(fields[i])
		p.must(err)
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// settles waits until drover has made the writes that it delays because they are not urgent.
func (p *plant) settles() {
	began := time.Now()
	p.await("drover writes nothing any more", func() bool { return time.Since(p.lastWrite(began)) > quiet })
}

// atRest reports drover's memory, and its use of the processor in a minute in which nothing happens.
func (p *plant) atRest(drover *exec.Cmd, n int) {
	before := p.cpu(drover.Process.Pid)
	time.Sleep(restTime)
	share := (p.cpu(drover.Process.Pid) - before).Seconds() / restTime.Seconds()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", drover.Process.Pid))
	p.must(err)
	for line := range strings.Lines(string(status)) {
		if strings.HasPrefix(line, "Rss") || strings.HasPrefix(line, "VmHWM") {
			p.Log(strings.TrimSpace(line))
		}
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, err := strconv.Atoi(strings.Fields(rest)[0])
			p.must(err)
			allowed := 60_000 + 20*n
			p.ReportMetric(float64(kib)/1000, "MB-RSS")
			p.ReportMetric(float64(kib)/float64(allowed), "x-memory-target")
		}
	}
	p.ReportMetric(100*share, "%core-at-rest")
	p.Logf("memory at rest:\n%s", p.memory())
}

// memory returns the memory and goroutine metrics of drover's Go runtime.
func (p *plant) memory() string {
	request, err := http.NewRequestWithContext(p.Context(), http.MethodGet, "http://"+p.metrics+"/metrics", nil)
	p.must(err)
	response, err := http.DefaultClient.Do(request)
	p.must(err)
	defer func() { _ = response.Body.Close() }()
	data, err := io.ReadAll(response.Body)
	p.must(err)
	var out strings.Builder
	for line := range strings.Lines(string(data)) {
		if strings.HasPrefix(line, "go_memstats_") && strings.Contains(line, "_bytes ") || strings.HasPrefix(line, "go_goroutines") {
			_, _ = out.WriteString(line)
		}
	}
	return out.String()
}

// requests is a list of requests to the API server.
type requests []kube.Request

// requests returns all of drover's requests to the API server.
func (p *plant) requests() requests {
	all, err := p.control.Requests()
	p.must(err)
	return slices.DeleteFunc(all, func(r kube.Request) bool { return r.User != droverID })
}

// apart lists the resources whose writes do not count towards the benchmark's targets.
var apart = []string{"events", "leases", "certificatesigningrequests", "subjectaccessreviews"}

// lastWrite returns the time of drover's last write after the given time. When drover has written nothing since, it returns
// the given time.
func (p *plant) lastWrite(since time.Time) time.Time {
	last := since
	for _, q := range p.since(since) {
		if counted(q) {
			last = q.At
		}
	}
	return last
}

// since returns the requests of drover that the API server received after the given time.
func (p *plant) since(began time.Time) requests {
	return slices.DeleteFunc(p.requests(), func(q kube.Request) bool { return q.At.Before(began) })
}

// tally counts writes by resource.
type tally map[string]int

func (t tally) all() (n int) {
	for _, count := range t {
		n += count
	}
	return n
}

func (r requests) writes() tally {
	t := tally{}
	for _, q := range r {
		if q.Wrote() && counted(q) {
			t[q.Resource]++
		}
	}
	return t
}

// counted reports whether the request was a write that the targets count, whatever the answer was.
func counted(q kube.Request) bool {
	return slices.Contains([]string{"create", "update", "patch", "delete", "deletecollection"}, q.Verb) && !slices.Contains(apart, q.Resource)
}

// reads returns the number of get and list requests. Watches are not counted.
func (r requests) reads() (n int) {
	for _, q := range r {
		if q.Verb == "get" || q.Verb == "list" {
			n++
		}
	}
	return n
}

// refused returns the number of writes that the API server refused.
func (r requests) refused() (n int) {
	for _, q := range r {
		if counted(q) && !q.Wrote() {
			n++
		}
	}
	return n
}

// table returns one line per kind of request: its field manager, if any, and the number of requests per Machine, for n
// Machines.
func (r requests) table(n int) string {
	var lines []string
	for _, q := range r {
		line := fmt.Sprintf("%-6s %s %d", q.Verb, strings.TrimSuffix(q.Resource+"/"+q.Subresource, "/"), q.Code)
		if u, err := url.Parse(q.URI); err == nil && u.Query().Has("fieldManager") {
			line += " " + u.Query().Get("fieldManager")
		}
		lines = append(lines, line)
	}
	return frequencies(lines, n)
}

// frequencies returns one line per distinct call, with its number per Machine, for n Machines.
func frequencies(lines []string, n int) string {
	counts := map[string]int{}
	for _, line := range lines {
		counts[line]++
	}
	var out strings.Builder
	for _, line := range slices.Sorted(maps.Keys(counts)) {
		_, _ = fmt.Fprintf(&out, "  %6.2f %s\n", float64(counts[line])/float64(n), line)
	}
	return out.String()
}

// profile takes profiles of drover and of the API server until the returned function is called.
func (p *plant) profile() func() {
	if p.pprof == "" {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	var taken sync.WaitGroup
	taken.Go(func() { p.take(ctx, "cpu", "profile?seconds=20") })
	taken.Go(func() {
		data, err := p.control.Kubectl(ctx, "get", "--raw", "/debug/pprof/profile?seconds=20")
		p.must(err)
		p.must(os.WriteFile(filepath.Join(*profiles, "apiserver.pprof"), data, 0o600))
	})
	return func() {
		taken.Wait()
		cancel()
		p.take(context.Background(), "heap", "heap?gc=1")
		p.take(context.Background(), "allocs", "allocs")
	}
}

// take saves one profile.
func (p *plant) take(ctx context.Context, name, path string) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.pprof+"/debug/pprof/"+path, nil)
	p.must(err)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		p.Errorf("taking profile %s: %v", name, err)
		return
	}
	defer func() { _ = response.Body.Close() }()
	data, err := io.ReadAll(response.Body)
	p.must(err)
	p.must(os.WriteFile(filepath.Join(*profiles, name+".pprof"), data, 0o600))
}
