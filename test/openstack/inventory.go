package openstack

// inventory is what Nova makes servers of: flavors, key pairs, server groups and hosts, and how much of it each project has.
type inventory struct {
	kernel *kernel
	quotas *quotas

	flavors  table[*Flavor]
	groups   table[*serverGroup]
	keyPairs table[*keyPair]
	hosts    []*host
	usage    map[string]*usage
}

// AddFlavor adds a flavor and gives its ID.
func (svc *inventory) AddFlavor(f Flavor) string {
	f.ID = svc.kernel.orNew(f.ID)
	svc.flavors.put(f.ID, &f)
	return f.ID
}

// RemoveFlavor removes it for new servers; those that have it keep it.
func (svc *inventory) RemoveFlavor(id string) {
	svc.flavors.remove(id)
}

// AddServerGroup adds a server group with a policy to a project and gives its ID; id may be empty.
func (svc *inventory) AddServerGroup(projectID, id, name, policy string) string {
	g := &serverGroup{id: svc.kernel.orNew(id), name: name, project: projectID, policy: policy, perHost: map[string]int{}}
	svc.groups.put(g.id, g)
	return g.id
}

// AddKeyPair adds a key pair to a user, by the user's ID.
func (svc *inventory) AddKeyPair(userID, name, publicKey string) {
	svc.keyPairs.put(keyID(userID, name), &keyPair{name: name, user: userID, publicKey: publicKey})
}

// newInventory returns an inventory without anything.
func newInventory(k *kernel, q *quotas) *inventory { return &inventory{kernel: k, quotas: q} }
