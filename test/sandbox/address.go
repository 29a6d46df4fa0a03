package sandbox

import (
	"fmt"
	"net"

	"github.com/drover-project/drover/test/kube"
)

// claim returns an address on 127.0.0.1 with a free port when the port of address is 0, and address itself otherwise. It returns
// an error when no program can listen on address, or when address is not a loopback address.
func claim(flag, address string) (string, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", fmt.Errorf("%s %q is not host:port: %w", flag, address, err)
	}
	if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
		return "", fmt.Errorf("%s %q: the sandbox listens on loopback alone; use 127.0.0.1", flag, address)
	}
	if port == "0" {
		return kube.FreeAddress()
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return "", fmt.Errorf("%s %s cannot be listened on (%w): choose another port, or 0 for any that is free", flag, address, err)
	}
	return address, listener.Close()
}

// claimAll chooses free ports for those of drover's addresses whose port is 0, and checks all of the addresses. It is
// called before any program is started.
func (o *Options) claimAll() error {
	for _, a := range []struct {
		flag    string
		address *string
	}{
		{"--grpc-address", &o.GRPCAddress}, {"--metrics-address", &o.MetricsAddress}, {"--health-address", &o.HealthAddress},
	} {
		free, err := claim(a.flag, *a.address)
		if err != nil {
			return err
		}
		*a.address = free
	}
	return nil
}
