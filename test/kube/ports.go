package kube

import (
	"fmt"
	"net"
	"regexp"
)

// ports are the loopback ports that one cluster's components listen on.
type ports struct {
	api, etcdClient, etcdPeer, controllerManager, scheduler, kwok int
}

// freePorts returns ports on which no process listens. Another process may take a port before the component listens on it; the component
// then ends, and Start tries again with other ports.
func freePorts() (p ports, err error) {
	for _, port := range []*int{&p.api, &p.etcdClient, &p.etcdPeer, &p.controllerManager, &p.scheduler, &p.kwok} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return p, fmt.Errorf("drawing a free port on 127.0.0.1: %w", err)
		}
		// The port stays in use until all ports are chosen, so that no two are the same.
		defer func() { _ = listener.Close() }()
		*port = listener.Addr().(*net.TCPAddr).Port
	}
	return p, nil
}

// portTakenError is the error of a component whose port is in use.
type portTakenError struct{ component, address string }

func (e *portTakenError) Error() string {
	return fmt.Sprintf("%s ended: its address %s is in use by another process; stop that one or start again for another port", e.component, e.address)
}

var addressInUse = regexp.MustCompile(`(127\.0\.0\.1:\d+): bind: address already in use`)

// takenPort returns the address on which a component could not listen, from the last lines of its log.
func takenPort(tail []byte) (address string, taken bool) {
	match := addressInUse.FindSubmatch(tail)
	if match == nil {
		return "", false
	}
	return string(match[1]), true
}
