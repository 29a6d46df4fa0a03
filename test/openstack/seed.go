package openstack

// AddProject adds a project to the domain with the name domainName (empty means Default) and returns the project's ID. It does
// not change an existing project.
func (c *Cloud) AddProject(name, domainName string) (id string) {
	c.kernel.Hold(func() { id = c.identity.AddProject(name, domainName) })
	return id
}

// AddUser adds a user and the user's projects, and returns the user's ID.
func (c *Cloud) AddUser(u User) (id string) {
	c.kernel.Hold(func() { id = c.identity.AddUser(u) })
	return id
}

// AddAppCredential adds an application credential and returns its ID. It returns an error when its user does not exist.
func (c *Cloud) AddAppCredential(a AppCredential) (id string, err error) {
	c.kernel.Hold(func() { id, err = c.identity.AddAppCredential(a) })
	return id, err
}

// RenameProject changes the name of the project with the name or ID nameOrID.
func (c *Cloud) RenameProject(nameOrID, name string) {
	c.kernel.Hold(func() { c.identity.RenameProject(nameOrID, name) })
}

// RevokeTokens invalidates every token issued so far.
func (c *Cloud) RevokeTokens() { c.kernel.Hold(c.identity.RevokeTokens) }

// RevokeAppCredential deletes an application credential and the tokens that were issued for it. An unknown ID changes nothing.
func (c *Cloud) RevokeAppCredential(id string) {
	c.kernel.Hold(func() { c.identity.RevokeAppCredential(id) })
}

// AddFlavor adds a flavor and returns its ID.
func (c *Cloud) AddFlavor(f Flavor) (id string) {
	c.kernel.Hold(func() { id = c.inventory.AddFlavor(f) })
	return id
}

// RemoveFlavor removes a flavor for new servers. Existing servers keep it.
func (c *Cloud) RemoveFlavor(id string) { c.kernel.Hold(func() { c.inventory.RemoveFlavor(id) }) }

// AddServerGroup adds a server group with a policy to a project (name or ID) and returns its ID; id may be empty.
func (c *Cloud) AddServerGroup(project, id, name, policy string) (made string) {
	c.kernel.Hold(func() {
		id := c.kernel.OrNew(id)
		made = c.inventory.AddServerGroup(c.identity.ProjectID(project), id, name, policy)
	})
	return made
}

// AddKeyPair adds a key pair to the user with the ID.
func (c *Cloud) AddKeyPair(userID, name, publicKey string) {
	c.kernel.Hold(func() { c.inventory.AddKeyPair(userID, name, publicKey) })
}

// SetHost changes the host with the name, or adds it.
func (c *Cloud) SetHost(h Host) { c.kernel.Do(func() { c.inventory.SetHost(h) }) }

// Hosts returns all hosts as SetHost last set them.
func (c *Cloud) Hosts() (hosts []Host) {
	c.kernel.Do(func() { hosts = c.inventory.Hosts() })
	return hosts
}

// AddImage adds an image and returns its ID.
func (c *Cloud) AddImage(i Image) (id string) {
	c.kernel.Hold(func() { id = c.images.AddImage(i) })
	return id
}

// RemoveImage removes an image.
func (c *Cloud) RemoveImage(id string) { c.kernel.Hold(func() { c.images.RemoveImage(id) }) }

// ReplaceImage removes an image, and adds one that differs only in its ID, as an operator does who uploads a newer build under the same
// name. It returns the ID of the new image; empty when there is no image with the ID.
func (c *Cloud) ReplaceImage(id string) (next string) {
	c.kernel.Hold(func() { next = c.images.ReplaceImage(id) })
	return next
}

// AddNetwork adds a network without subnets and returns its ID.
func (c *Cloud) AddNetwork(n Network) (id string) {
	c.kernel.Hold(func() { id = c.network.AddNetwork(n) })
	return id
}

// AddSubnet adds a subnet and returns its ID. It returns an error when its network does not exist, or when its CIDR or pool
// cannot be parsed.
func (c *Cloud) AddSubnet(s Subnet) (id string, err error) {
	c.kernel.Hold(func() { id, err = c.network.AddSubnet(s) })
	return id, err
}

// AddSecurityGroup adds a group to a project (name or ID) and returns its ID.
func (c *Cloud) AddSecurityGroup(project, name string) (id string) {
	c.kernel.Hold(func() { id = c.network.AddSecurityGroup(project, name) })
	return id
}

// AddVolumeType adds a volume type and returns its ID.
func (c *Cloud) AddVolumeType(name string) (id string) {
	c.kernel.Hold(func() { id = c.volumes.AddVolumeType(name) })
	return id
}

// SetQuota changes the quota of one project (name or ID). "" stands for all projects without a quota of their own.
func (c *Cloud) SetQuota(project string, q Quota) {
	c.kernel.Hold(func() {
		if project != "" {
			project = c.identity.ProjectID(project)
		}
		c.quotas.Set(project, q)
	})
}
