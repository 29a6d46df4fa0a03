package kube

import (
	"errors"
	"net"
	"testing"
)

func TestATakenPortIsNamed(t *testing.T) {
	bin, err := Binaries(t.Context(), t.Output())
	if err != nil {
		t.Fatal(err)
	}
	dir, release, err := OwnFolder("", tempPattern)
	if err != nil {
		t.Fatal(err)
	}
	c := newCluster(dir, bin, release)
	defer c.Stop()
	if err := c.prepare(); err != nil {
		t.Fatal(err)
	}
	taken, err := net.Listen("tcp", local(c.ports.etcdClient))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	err = c.startCore(t.Context(), Options{})
	var refused *portTakenError
	if !errors.As(err, &refused) || refused.component != etcd || refused.address != taken.Addr().String() {
		t.Errorf("the error is %v, want one that names etcd and %s", err, taken.Addr())
	}
}

func TestTheLastLinesOfALog(t *testing.T) {
	for name, test := range map[string]struct{ log, want string }{
		"of more":  {"a\nb\nc\n", "b\nc"},
		"of fewer": {"a\n", "a"},
		"of none":  {"", ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := string(lastLines([]byte(test.log), 2)); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
