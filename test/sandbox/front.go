package sandbox

import (
	"io"
	"net"
	"sync"
)

// front is an address that forwards to one of several replicas, like a Service.
type front struct {
	listener net.Listener
	work     sync.WaitGroup

	mu     sync.Mutex
	target string
	open   map[net.Conn]bool
}

func newFront(target string) (*front, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	f := &front{listener: listener, target: target, open: map[net.Conn]bool{}}
	f.work.Go(f.serve)
	return f, nil
}

func (f *front) address() string { return f.listener.Addr().String() }

func (f *front) serve() {
	for {
		conn, err := f.listener.Accept()
		if err != nil {
			return
		}
		f.work.Go(func() { f.relay(conn) })
	}
}

// relay forwards one connection to the current replica.
func (f *front) relay(from net.Conn) {
	defer f.drop(from)
	f.mu.Lock()
	target := f.target
	f.open[from] = true
	f.mu.Unlock()
	to, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	f.mu.Lock()
	f.open[to] = true
	f.mu.Unlock()
	defer f.drop(to)
	f.work.Go(func() {
		defer f.drop(from)
		_, _ = io.Copy(from, to)
	})
	_, _ = io.Copy(to, from)
}

func (f *front) drop(conn net.Conn) {
	_ = conn.Close()
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.open, conn)
}

// lead forwards new connections to another replica and cuts the existing ones.
func (f *front) lead(target string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.target = target
	for conn := range f.open {
		_ = conn.Close()
	}
}

func (f *front) close() {
	_ = f.listener.Close()
	f.lead("")
	f.work.Wait()
}
