package autoscale

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"
)

const (
	// socketMode is the mode of the socket's file: only drover's own user and group may connect.
	socketMode = 0o660
	// directoryMode is the mode of a directory that drover creates for its socket.
	directoryMode = 0o750
	// longestSocket is the maximum length of a socket's path on Linux, in bytes.
	longestSocket = 107
)

// listenSocket opens a unix socket that only drover's user and group may use. There is no TLS: the permissions of the socket
// and of its directory decide who may call.
func listenSocket(ctx context.Context, path string) (net.Listener, error) {
	if err := checkDirectory(filepath.Dir(path)); err != nil {
		return nil, err
	}
	if err := removeStale(ctx, path); err != nil {
		return nil, err
	}
	listener, err := bindSocket(ctx, path)
	if err != nil {
		return nil, err
	}
	// The mode is set again, because the umask may have removed the group's permissions.
	if err := os.Chmod(path, socketMode); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	return listener, nil
}

// bindSocket creates the socket. On Linux the socket's file is created with the socket's mode, reduced by the umask, so that
// no other user can connect before listenSocket sets the file's mode.
func bindSocket(ctx context.Context, path string) (net.Listener, error) {
	config := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		return raw.Control(func(fd uintptr) { _ = syscall.Fchmod(int(fd), socketMode) })
	}}
	return config.Listen(ctx, "unix", path)
}

// checkDirectory creates the directory of a socket, but only if the parent directory exists.
//
// Errors: another user could replace drover's socket with their own.
func checkDirectory(dir string) error {
	info, err := os.Stat(dir)
	if errors.Is(err, os.ErrNotExist) {
		if err := os.Mkdir(dir, directoryMode); err != nil && !errors.Is(err, os.ErrExist) {
			return fmt.Errorf("making the directory of the socket: %w", err)
		}
		info, err = os.Stat(dir)
	}
	if err != nil {
		return fmt.Errorf("reading the owner and the permissions of the directory of the socket: %w", err)
	}
	if info.Mode().Perm()&0o002 != 0 {
		return fmt.Errorf("every user may write to the directory %s; name a socket in a subdirectory, such as %s; drover creates the subdirectory", dir, filepath.Join(dir, "drover", "grpc.sock"))
	}
	if owner, ok := info.Sys().(*syscall.Stat_t); ok && owner.Uid != 0 && int(owner.Uid) != os.Geteuid() {
		return fmt.Errorf("the directory %s belongs to user %d, neither to root nor to drover's user %d; name a socket in another directory", dir, owner.Uid, os.Geteuid())
	}
	return nil
}

// removeStale removes the socket that a killed process left behind.
//
// Errors: another process serves the socket, or the file is not a socket.
func removeStale(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode()&os.ModeSocket == 0 {
		return fmt.Errorf("%s exists and is not a socket; remove it or choose another path", path)
	}
	var dialer net.Dialer
	if conn, err := dialer.DialContext(ctx, "unix", path); err == nil {
		_ = conn.Close()
		return errors.New("the socket is already in use; stop what uses it or choose another")
	}
	return os.Remove(path)
}

// onSocket reports whether a connection came through a unix socket.
func onSocket(conn net.Conn) bool { return conn.LocalAddr().Network() == "unix" }
