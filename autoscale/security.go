package autoscale

import (
	"errors"
	"fmt"

	"k8s.io/utils/clock"
)

// Validate checks the addresses, and reads and checks the TLS files. Its error names the flag that is not valid.
func (o Options) Validate() error {
	o = o.withDefaults()
	if err := errors.Join(checkAddresses(o.Address), checkSecurity(o)); err != nil || o.SelfSigned || o.plain() {
		return err
	}
	_, err := newFiles(o)
	return err
}

func (o Options) withDefaults() Options {
	if o.Address == "" {
		o.Address = DefaultAddress
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return o
}

// plain reports whether all addresses are served without TLS.
func (o Options) plain() bool { return o.Insecure || len(networked(o.Address)) == 0 }

// checkSecurity returns an error when the options contradict each other, or when they would serve without TLS on an address that
// other hosts can reach.
func checkSecurity(o Options) error {
	given := o.Cert != ""
	secured := given || o.SelfSigned || len(o.AllowedClients) > 0
	switch {
	case o.Insecure && secured:
		return errors.New("--features=grpc-insecure cannot be combined with --grpc-cert-dir, --grpc-secrets or --grpc-allowed-clients")
	case o.plain() && secured:
		return fmt.Errorf("--grpc-address %s: a unix socket has no TLS, because its file permissions decide who may call; remove --grpc-cert-dir, --grpc-secrets and --grpc-allowed-clients", o.Address)
	case o.Insecure:
		return checkLoopback(o.Address)
	case o.plain():
		return nil
	case o.SelfSigned && given:
		return errors.New("--grpc-secrets cannot be combined with --grpc-cert-dir")
	case !o.SelfSigned && !given:
		return errors.New("gRPC has no certificates: set --grpc-cert-dir or --grpc-secrets; or use --features=grpc-insecure on a loopback address, or a unix socket")
	}
	return nil
}

// checkLoopback returns an error for addresses that other machines can reach.
func checkLoopback(list string) error {
	for _, address := range networked(list) {
		if !isLoopback(address) {
			return fmt.Errorf("--features=grpc-insecure: %s can be reached from other machines; listen on 127.0.0.1, ::1 or unix:///path, or set --grpc-cert-dir or --grpc-secrets", address)
		}
	}
	return nil
}
