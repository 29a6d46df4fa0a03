package nova

import (
	"net/http"
	"time"

	"github.com/drover-project/drover/test/openstack/internal/wire"
)

// fail puts a server into ERROR. As in Nova, the server frees the resources of its host, but still counts towards the
// quota.
func (svc *Service) fail(s *server, at time.Time, message string) {
	svc.unplug(s, at)
	svc.alter(s, at, func() {
		s.state, s.task = failed, ""
		s.fault = &serverFault{code: http.StatusInternalServerError, created: at, message: message}
		s.addresses = wire.Object{}
		svc.leaveHost(s)
		s.host, s.unclaimed, s.plugged = nil, false, false
	})
}

func (svc *Service) leaveHost(s *server) {
	if s.host != nil {
		s.host.Vacate(s.flavor, s.group)
	}
}

// unplug deletes the ports that Nova created, and unbinds the others, which outlive the server.
func (svc *Service) unplug(s *server, at time.Time) {
	for _, n := range s.nics {
		p, known := svc.Network.Port(n.port)
		if !known || p.DeviceID != s.id {
			continue
		}
		if n.made {
			svc.Ports.DropPort(p)
			continue
		}
		p.Unbind(at)
	}
}

// startDelete accepts a deletion. A repeated request changes nothing. Servers without a running host are deleted
// immediately.
func (svc *Service) startDelete(s *server, at time.Time) {
	if s.state == deleted || s.task == "deleting" {
		return
	}
	svc.alter(s, at, func() { s.task = "deleting" })
	if s.host == nil || s.unclaimed || s.host.Down {
		svc.remove(s, at)
		return
	}
	svc.kernel.Plan(at.Add(svc.cfg.DeleteTime), func(at time.Time) { svc.remove(s, at) })
}

// remove deletes a server. Its row stays for changes-since, without metadata, tags and addresses.
func (svc *Service) remove(s *server, at time.Time) {
	if s.state == deleted {
		return
	}
	svc.unplug(s, at)
	svc.Volumes.Release(s.volumes, s.state == failed && svc.cfg.FailedBuildsLeaveVolumes)
	svc.Inventory.Count(s.project, s.flavor, -1)
	svc.alter(s, at, func() {
		s.state, s.task, s.terminated = deleted, "", at
		s.addresses, s.metadata, s.tags, s.volumes = wire.Object{}, nil, nil, nil
		svc.leaveHost(s)
	})
	if s.group != nil {
		s.group.Leave(s.id)
	}
	svc.bury()
	if !s.announced {
		return
	}
	for _, f := range svc.onGone {
		svc.kernel.Tell(func() { f(s.id) })
	}
}

// DeleteServer deletes a server immediately, without a call to the API. It returns false when there is no such server.
func (svc *Service) DeleteServer(id string) bool {
	return svc.withServer(id, func(s *server) { svc.remove(s, svc.kernel.Now()) })
}

// FailServer puts a server into ERROR with the given fault.
func (svc *Service) FailServer(id, message string) bool {
	return svc.withServer(id, func(s *server) {
		svc.alter(s, svc.kernel.Now(), func() {
			s.state, s.task = failed, ""
			s.fault = &serverFault{code: http.StatusInternalServerError, created: svc.kernel.Now(), message: message}
		})
	})
}

// StopServer puts a server into SHUTOFF, as when its own operating system shuts it down.
func (svc *Service) StopServer(id string) bool {
	return svc.withServer(id, func(s *server) {
		svc.alter(s, svc.kernel.Now(), func() { s.state, s.task = stopped, "" })
	})
}

// ChangeServer sets the vm_state and task_state of a server, as an action of a user does.
func (svc *Service) ChangeServer(id, state, task string) bool {
	return svc.withServer(id, func(s *server) {
		svc.alter(s, svc.kernel.Now(), func() { s.state, s.task = state, task })
	})
}

// SetConsole sets the text that os-getConsoleOutput returns.
func (svc *Service) SetConsole(id, text string) bool {
	return svc.withServer(id, func(s *server) { s.console = text })
}

func (svc *Service) withServer(id string, f func(*server)) bool {
	s, known := svc.servers.Get(id)
	if !known || s.state == deleted {
		return false
	}
	f(s)
	return true
}

// ArchiveDeleted removes deleted servers from the database, as `nova-manage db archive_deleted_rows` does: no list shows
// them again, and they are refused as a marker.
func (svc *Service) ArchiveDeleted() {
	svc.servers.Drop(func(s *server) bool { return s.state == deleted })
	svc.deleted = 0
}

// maxDeleted is how many deleted servers are stored at least. When there are twice as many, the older half is archived,
// so that the memory of a long-running cloud does not grow.
const maxDeleted = 10_000

// bury counts a deleted server, and archives old ones. The caller holds the lock.
func (svc *Service) bury() {
	if svc.deleted++; svc.deleted < 2*maxDeleted {
		return
	}
	left := maxDeleted
	svc.servers.Drop(func(s *server) bool {
		goes := s.state == deleted && left > 0
		if goes {
			left--
		}
		return goes
	})
	svc.deleted -= maxDeleted
}
