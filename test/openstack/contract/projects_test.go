package contract

import (
	"net/http"
	"net/url"
	"strings"
)

// projectRows are about the resources of other projects. The names in a spec may be names of these resources as well.
var projectRows = []row{
	{"a network that another project shares with this one is listed with its subnet, as shared, and with the other project as its owner", otherProjects, func(b *bench) {
		other := newClient(b.T, b.other)
		n := b.networksNamed(b.user, b.sharedNet)
		b.same("networks", len(n.rows("networks")), 1)
		b.same("shared", n.at("networks.0.shared"), true)
		b.same("router:external", n.at("networks.0.router:external"), false)
		b.same("project_id", n.word("networks.0.project_id"), other.project)
		s := b.want(b.user.get(network, "/subnets?network_id="+n.word("networks.0.id")), http.StatusOK)
		b.same("subnets", len(s.rows("subnets")), 1)
		b.same("project_id of the subnet", s.word("subnets.0.project_id"), other.project)
		if _, says := s.rows("subnets")[0]["shared"]; says {
			b.Errorf("the subnet shows whether it is shared: %s", s.text)
		}
	}},
	{"a network that another project shares with this one is not shared for its own project, and a port can be created in it", otherProjects, func(b *bench) {
		n := b.networksNamed(newClient(b.T, b.other), b.sharedNet)
		b.same("shared", n.at("networks.0.shared"), false)
		b.want(b.port(doc{"network_id": n.word("networks.0.id")}), http.StatusCreated)
	}},
	{"a network that another project does not share is not listed, and a GET by its ID returns 404", otherProjects, func(b *bench) {
		id := b.networksNamed(newClient(b.T, b.other), b.otherNet).word("networks.0.id")
		b.same("networks", len(b.networksNamed(b.user, b.otherNet).rows("networks")), 0)
		b.want(b.user.get(network, "/networks/"+id), http.StatusNotFound, `"NetworkNotFound"`)
		b.same("subnets", len(b.want(b.user.get(network, "/subnets?network_id="+id), http.StatusOK).rows("subnets")), 0)
	}},
	{"an administrator lists the networks of all projects, with shared as it is for the administrator's own project", otherProjects, func(b *bench) {
		admin := newClient(b.T, b.admin)
		for _, name := range []string{b.otherNet, b.sharedNet, b.network} {
			n := b.networksNamed(admin, name)
			b.same("networks named "+name, len(n.rows("networks")), 1)
			b.same("shared of "+name, n.at("networks.0.shared"), false)
			s := b.want(admin.get(network, "/subnets?network_id="+n.word("networks.0.id")), http.StatusOK)
			b.same("subnets of "+name, len(s.rows("subnets")), 1)
		}
	}},
	{"an administrator lists the ports and security groups of all projects, and a filter by project_id restricts the list", otherProjects, func(b *bench) {
		admin, port := newClient(b.T, b.admin), b.portID()
		for path, field := range map[string]string{"/ports?id=" + port: "ports", "/security-groups?id=" + b.groupID(): "security_groups"} {
			a := b.want(admin.get(network, path), http.StatusOK)
			b.same(path, len(a.rows(field)), 1)
			b.same("project_id", a.word(field+".0.project_id"), b.user.project)
			b.same(path+" of the administrator's project", len(b.want(admin.get(network, path+"&project_id="+admin.project), http.StatusOK).rows(field)), 0)
		}
	}},
	{"an administrator lists the images of all projects, and the members of an image show whether a project may use it", otherProjects, func(b *bench) {
		other, admin, name := newClient(b.T, b.other), newClient(b.T, b.admin), b.name()
		b.newImage(other, name, "private")
		shared := b.newImage(other, name, "shared")
		members := func(c *client) answer { return b.want(c.get(image, "/images/"+shared+"/members"), http.StatusOK) }
		count := func(c *client) int {
			return len(b.want(b.imagesWith(c, "name="+name), http.StatusOK).rows("images"))
		}
		b.same("images of the administrator", count(admin), 2)
		b.same("images of another user", count(b.user), 0)
		b.same("members of an image that nobody has been given", len(members(admin).rows("members")), 0)
		b.want(other.post(image, "/images/"+shared+"/members", doc{"member": b.user.project}), http.StatusOK)
		b.same("images before the member has accepted", count(b.user), 0)
		b.want(b.user.do(http.MethodPut, image, "/images/"+shared+"/members/"+b.user.project, doc{"status": "accepted"}), http.StatusOK)
		a := b.want(b.imagesWith(b.user, "name="+name), http.StatusOK)
		b.same("images after the member has accepted", len(a.rows("images")), 1)
		b.same("visibility", a.word("images.0.visibility"), "shared")
		b.same("owner", a.word("images.0.owner"), other.project)
		for _, c := range []*client{admin, b.user} {
			b.same("member", members(c).word("members.0.member_id"), b.user.project)
			b.same("status of the member", members(c).word("members.0.status"), "accepted")
		}
	}},
	{"a list of server groups has only those of the own project, also for an administrator", otherProjects, func(b *bench) {
		id := b.serverGroup("soft-anti-affinity")
		for c, listed := range map[*client]bool{b.user: true, newClient(b.T, b.admin): false} {
			a := b.want(c.get(compute, "/os-server-groups"), http.StatusOK)
			b.same("listed", strings.Contains(a.text, id), listed)
		}
	}},
	{"an external network belongs to another project and is not shared", otherProjects, func(b *bench) {
		n := b.networksNamed(b.user, b.pool)
		b.same("shared", n.at("networks.0.shared"), false)
		b.same("project_id", n.word("networks.0.project_id"), newClient(b.T, b.admin).project)
	}},
}

// networksNamed returns the networks of a name that a user sees.
func (b *bench) networksNamed(c *client, name string) answer {
	b.Helper()
	return b.want(c.get(network, "/networks?name="+url.QueryEscape(name)), http.StatusOK)
}
