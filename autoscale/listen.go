package autoscale

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// unixScheme begins the address of a unix socket.
const unixScheme = "unix://"

// checkAddress returns an error when address is neither host:port nor unix:///path.
func checkAddress(address string) error {
	if path, isSocket := strings.CutPrefix(address, unixScheme); isSocket {
		if strings.HasPrefix(path, "/") {
			return nil
		}
		return fmt.Errorf("--grpc-address %s: the path of a socket begins with /, as in unix:///run/drover.sock", address)
	}
	_, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return fmt.Errorf("--grpc-address %s is neither host:port nor unix:///path", address)
	}
	return nil
}

// listen opens the port or socket of an address. Its error names the address and the flag.
func listen(ctx context.Context, address string) (net.Listener, error) {
	var config net.ListenConfig
	path, isSocket := strings.CutPrefix(address, unixScheme)
	if !isSocket {
		listener, err := config.Listen(ctx, "tcp", address)
		if errors.Is(err, syscall.EADDRINUSE) {
			return nil, fmt.Errorf("--grpc-address %s: the port is already in use; stop what uses it or choose another", address)
		}
		if err != nil {
			return nil, fmt.Errorf("--grpc-address %s: %w", address, err)
		}
		return listener, nil
	}
	if err := removeStale(ctx, path); err != nil {
		return nil, fmt.Errorf("--grpc-address %s: %w", address, err)
	}
	listener, err := config.Listen(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("--grpc-address %s: %w", address, err)
	}
	return listener, nil
}

// removeStale removes the socket that a killed process has left; one that answers, or a file that is no socket, is an
// error.
func removeStale(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode()&os.ModeSocket == 0 {
		return errors.New("a file that is no socket is there; remove it or choose another path")
	}
	var dialer net.Dialer
	if conn, err := dialer.DialContext(ctx, "unix", path); err == nil {
		_ = conn.Close()
		return errors.New("the socket is already in use; stop what uses it or choose another")
	}
	return os.Remove(path)
}

// mayBePlain tells whether traffic to an address never leaves the machine.
func mayBePlain(address string) bool {
	if strings.HasPrefix(address, unixScheme) {
		return true
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}
