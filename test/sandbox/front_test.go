package sandbox

import (
	"bufio"
	"net"
	"testing"
)

// answering returns the address of a listener that sends its name on each connection, and keeps the connection open.
func answering(t *testing.T, name string) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			if _, err := conn.Write([]byte(name + "\n")); err != nil {
				return
			}
		}
	}()
	return listener.Addr().String()
}

// greeting connects to the address, and returns the name that the listener sends.
func greeting(t *testing.T, address string) (string, *bufio.Reader) {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	reader := bufio.NewReader(conn)
	name, err := reader.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return name, reader
}

func TestTheSandboxForwardsNewConnectionsToTheLeadingReplicaOfDrover(t *testing.T) {
	one, other := answering(t, "one"), answering(t, "other")
	f, err := newFront(one)
	if err != nil {
		t.Fatal(err)
	}
	defer f.close()
	name, open := greeting(t, f.address())
	if name != "one\n" {
		t.Errorf("first: got %q", name)
	}
	f.lead(other)
	if _, err := open.ReadByte(); err == nil {
		t.Error("the connection to the first replica is still open")
	}
	if name, _ := greeting(t, f.address()); name != "other\n" {
		t.Errorf("after the fail-over: got %q", name)
	}
}
