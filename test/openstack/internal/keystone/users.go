package keystone

import (
	"fmt"
	"regexp"
	"strings"
)

// User is a user who may sign in.
type User struct {
	// ID, Name and Password identify the user. An empty ID means a generated one.
	ID, Name, Password string
	// Domain is the name of the user's domain. Empty means Default.
	Domain string
	// Projects are the names of the projects in which the user has roles. The first is the user's default project.
	Projects []string
	// Roles are the user's roles in each project. Empty means member and reader. Without member or admin the user may
	// only read.
	Roles []string
}

// AppCredential is an application credential of a user for a project. User and Project are names.
type AppCredential struct {
	// An empty ID means a generated one.
	ID, Name, Secret, User, Project string
	// Rules are the only calls that the credential permits. nil means all calls, and an empty list means none.
	Rules []AccessRule
}

// AccessRule permits calls of one method to the paths that match Path, where {name} and * stand for one segment, and ** for anything.
// Service is a type of the catalog, such as compute. Path is the whole path of a URL, such as /compute/v2.1/servers.
type AccessRule struct {
	Service string `json:"service"`
	Method  string `json:"method"`
	Path    string `json:"path"`
}

// wildcard matches what is not literal in the path of a rule.
var wildcard = regexp.MustCompile(`\{[^}]*\}|\*\*|\*`)

func (r AccessRule) matches(path string) bool {
	pattern, from := "^", 0
	for _, at := range wildcard.FindAllStringIndex(r.Path, -1) {
		pattern += regexp.QuoteMeta(r.Path[from:at[0]])
		if from = at[1]; r.Path[at[0]:at[1]] == "**" {
			pattern += ".*"
		} else {
			pattern += "[^/]+"
		}
	}
	matched, err := regexp.MatchString(pattern+regexp.QuoteMeta(r.Path[from:])+"$", path)
	return matched && err == nil
}

// AddProject adds a project to the domain with the name domainName (empty means Default) and returns the project's ID.
// It does not change an existing project.
func (svc *Service) AddProject(name, domainName string) string {
	d := svc.domain(domainName)
	if p := svc.findProject(projectRef{Name: name, Domain: &domainRef{ID: d.ID}}); p != nil {
		return p.ID
	}
	p := &project{ID: strings.ReplaceAll(svc.kernel.NewID(), "-", ""), Name: name, domain: d}
	svc.projects.Put(p.ID, p)
	return p.ID
}

// RenameProject changes the name of the project with the name or ID nameOrID.
func (svc *Service) RenameProject(nameOrID, name string) { svc.mustProject(nameOrID).Name = name }

func (svc *Service) domain(name string) domain {
	if name == "" || name == defaultDomain.Name || name == defaultDomain.ID {
		return defaultDomain
	}
	for _, d := range svc.domains {
		if d.Name == name {
			return d
		}
	}
	d := domain{ID: strings.ReplaceAll(svc.kernel.NewID(), "-", ""), Name: name}
	svc.domains = append(svc.domains, d)
	return d
}

// mustProject returns the project with the name or ID nameOrID. When there is none, it creates a project with that
// name.
func (svc *Service) mustProject(nameOrID string) *project {
	for _, p := range svc.projects.All() {
		if p.Name == nameOrID || p.ID == nameOrID {
			return p
		}
	}
	p := &project{ID: strings.ReplaceAll(svc.kernel.NewID(), "-", ""), Name: nameOrID, domain: defaultDomain}
	svc.projects.Put(p.ID, p)
	return p
}

// ProjectName returns the name of a project, or its ID when the project is not known.
func (svc *Service) ProjectName(id string) string {
	if p, known := svc.projects.Get(id); known {
		return p.Name
	}
	return id
}

// AddUser adds a user and the user's projects, and returns the user's ID.
func (svc *Service) AddUser(in User) string {
	roles := in.Roles
	if len(roles) == 0 {
		roles = []string{"member", "reader"}
	}
	u := &user{ID: svc.kernel.OrNew(in.ID), Name: in.Name, password: in.Password, domain: svc.domain(in.Domain), roles: map[string][]string{}}
	for i, name := range in.Projects {
		p := svc.mustProject(name)
		u.roles[p.ID] = roles
		if i == 0 {
			u.defaultProject = p
		}
	}
	svc.users.Put(u.ID, u)
	return u.ID
}

// AddAppCredential adds an application credential and returns its ID. It returns an error when its user does not exist.
func (svc *Service) AddAppCredential(in AppCredential) (string, error) {
	for _, u := range svc.users.All() {
		if u.Name == in.User {
			p := svc.mustProject(in.Project)
			a := &appCredential{ID: svc.kernel.OrNew(in.ID), name: in.Name, secret: in.Secret, user: u, project: p, roles: u.roles[p.ID], rules: in.Rules}
			svc.appCredentials.Put(a.ID, a)
			return a.ID, nil
		}
	}
	return "", fmt.Errorf("adding application credential %q: there is no user %q", in.Name, in.User)
}

// ProjectID returns the ID of the project with the name or ID nameOrID. When there is none, it creates a project with
// that name.
func (svc *Service) ProjectID(nameOrID string) string { return svc.mustProject(nameOrID).ID }
