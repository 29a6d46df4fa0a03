package openstack

import (
	"fmt"
	"net/netip"
	"strings"
)

// User is someone who may log in.
type User struct {
	// ID; empty: made up.
	ID, Name, Password string
	// Domain is a name; empty: Default.
	Domain string
	// Projects it has roles in, by name; the first is its default project.
	Projects []string
	// Roles it has in each; empty: member and reader. Without member or admin it may only read.
	Roles []string
}

// AppCredential is an application credential of a user for a project, both named.
type AppCredential struct {
	// ID; empty: made up.
	ID, Name, Secret, User, Project string
}

// Network is a network.
type Network struct {
	// ID; empty: made up.
	ID, Name string
	// Project it belongs to; empty: shared by all.
	Project string
	// External networks are where floating IPs come from.
	External bool
	// Unrouted networks have no router to an external one: their ports take no floating IP.
	Unrouted bool
}

// Subnet is a subnet of the network with that ID.
type Subnet struct {
	// ID; empty: made up.
	ID, Name, Network, CIDR string
	// First and Last bound the pool; empty: all of the CIDR but network, gateway (the first) and broadcast.
	First, Last string
}

// AddProject adds a project to a domain (name; empty: Default) and gives its ID. One that is there already is kept.
func (c *Cloud) AddProject(name, domainName string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	d := c.domain(domainName)
	if p := c.identity.findProject(projectRef{Name: name, Domain: &domainRef{ID: d.ID}}); p != nil {
		return p.ID
	}
	p := &project{ID: strings.ReplaceAll(c.newID(), "-", ""), Name: name, domain: d}
	c.identity.projects.put(p.ID, p)
	return p.ID
}

func (c *Cloud) domain(name string) domain {
	if name == "" || name == defaultDomain.Name || name == defaultDomain.ID {
		return defaultDomain
	}
	for _, d := range c.identity.domains {
		if d.Name == name {
			return d
		}
	}
	d := domain{ID: strings.ReplaceAll(c.newID(), "-", ""), Name: name}
	c.identity.domains = append(c.identity.domains, d)
	return d
}

// mustProject finds a project by name or ID, and makes one of that name when there is none.
func (c *Cloud) mustProject(nameOrID string) *project {
	for _, p := range c.identity.projects.all() {
		if p.Name == nameOrID || p.ID == nameOrID {
			return p
		}
	}
	p := &project{ID: strings.ReplaceAll(c.newID(), "-", ""), Name: nameOrID, domain: defaultDomain}
	c.identity.projects.put(p.ID, p)
	return p
}

func (c *Cloud) projectName(id string) string {
	if p, known := c.identity.projects.get(id); known {
		return p.Name
	}
	return id
}

// AddUser adds a user, and the projects that it names, and gives its ID.
func (c *Cloud) AddUser(in User) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	roles := in.Roles
	if len(roles) == 0 {
		roles = []string{"member", "reader"}
	}
	u := &user{ID: c.orNew(in.ID), Name: in.Name, password: in.Password, domain: c.domain(in.Domain), roles: map[string][]string{}}
	for i, name := range in.Projects {
		p := c.mustProject(name)
		u.roles[p.ID] = roles
		if i == 0 {
			u.defaultProject = p
		}
	}
	c.identity.users.put(u.ID, u)
	return u.ID
}

func (c *Cloud) orNew(id string) string {
	if id == "" {
		return c.newID()
	}
	return id
}

// AddAppCredential adds one and gives its ID. Error: its user is not there.
func (c *Cloud) AddAppCredential(in AppCredential) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, u := range c.identity.users.all() {
		if u.Name == in.User {
			p := c.mustProject(in.Project)
			a := &appCredential{ID: c.orNew(in.ID), name: in.Name, secret: in.Secret, user: u, project: p, roles: u.roles[p.ID]}
			c.identity.appCredentials.put(a.ID, a)
			return a.ID, nil
		}
	}
	return "", fmt.Errorf("adding application credential %q: there is no user %q", in.Name, in.User)
}

// AddFlavor adds a flavor and gives its ID.
func (c *Cloud) AddFlavor(f Flavor) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	f.ID = c.orNew(f.ID)
	c.compute.flavors.put(f.ID, &f)
	return f.ID
}

// RemoveFlavor removes it for new servers; those that have it keep it.
func (c *Cloud) RemoveFlavor(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.compute.flavors.remove(id)
}

