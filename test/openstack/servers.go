package openstack

// OnBoot registers f to be called whenever a server becomes ACTIVE. The calls are made in order, one after the other. The
// cloud's lock is not held during a call.
func (c *Cloud) OnBoot(f func(Server)) { c.kernel.Hold(func() { c.compute.OnBoot(f) }) }

// OnGone registers f to be called whenever a server that had become ACTIVE no longer exists. The calls are made like those of
// OnBoot.
func (c *Cloud) OnGone(f func(serverID string)) { c.kernel.Hold(func() { c.compute.OnGone(f) }) }

// ServerCount returns how many servers exist. It costs far less than Servers.
func (c *Cloud) ServerCount() (n int) {
	c.kernel.Do(func() { n = c.compute.ServerCount() })
	return n
}

// Servers returns all existing servers, oldest first.
func (c *Cloud) Servers() (list []Server) {
	c.kernel.Do(func() { list = c.compute.Servers() })
	return list
}

// Server returns a server by its ID; false when it does not exist.
func (c *Cloud) Server(id string) (s Server, found bool) {
	c.kernel.Do(func() { s, found = c.compute.Server(id) })
	return s, found
}

// DeleteServer deletes a server immediately, without a call to the API. It returns false when the server does not exist.
func (c *Cloud) DeleteServer(id string) (found bool) {
	c.kernel.Do(func() { found = c.compute.DeleteServer(id) })
	return found
}

// FailServer puts a server into ERROR with the given fault. It returns false when the server does not exist.
func (c *Cloud) FailServer(id, message string) (found bool) {
	c.kernel.Do(func() { found = c.compute.FailServer(id, message) })
	return found
}

// StopServer puts a server into SHUTOFF, as when its own operating system shuts it down. It returns false when the server does
// not exist.
func (c *Cloud) StopServer(id string) (found bool) {
	c.kernel.Do(func() { found = c.compute.StopServer(id) })
	return found
}

// ChangeServer sets the vm_state and task_state of a server, as an action of a user does. It returns false when the server does
// not exist.
func (c *Cloud) ChangeServer(id, state, task string) (found bool) {
	c.kernel.Do(func() { found = c.compute.ChangeServer(id, state, task) })
	return found
}

// SetConsole sets the result of os-getConsoleOutput. It returns false when the server does not exist.
func (c *Cloud) SetConsole(id, text string) (found bool) {
	c.kernel.Do(func() { found = c.compute.SetConsole(id, text) })
	return found
}

// ArchiveDeleted removes deleted servers from the database, as `nova-manage db archive_deleted_rows` does: no list shows them
// again, and they are refused as a marker.
func (c *Cloud) ArchiveDeleted() { c.kernel.Do(c.compute.ArchiveDeleted) }

// Left holds the IDs of the resources that are in the cloud now.
type Left struct{ Servers, Ports, FloatingIPs, Volumes []string }

// Empty reports whether nothing is left.
func (l Left) Empty() bool {
	return len(l.Servers)+len(l.Ports)+len(l.FloatingIPs)+len(l.Volumes) == 0
}

// Leftovers returns the servers, ports, floating IPs and volumes that are present, of all projects.
func (c *Cloud) Leftovers() (l Left) {
	c.kernel.Do(func() {
		l.Servers, l.Volumes = c.compute.ServerIDs(), c.volumes.VolumeIDs()
		l.Ports, l.FloatingIPs = c.network.Leftovers()
	})
	return l
}
