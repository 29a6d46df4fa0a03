package kube

import (
	"context"
	"fmt"
	"path/filepath"
	"time"
)

// apiServerAt is the place of kube-apiserver among the processes: behind etcd.
const apiServerAt = coreProcesses - 1

// StopAPIServer ends kube-apiserver at once, as the loss of its machine does. Nobody reaches the cluster until
// StartAPIServer is called; what is stored stays. Neither may be called while the other or Stop runs.
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
