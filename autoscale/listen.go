package autoscale

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"syscall"
)

// unixScheme is the prefix of the address of a unix socket.
const unixScheme = "unix://"

// addresses returns the addresses in a comma-separated list.
func addresses(list string) []string { return strings.Split(list, ",") }

// checkAddresses returns an error for each address in list that is neither host:port nor unix:///path.
func checkAddresses(list string) error {
	var errs []error
	for _, address := range addresses(list) {
		errs = append(errs, checkAddress(address))
	}
	return errors.Join(errs...)
}

func checkAddress(address string) error {
	if path, isSocket := strings.CutPrefix(address, unixScheme); isSocket {
		switch {
		case !strings.HasPrefix(path, "/"):
			return fmt.Errorf("--grpc-address %s: the path of a socket begins with /, as in unix:///run/drover/grpc.sock", address)
		case len(path) > longestSocket:
			return fmt.Errorf("--grpc-address %s: a socket path can have at most %d bytes, and this one has %d", address, longestSocket, len(path))
		case strings.Contains(path, ":"):
			// cluster-autoscaler splits its address at the last colon, and returns an error when the part before
			// that has a colon too, as in unix:///a:b.
			return fmt.Errorf("--grpc-address %s: cluster-autoscaler takes no path with a colon", address)
		}
		return nil
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

// listenAll opens the ports and sockets of all addresses in list. On an error it closes those that it has opened.
func listenAll(ctx context.Context, list string) ([]net.Listener, error) {
	var open []net.Listener
	for _, address := range addresses(list) {
		listener, err := listen(ctx, address)
		if err != nil {
			for _, l := range open {
				err = errors.Join(err, l.Close())
			}
			return nil, err
		}
		open = append(open, listener)
	}
	return open, nil
}

// listen opens the port or socket of an address. Its error names the address and the flag.
func listen(ctx context.Context, address string) (listener net.Listener, err error) {
	if path, isSocket := strings.CutPrefix(address, unixScheme); isSocket {
		listener, err = listenSocket(ctx, path)
	} else {
		var config net.ListenConfig
		listener, err = config.Listen(ctx, "tcp", address)
	}
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("--grpc-address %s: the port is already in use; stop what uses it or choose another", address)
	}
	if err != nil {
		return nil, fmt.Errorf("--grpc-address %s: %w", address, err)
	}
	return listener, nil
}

// networked returns the addresses in list that are not unix sockets.
func networked(list string) (ports []string) {
	for _, address := range addresses(list) {
		if !strings.HasPrefix(address, unixScheme) {
			ports = append(ports, address)
		}
	}
	return ports
}

// isLoopback reports whether traffic to host:port never leaves the machine.
func isLoopback(address string) bool {
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