// AddImage adds an image and gives its ID.
func (c *Cloud) AddImage(i Image) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	i.ID, i.created = c.orNew(i.ID), c.clock.Now()
	c.images.put(i.ID, &i)
	return i.ID
}

// RemoveImage removes an image.
func (c *Cloud) RemoveImage(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.images.remove(id)
}

// AddNetwork adds a network without subnets and gives its ID.
func (c *Cloud) AddNetwork(in Network) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := &netw{id: c.orNew(in.ID), name: in.Name, external: in.External, unrouted: in.Unrouted, subnets: []string{}, stamps: newStamps(c.clock.Now())}
	if in.Project != "" {
		n.project = c.mustProject(in.Project).ID
	}
	c.network.networks.put(n.id, n)
	return n.id
}

// AddSubnet adds a subnet and gives its ID. Error: its network is not there, or its CIDR or pool cannot be read.
func (c *Cloud) AddSubnet(in Subnet) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, known := c.network.networks.get(in.Network)
	if !known {
		return "", fmt.Errorf("adding subnet %q: there is no network %q", in.Name, in.Network)
	}
	cidr, err := netip.ParsePrefix(in.CIDR)
	if err != nil {
		return "", fmt.Errorf("adding subnet %q: %w", in.Name, err)
	}
	cidr = cidr.Masked()
	s := &subnet{id: c.orNew(in.ID), name: in.Name, network: n.id, project: n.project, cidr: cidr, used: map[netip.Addr]bool{}, stamps: newStamps(c.clock.Now())}
	s.gateway = cidr.Addr().Next()
	s.first, s.last = s.gateway.Next(), lastHost(cidr)
	if in.First != "" {
		if s.first, err = netip.ParseAddr(in.First); err != nil {
			return "", fmt.Errorf("adding subnet %q: %w", in.Name, err)
		}
	}
	if in.Last != "" {
		if s.last, err = netip.ParseAddr(in.Last); err != nil {
			return "", fmt.Errorf("adding subnet %q: %w", in.Name, err)
		}
	}
	s.next = s.first
	n.subnets = append(n.subnets[:len(n.subnets):len(n.subnets)], s.id)
	c.network.subnets.put(s.id, s)
	return s.id, nil
}

// lastHost is the last address but one of a prefix: the last is for broadcast.
func lastHost(p netip.Prefix) netip.Addr {
	b := p.Addr().AsSlice()
	for bit := p.Bits(); bit < len(b)*8; bit++ {
		b[bit/8] |= 1 << (7 - bit%8)
	}
	a, _ := netip.AddrFromSlice(b)
	return a.Prev()
}

// AddSecurityGroup adds a group to a project (name or ID) and gives its ID.
func (c *Cloud) AddSecurityGroup(project, name string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.newGroup(c.mustProject(project).ID, name, c.clock.Now()).id
}

// AddServerGroup adds a server group with a policy to a project (name or ID) and gives its ID; id may be empty.
func (c *Cloud) AddServerGroup(project, id, name, policy string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	g := &serverGroup{id: c.orNew(id), name: name, project: c.mustProject(project).ID, policy: policy, perHost: map[string]int{}}
	c.compute.groups.put(g.id, g)
	return g.id
}

// AddKeyPair adds a key pair to a user, by the user's ID.
func (c *Cloud) AddKeyPair(userID, name, publicKey string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.compute.keyPairs.put(keyID(userID, name), &keyPair{name: name, user: userID, publicKey: publicKey})
}

// AddVolumeType adds a volume type and gives its ID.
func (c *Cloud) AddVolumeType(name string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := &volumeType{id: c.newID(), name: name}
	c.volumes.types.put(t.id, t)
	return t.id
}

// Left is what is in the cloud now, by ID.
type Left struct{ Servers, Ports, FloatingIPs, Volumes []string }

// Empty says that nothing is left.
func (l Left) Empty() bool {
	return len(l.Servers)+len(l.Ports)+len(l.FloatingIPs)+len(l.Volumes) == 0
}

// Leftovers gives the servers, ports, floating IPs and volumes that are present, of all projects.
func (c *Cloud) Leftovers() Left {
	var l Left
	c.locked(func() {
		for _, s := range c.compute.servers.all() {
			if s.state != deleted {
				l.Servers = append(l.Servers, s.id)
			}
		}
		l.Ports = append(l.Ports, c.network.ports.ids...)
		l.FloatingIPs = append(l.FloatingIPs, c.network.floatingIPs.ids...)
		l.Volumes = append(l.Volumes, c.volumes.rows.ids...)
	})
	return l
}
