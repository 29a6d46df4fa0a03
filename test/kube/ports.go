package kube

import (
	"fmt"
	"math/rand/v2"
	"net"
	"regexp"
	"strconv"
	"sync/atomic"
)

// ports are the loopback ports that one cluster's components listen on.
type ports struct {
	api, etcdClient, etcdPeer, controllerManager, scheduler, kwok int
}

// Ports from firstPort to lastPort are below those that systems take for outgoing connections (from 32768 on Linux). Such a port is still
// free when the program that it was chosen for listens on it, however many connections are made meanwhile.
const firstPort, lastPort = 20000, 32767

// drawn is the last port that this process has chosen, counted from firstPort. It begins at a random one, so that processes that choose
// ports at the same time rarely choose the same.
var drawn atomic.Int64

func init() { drawn.Store(rand.Int64N(lastPort - firstPort + 1)) }

// FreeAddress returns an address on 127.0.0.1 on which no process listens. In one process it returns each address once, until it has gone
// through all ports of the range.
func FreeAddress() (string, error) {
	const attempts = 100
	var failed error
	for range attempts {
		address := local(firstPort + int(drawn.Add(1)%(lastPort-firstPort+1)))
		listener, err := net.Listen("tcp", address)
		if err == nil {
			return address, listener.Close()
		}
		failed = err
	}
	return "", fmt.Errorf("choosing a free port on 127.0.0.1: %d ports are in use, the last one with %w", attempts, failed)
}

func local(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// freePorts returns ports on which no process listens. Another process may take a port before the component listens on it; the component
// then ends, and Start tries again with other ports.
func freePorts() (p ports, err error) {
	for _, port := range []*int{&p.api, &p.etcdClient, &p.etcdPeer, &p.controllerManager, &p.scheduler, &p.kwok} {
		address, err := FreeAddress()
		if err != nil {
			return p, err
		}
		_, text, _ := net.SplitHostPort(address)
		if *port, err = strconv.Atoi(text); err != nil {
			return p, err
		}
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
