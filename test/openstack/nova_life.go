package openstack

import (
	"net/http"
	"time"
)

// fail puts a server into ERROR: what it had is given back but for quota, as in Nova.
func (svc *nova) fail(s *server, at time.Time, message string) {
	svc.unplug(s, at)
	svc.alter(s, at, func() {
		s.state, s.task = failed, ""
		s.fault = &serverFault{code: http.StatusInternalServerError, created: at, message: message}
		s.addresses = object{}
		svc.leaveHost(s)
		s.host, s.unclaimed, s.plugged = nil, false, false
	})
}

func (svc *nova) leaveHost(s *server) {
	if s.host == nil {
		return
	}
	s.host.claim(s.flavor, -1)
	if s.group != nil {
		if s.group.perHost[s.host.Name]--; s.group.perHost[s.host.Name] == 0 {
			delete(s.group.perHost, s.host.Name)
		}
	}
}

// unplug deletes the ports that Nova made and frees the others, which outlive the server.
func (svc *nova) unplug(s *server, at time.Time) {
	for _, n := range s.nics {
		p, known := svc.Network.port(n.port)
		if !known || p.deviceID != s.id {
			continue
		}
		if n.made {
			svc.Network.dropPort(p)
			continue
		}
		p.unbind(at)
	}
}

// startDelete accepts a deletion; asking again changes nothing. Servers without a living host go at once.
func (svc *nova) startDelete(s *server, at time.Time) {
	if s.state == deleted || s.task == "deleting" {
		return
	}
	svc.alter(s, at, func() { s.task = "deleting" })
	if s.host == nil || s.unclaimed || s.host.Down {
		svc.remove(s, at)
		return
	}
	svc.kernel.plan(at.Add(svc.cfg.DeleteTime), func(at time.Time) { svc.remove(s, at) })
}

// remove ends a server. Its row stays for changes-since, without metadata, tags and addresses.
func (svc *nova) remove(s *server, at time.Time) {
	if s.state == deleted {
		return
	}
	svc.unplug(s, at)
	svc.Volumes.release(s.volumes)
	svc.Inventory.count(s.project, s.flavor, -1)
	svc.alter(s, at, func() {
		s.state, s.task, s.terminated = deleted, "", at
		s.addresses, s.metadata, s.tags, s.volumes = object{}, nil, nil, nil
		svc.leaveHost(s)
	})
	if s.group != nil {
		s.group.leave(s.id)
	}
	svc.bury()
	if !s.announced {
		return
	}
	for _, f := range svc.onGone {
		svc.kernel.tell(func() { f(s.id) })
	}
}

// DeleteServer ends a server behind everybody's back, at once. False: there is none.
func (svc *nova) DeleteServer(id string) bool {
	return svc.withServer(id, func(s *server) { svc.remove(s, svc.kernel.now()) })
}

// FailServer puts a server into ERROR with that fault.
func (svc *nova) FailServer(id, message string) bool {
	return svc.withServer(id, func(s *server) {
		svc.alter(s, svc.kernel.now(), func() {
			s.state, s.task = failed, ""
			s.fault = &serverFault{code: http.StatusInternalServerError, created: svc.kernel.now(), message: message}
		})
	})
}

// StopServer shuts a server down, as its own operating system may: SHUTOFF.
func (svc *nova) StopServer(id string) bool {
	return svc.withServer(id, func(s *server) {
		svc.alter(s, svc.kernel.now(), func() { s.state, s.task = stopped, "" })
	})
}

// SetConsole sets what os-getConsoleOutput gives.
func (svc *nova) SetConsole(id, text string) bool {
	return svc.withServer(id, func(s *server) { s.console = text })
}

func (svc *nova) withServer(id string, f func(*server)) bool {
	s, known := svc.servers.get(id)
	if !known || s.state == deleted {
		return false
	}
	f(s)
	return true
}

// ArchiveDeleted forgets deleted servers, as `nova-manage db archive_deleted_rows` does: no list shows them again, and
// one of them as a marker is refused.
func (svc *nova) ArchiveDeleted() {
	svc.servers.drop(func(s *server) bool { return s.state == deleted })
	svc.deleted = 0
}

// maxDeleted is how many deleted servers are remembered at least; with twice as many the older half is archived, so that
// a cloud that runs for days does not grow.
const maxDeleted = 10_000

// bury counts a server that is deleted, and archives old ones. The lock is held.
func (svc *nova) bury() {
	if svc.deleted++; svc.deleted < 2*maxDeleted {
		return
	}
	left := maxDeleted
	svc.servers.drop(func(s *server) bool {
		goes := s.state == deleted && left > 0
		if goes {
			left--
		}
		return goes
	})
	svc.deleted -= maxDeleted
}
