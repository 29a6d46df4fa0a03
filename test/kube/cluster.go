package kube

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/rest"
)

const (
	// attempts is how often Start tries to start a cluster. It tries again, with other ports, when another process has
	// taken a port.
	attempts = 3

	administrator = "drover-test-admin"
	masters       = "system:masters"
)

// Cluster is a running control plane.
type Cluster struct {
	// Dir holds the cluster's data, keys and logs.
	Dir string
	// Kubeconfig is the path of the administrator's kubeconfig.
	Kubeconfig string
	// Config is the administrator's client configuration, without a rate limit.
	Config *rest.Config
	// AuditLog is the path of the API server's audit log. Each line of the log is a JSON object, the event of one
	// answered request. ReadAudit reads the log.
	AuditLog string

	bin, server string
	ports       ports
	authority   *authority
	processes   []*process // in the order of their start: etcd and the API server first
	options     Options
	// apiServerArgs are the arguments of kube-apiserver.
	apiServerArgs []string
	release       func() // unlocks the file by which other processes see that Dir is in use
	stop          sync.Once
}

// EtcdURL returns the URL at which etcd serves its clients, without TLS. etcd's JSON gateway has the same URL.
func (c *Cluster) EtcdURL() string { return "http://" + local(c.ports.etcdClient) }

// Start starts a cluster and returns when all its components serve. ctx limits only the start; the
// cluster runs until Stop. On Linux it also ends when the calling process ends for any reason. An
// error names the component that did not start, with the last lines of its log. After an error
// nothing is left running or on disk.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	bin, err := binaries(ctx, o.Log, o.binaries())
	if err != nil {
		return nil, err
	}
	for attempt := 1; ; attempt++ {
		c, err := start(ctx, o, bin)
		if err == nil {
			return c, nil
		}
		var taken *portTakenError
		if !errors.As(err, &taken) || attempt == attempts {
			return nil, fmt.Errorf("starting a control plane: %w", err)
		}
		writeLine(o.Log, "control plane: %v: starting over", taken)
	}
}

// start tries once to start a cluster, and leaves nothing behind when that fails.
func start(ctx context.Context, o Options, bin string) (*Cluster, error) {
	dir, release, err := OwnFolder(o.Dir, tempPattern)
	if err != nil {
		return nil, fmt.Errorf("making its folder: %w", err)
	}
	c := newCluster(dir, bin, release)
	c.options = o
	if err := c.bringUp(ctx, o); err != nil {
		c.Stop()
		return nil, err
	}
	return c, nil
}

func newCluster(dir, bin string, release func()) *Cluster {
	return &Cluster{
		Dir: dir, Kubeconfig: filepath.Join(dir, "kubeconfig"), AuditLog: filepath.Join(dir, "audit.log"),
		bin: bin, release: release,
	}
}

func (c *Cluster) bringUp(ctx context.Context, o Options) error {
	began := time.Now()
	if err := c.prepare(); err != nil {
		return fmt.Errorf("preparing its folder: %w", err)
	}
	if err := c.startNew(ctx, o); err != nil {
		return err
	}
	writeLine(o.Log, "control plane: serving at %s after %.1f s", c.server, time.Since(began).Seconds())
	return nil
}

// startNew starts the components with an empty etcd.
func (c *Cluster) startNew(ctx context.Context, o Options) error {
	if err := c.startCore(ctx, o); err != nil {
		return err
	}
	if err := c.install(ctx); err != nil {
		return err
	}
	if o.Prepare != nil {
		if err := o.Prepare(ctx, c); err != nil {
			return fmt.Errorf("preparing it for its controllers: %w", err)
		}
	}
	return c.startComponents(ctx, o)
}

// prepare chooses ports and writes keys, kubeconfigs and configuration files.
func (c *Cluster) prepare() (err error) {
	if err := os.MkdirAll(filepath.Join(c.Dir, "log"), 0o700); err != nil {
		return err
	}
	if c.ports, err = freePorts(); err != nil {
		return err
	}
	c.server = fmt.Sprintf("https://127.0.0.1:%d", c.ports.api)
	if c.authority, err = newAuthority(); err != nil {
		return err
	}
	if err := c.authority.writePKI(c.pki("")); err != nil {
		return err
	}
	if c.Config, err = c.ConfigForUser(administrator, masters); err != nil {
		return err
	}
	if err := WriteKubeconfig(c.Kubeconfig, c.Config); err != nil {
		return err
	}
	return c.writeFiles()
}

// Stop ends every process of the cluster and removes its folder. It may be called repeatedly.
func (c *Cluster) Stop() {
	c.stop.Do(func() {
		// Stop also removes the data of etcd and the API server, so it kills both immediately. A
		// regular end would take 5 and 20 s.
		core := c.stopClients()
		for _, p := range slices.Backward(core) {
			p.endBy(time.Now())
		}
		_ = os.RemoveAll(c.Dir)
		c.release()
	})
}

// stopClients ends everything but etcd and the API server, and returns these two processes. The other components are
// clients of the API server. They end before it, so that none of them logs that the API server is gone. They end
// within 0.1 s of SIGTERM.
func (c *Cluster) stopClients() (core []*process) {
	n := min(coreProcesses, len(c.processes))
	for _, p := range c.processes[n:] {
		p.ask()
	}
	patience := time.Now().Add(stopGrace)
	for _, p := range c.processes[n:] {
		p.endBy(patience)
	}
	return c.processes[:n]
}

// Err returns why a component has ended unexpectedly, or nil while all of them run.
func (c *Cluster) Err() error {
	var all []error
	for _, p := range c.processes {
		all = append(all, p.alive())
	}
	return errors.Join(all...)
}

// Pids returns the process IDs of the cluster's processes, in the order of their start.
func (c *Cluster) Pids() []int {
	pids := make([]int, len(c.processes))
	for i, p := range c.processes {
		pids[i] = p.cmd.Process.Pid
	}
	return pids
}

// Kubectl runs kubectl as the administrator and returns its output. The error contains kubectl's
// error output.
func (c *Cluster) Kubectl(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(c.bin, kubectl), append([]string{"--kubeconfig", c.Kubeconfig}, args...)...)
	output, err := cmd.Output()
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		return output, fmt.Errorf("running kubectl %q: %w: %s", args, err, lastLines(failed.Stderr, tailLines))
	}
	if err != nil {
		return output, fmt.Errorf("running kubectl %q: %w", args, err)
	}
	return output, nil
}

func (c *Cluster) pki(name string) string  { return filepath.Join(c.Dir, "pki", name) }
func (c *Cluster) path(name string) string { return filepath.Join(c.Dir, name) }
func (c *Cluster) etcdData() string        { return c.path("etcd") }
