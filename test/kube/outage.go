package kube

import (
	"context"
	"fmt"
	"path/filepath"
	"time"
)

// apiServerAt is the index of kube-apiserver among the processes: after etcd.
const apiServerAt = coreProcesses - 1

// StopAPIServer kills kube-apiserver, like the loss of its machine. Nobody can reach the cluster until
// StartAPIServer is called; the stored objects stay. StopAPIServer, StartAPIServer and Stop must not be called
// concurrently.
func (c *Cluster) StopAPIServer() {
	c.processes[apiServerAt].endBy(time.Now())
}

// StartAPIServer starts kube-apiserver again at its old address, and returns when it serves.
func (c *Cluster) StartAPIServer(ctx context.Context) error {
	p, err := startProcess(filepath.Join(c.bin, apiServer), c.path("log/"+apiServer+".log"), c.apiServerArgs)
	if err != nil {
		return fmt.Errorf("starting the API server again: %w", err)
	}
	c.processes[apiServerAt] = p
	return c.await(ctx, apiServer, "be ready", c.apiServerReady())
}
