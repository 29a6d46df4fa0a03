package main

import (
	"context"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
)

// observedCloud is a read-only wrapper of a cloud.
type observedCloud struct {
	cloud.Cloud
	observer *observer
}

// Instance returns a read-only wrapper of the Machine's instance.
func (c observedCloud) Instance(ctx context.Context, m *v1alpha1.Machine) (cloud.Instance, error) {
	i, err := c.Cloud.Instance(ctx, m)
	if err != nil {
		return nil, err
	}
	return observedInstance{i, c.observer, "Machine " + m.Namespace + "/" + m.Name}, nil
}

// Collect changes nothing.
func (c observedCloud) Collect(_ context.Context, r cloud.Resource) error {
	c.observer.note("openstack", "delete "+string(r.Kind), r.ID, "it has no Machine")
	return nil
}

// observedInstance changes nothing.
type observedInstance struct {
	cloud.Instance
	observer *observer
	machine  string
}

func (i observedInstance) note(verb string) { i.observer.note("openstack", verb, i.machine, "") }

// notMade records a create call that observe mode does not make, and returns the error that the caller receives
// instead.
func (i observedInstance) notMade(verb string) error {
	i.note(verb)
	return fault.New(fault.Transient, fault.CodeUnsettled, "drover only observes (--observe): no server is made")
}

// Reserve changes nothing.
func (i observedInstance) Reserve(context.Context) error { return nil }

// Prepare changes nothing.
func (i observedInstance) Prepare(context.Context) error {
	return i.notMade("make ports, floating IP and server")
}

// EnsureServer changes nothing.
func (i observedInstance) EnsureServer(context.Context, []byte) (*cloud.Server, error) {
	return nil, i.notMade("make server")
}

// StartServer changes nothing.
func (i observedInstance) StartServer(context.Context) error {
	i.note("start server")
	return fault.New(fault.RateLimited, fault.CodeWaitingForTurn, "drover only observes (--observe): no server is started")
}

// DeleteServer changes nothing. The Machine controller then waits until the server is gone.
func (i observedInstance) DeleteServer(context.Context) error {
	i.note("delete server")
	return nil
}

// DeleteFailed changes nothing. The Machine controller then waits until the server is gone.
func (i observedInstance) DeleteFailed(context.Context) error {
	i.note("delete failed server")
	return nil
}

// Release changes nothing, and always returns that the release is not complete.
func (i observedInstance) Release(context.Context) (cloud.Released, error) {
	i.note("release ports, floating IP and volumes")
	return cloud.Released{Waiting: "--observe releases nothing"}, nil
}

// ConsoleOutput returns nothing, because in Nova's API the read of a console is a server action, which is sent by POST.
func (i observedInstance) ConsoleOutput(context.Context, int) (string, error) {
	i.note("read console")
	return "", nil
}
