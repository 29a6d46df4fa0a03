package kube

import (
	"context"
	"fmt"
	"os"
	"time"
)

// etcdGrace is how long etcd may take to end when its data is to be kept.
const etcdGrace = 10 * time.Second

// SaveData copies etcd's data into a folder, which must not exist yet, as a backup. Meanwhile the whole control plane
// is stopped; SaveData returns when the control plane serves again. SaveData, RestoreData, RemoveData and Stop must not
// be called concurrently.
func (c *Cluster) SaveData(ctx context.Context, dir string) error {
	c.stopAll()
	if err := os.CopyFS(dir, os.DirFS(c.etcdData())); err != nil {
		return fmt.Errorf("copying what etcd holds: %w", err)
	}
	return c.startAgain(ctx)
}

// RestoreData replaces etcd's data with a copy by SaveData, and returns when the control plane serves again. All of its
// components are new processes, as after a real restore, so none remembers the earlier state.
func (c *Cluster) RestoreData(ctx context.Context, dir string) error {
	err := c.removeData()
	if err == nil {
		err = os.CopyFS(c.etcdData(), os.DirFS(dir))
	}
	if err != nil {
		return fmt.Errorf("replacing what etcd holds: %w", err)
	}
	return c.startAgain(ctx)
}

// RemoveData replaces the cluster with a new one that has the same addresses and keys, and returns when the new one
// serves. Afterwards etcd holds only what Start creates.
func (c *Cluster) RemoveData(ctx context.Context) error {
	if err := c.removeData(); err != nil {
		return fmt.Errorf("removing what etcd holds: %w", err)
	}
	return c.startNew(ctx, c.options)
}

// stopAll ends every process. etcd gets time to write its data.
func (c *Cluster) stopAll() {
	core := c.stopClients()
	core[apiServerAt].endBy(time.Now())
	core[0].ask()
	core[0].endBy(time.Now().Add(etcdGrace))
	c.processes = nil
}

func (c *Cluster) removeData() error {
	c.stopAll()
	return os.RemoveAll(c.etcdData())
}

// startAgain starts all components with etcd's present data.
func (c *Cluster) startAgain(ctx context.Context) error {
	if err := c.startCore(ctx, c.options); err != nil {
		return err
	}
	return c.startComponents(ctx, c.options)
}
