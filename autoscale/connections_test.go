package autoscale

import (
	"net"
	"slices"
	"testing"
)

// addressed is a connection from an address.
type addressed struct {
	net.Conn
	name, from string
	closed     *[]string
}

func (f addressed) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.ParseIP(f.from), Port: 1} }

func (f addressed) Close() error {
	*f.closed = append(*f.closed, f.name)
	return nil
}

func TestWhichConnectionIsClosedAtTheLimit(t *testing.T) {
	const mine, theirs = "10.0.0.1", "10.0.0.2"
	for name, tt := range map[string]struct {
		from []string // of the connections a, b, c and so on; at most three may be open
		want []string
	}{
		"no connection is closed while there are as many as the limit":                                   {[]string{theirs, mine, theirs}, nil},
		"the oldest connection of the address with most is closed, not the oldest of all (F-98)":         {[]string{mine, theirs, theirs, theirs}, []string{"b"}},
		"a new connection of another address closes one of the address with most (F-98)":                 {[]string{theirs, theirs, theirs, mine}, []string{"a"}},
		"a flood from one address closes its own connections and leaves those of other addresses (F-98)": {[]string{mine, theirs, theirs, theirs, theirs, theirs}, []string{"b", "c", "d"}},
		"the oldest of all is closed when each address has one":                                          {[]string{mine, theirs, "10.0.0.3", "::1"}, []string{"a"}},
	} {
		t.Run(name, func(t *testing.T) {
			var closed []string
			c := NewConnections(3)
			for i, from := range tt.from {
				c.Add(addressed{name: string(rune('a' + i)), from: from, closed: &closed})
			}
			if !slices.Equal(closed, tt.want) {
				t.Errorf("closed are %v, want %v", closed, tt.want)
			}
		})
	}
}

func TestAConnectionCountsUntilItIsClosed(t *testing.T) {
	var closed []string
	c := NewConnections(1)
	first := addressed{name: "first", from: "10.0.0.1", closed: &closed}
	if err := c.UntilClosed(first, first).Close(); err != nil {
		t.Fatal(err)
	}
	c.Add(addressed{name: "second", from: "10.0.0.1", closed: &closed})
	if !slices.Equal(closed, []string{"first"}) {
		t.Errorf("closed are %v, want only the connection that its server closed", closed)
	}
}
