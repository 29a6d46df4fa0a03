package openstack

// OnBoot has f called whenever a server becomes ACTIVE. Calls come one after another, in order, without the lock.
func (c *Cloud) OnBoot(f func(Server)) { c.kernel.Hold(func() { c.compute.OnBoot(f) }) }

// OnGone has f called whenever a server that had become ACTIVE is gone. Calls come as those of OnBoot do.
func (c *Cloud) OnGone(f func(serverID string)) { c.kernel.Hold(func() { c.compute.OnGone(f) }) }

// ServerCount returns how many servers there are. It costs far less than Servers.
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

// DeleteServer deletes a server at once, outside of the API. It returns false when the server does not exist.
func (c *Cloud) DeleteServer(id string) (found bool) {
	c.kernel.Do(func() { found = c.compute.DeleteServer(id) })
	return found
}

// FailServer puts a server into ERROR with that fault. It returns false when the server does not exist.
func (c *Cloud) FailServer(id, message string) (found bool) {
	c.kernel.Do(func() { found = c.compute.FailServer(id, message) })
	return found
}

// StopServer shuts a server down (SHUTOFF), as its own operating system may. It returns false when the server does not exist.
func (c *Cloud) StopServer(id string) (found bool) {
	c.kernel.Do(func() { found = c.compute.StopServer(id) })
	return found
}

// ChangeServer sets the vm_state and task_state of a server, in Nova's words, as an action of a user does. It returns false when
// the server does not exist.
func (c *Cloud) ChangeServer(id, state, task string) (found bool) {
	c.kernel.Do(func() { found = c.compute.ChangeServer(id, state, task) })
	return found
}

// SetConsole sets the result of os-getConsoleOutput. It returns false when the server does not exist.
func (c *Cloud) SetConsole(id, text string) (found bool) {
	c.kernel.Do(func() { found = c.compute.SetConsole(id, text) })
	return found
}

// ArchiveDeleted forgets deleted servers, as `nova-manage db archive_deleted_rows` does: no list shows them again, and
// one of them as a marker is refused.
func (c *Cloud) ArchiveDeleted() { c.kernel.Do(c.compute.ArchiveDeleted) }

// Left is what is in the cloud now, by ID.
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
