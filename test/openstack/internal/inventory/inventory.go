// Package inventory holds what Nova makes servers of: flavors, hosts, key pairs and server groups. It also holds how much
// each project uses. It has no notion of servers.
package inventory

import (
	"github.com/drover-project/drover/test/openstack/internal/kernel"
	"github.com/drover-project/drover/test/openstack/internal/quotas"
	"github.com/drover-project/drover/test/openstack/internal/table"
)

// Service holds flavors, key pairs, server groups and hosts, and how much of them each project uses.
type Service struct {
	kernel *kernel.Kernel
	quotas *quotas.Quotas

	flavors  table.Table[*Flavor]
	groups   table.Table[*ServerGroup]
	keyPairs table.Table[*KeyPair]
	hosts    []*Hypervisor
	usage    map[string]*usage
}

// AddFlavor adds a flavor and returns its ID.
func (svc *Service) AddFlavor(f Flavor) string {
	f.ID = svc.kernel.OrNew(f.ID)
	svc.flavors.Put(f.ID, &f)
	return f.ID
}

// RemoveFlavor removes a flavor for new servers. Existing servers keep it.
func (svc *Service) RemoveFlavor(id string) {
	svc.flavors.Remove(id)
}

// AddServerGroup adds a server group with a policy to a project and returns its ID; id may be empty.
func (svc *Service) AddServerGroup(projectID, id, name, policy string) string {
	g := &ServerGroup{ID: svc.kernel.OrNew(id), name: name, Project: projectID, policy: policy, perHost: map[string]int{}}
	svc.groups.Put(g.ID, g)
	return g.ID
}

// AddKeyPair adds a key pair to the user with the ID.
func (svc *Service) AddKeyPair(userID, name, publicKey string) {
	svc.keyPairs.Put(keyID(userID, name), &KeyPair{Name: name, user: userID, PublicKey: publicKey})
}

// New returns an empty inventory.
func New(k *kernel.Kernel, q *quotas.Quotas) *Service { return &Service{kernel: k, quotas: q} }

// Flavor returns a flavor by its ID.
func (svc *Service) Flavor(id string) (*Flavor, bool) { return svc.flavors.Get(id) }

// ServerGroup returns a server group by its ID.
func (svc *Service) ServerGroup(id string) (*ServerGroup, bool) { return svc.groups.Get(id) }

// KeyPair returns a user's key pair.
func (svc *Service) KeyPair(user, name string) (*KeyPair, bool) {
	return svc.keyPairs.Get(keyID(user, name))
}
