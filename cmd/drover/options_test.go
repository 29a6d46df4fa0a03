package main

import (
	"strings"
	"testing"
	"time"
)

func TestOptionsSayWhatIsWrongWithThem(t *testing.T) {
	tls := func(o *options) { o.grpcCert, o.grpcKey, o.grpcClientCA = "a", "b", "c" }
	for _, tt := range []struct {
		name string
		set  func(*options)
		want string // part of the message; empty: valid
	}{
		{"mTLS on all interfaces", tls, ""},
		{"CA-C07 no TLS by accident", func(*options) {}, "--grpc-cert, --grpc-key and --grpc-client-ca are all needed"},
		{"a certificate without a client CA", func(o *options) { tls(o); o.grpcClientCA = "" }, "are all needed"},
		{"plaintext on loopback", func(o *options) { o.grpcInsecure, o.grpcAddress = true, "127.0.0.1:1" }, ""},
		{"plaintext on a socket", func(o *options) { o.grpcInsecure, o.grpcAddress = true, "unix:///run/drover.sock" }, ""},
		{"plaintext on all interfaces", func(o *options) { o.grpcInsecure = true }, "--grpc-insecure needs a loopback"},
		{"plaintext on another host", func(o *options) { o.grpcInsecure, o.grpcAddress = true, "192.0.2.1:8086" }, "--grpc-insecure needs a loopback"},
		{"plaintext and TLS", func(o *options) { tls(o); o.grpcInsecure, o.grpcAddress = true, "127.0.0.1:1" }, "exclude each other"},
		{"no address", func(o *options) { tls(o); o.grpcAddress = "8086" }, `--grpc-address "8086" is neither`},
		{"negative drain", func(o *options) { tls(o); o.drainTimeout = -time.Second }, "--drain-timeout -1s"},
		{"no time to join", func(o *options) { tls(o); o.joinTimeout = 0 }, "--join-timeout 0s"},
		{"nobody works", func(o *options) { tls(o); o.workers = 0 }, "--workers 0"},
		{"two faults are both named", func(o *options) { tls(o); o.workers, o.joinTimeout = 0, 0 }, "--join-timeout 0s is not positive\n--workers 0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := defaults()
			tt.set(o)
			err := o.validate()
			switch {
			case tt.want == "" && err != nil:
				t.Errorf("refused: %v", err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("got %v, want something with %q", err, tt.want)
			}
		})
	}
}
