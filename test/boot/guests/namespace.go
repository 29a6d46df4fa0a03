//go:build boot

package guests

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
)

// inside is the name of an environment variable that is set only in the network namespace. Its value is the path of the socket
// through which relay connects the namespace with the outside.
const inside = "DROVER_BOOT_RELAY"

// Isolated reports whether this process is in its own network namespace.
func Isolated() bool { return os.Getenv(inside) != "" }

// LoopbackUp brings up the loopback device of the namespace.
func LoopbackUp() error { return run("ip link set lo up") }

// Isolate runs this program again with the same arguments, in a new network namespace, and returns its exit code. The
// namespace has only a loopback device, which [LoopbackUp] brings up. [Reach] connects the namespace with the outside,
// through a socket in dir. The kernel kills the new process when this one ends.
func Isolate(ctx context.Context, dir string) (int, error) {
	socket := dir + "/relay"
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return 1, fmt.Errorf("listening for the relay: %w", err)
	}
	defer func() { _ = listener.Close() }()
	go relay(listener)

	// The kernel kills the child when the thread that started it ends, so this goroutine keeps its thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.CommandContext(ctx, "/proc/self/exe", os.Args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), inside+"="+socket)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	err = cmd.Run()
	if cmd.ProcessState != nil {
		return cmd.ProcessState.ExitCode(), nil
	}
	return 1, fmt.Errorf("running the test again in a network namespace of its own: %w", err)
}

// relay reads an address and a line feed from each connection, and connects it with that address outside of the namespace.
func relay(listener net.Listener) {
	serve(listener, func(in net.Conn) (net.Conn, error) {
		var address strings.Builder
		for one := make([]byte, 1); ; address.WriteByte(one[0]) {
			if _, err := io.ReadFull(in, one); err != nil {
				return nil, err
			}
			if one[0] == '\n' {
				return net.Dial("tcp", address.String())
			}
		}
	})
}

// Reach makes loopback addresses of the machine reachable in the namespace, under the same addresses. It returns an
// error if an address is in use.
func Reach(addresses ...string) error {
	for _, address := range addresses {
		listener, err := net.Listen("tcp", address)
		if err != nil {
			return fmt.Errorf("listening in the namespace: %w", err)
		}
		go serve(listener, func(net.Conn) (net.Conn, error) {
			out, err := net.Dial("unix", os.Getenv(inside))
			if err == nil {
				_, err = io.WriteString(out, address+"\n")
			}
			return out, err
		})
	}
	return nil
}

// serve connects each connection that the listener accepts with the connection that dial returns.
func serve(listener net.Listener, dial func(in net.Conn) (net.Conn, error)) {
	for {
		in, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			defer func() { _ = in.Close() }()
			out, err := dial(in)
			if err != nil {
				return
			}
			defer func() { _ = out.Close() }()
			go copyHalf(out, in)
			copyHalf(in, out)
		}()
	}
}

// copyHalf copies one direction of a connection, and closes that direction at its end.
func copyHalf(to io.Writer, from io.Reader) {
	_, _ = io.Copy(to, from)
	if half, ok := to.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}
