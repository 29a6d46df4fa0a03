//go:build boot

package guests

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// Addresses in the namespace.
const (
	// MetadataAddress is the address of Nova's metadata service.
	MetadataAddress = "169.254.169.254"
	// ServiceAddress is the address of the Service kubernetes. The API server's certificate contains it.
	ServiceAddress = "10.96.0.1"
	// internetAddress is the address of all download hosts.
	internetAddress = "203.0.113.10"
	// bridge is the name of the network device of the guests' subnet.
	bridge = "br0"
	// mtu is the MTU of a cloud's overlay network.
	mtu = 1450
)

// Options configure a [Network].
type Options struct {
	// Dir holds disks, consoles and logs.
	Dir string
	// Subnet is the guests' network. Its first address is the gateway.
	Subnet netip.Prefix
	// APIServer is the host:port to which port 443 of [ServiceAddress] leads.
	APIServer string
	// Internet is what guests can download. Nil means nothing.
	Internet *Internet
	// Console receives everything that a guest has printed so far, every two seconds. Nil means that the output is
	// dropped.
	Console func(id, text string)
	// Log is called with a line per event.
	Log func(format string, values ...any)
}

// Network is a subnet with the guests in it.
type Network struct {
	options   Options
	processes []*process
	listeners []net.Listener

	mu     sync.Mutex
	guests map[string]*running
	// byAddress holds the IDs of the guests, by address.
	byAddress map[string]string
	// failure is set when a guest has ended without PowerOff.
	failure error
}

// Open creates the network in an empty network namespace. It returns an error if a device, an address or dnsmasq cannot
// be set up.
func Open(o Options) (*Network, error) {
	n := &Network{options: o, guests: map[string]*running{}, byAddress: map[string]string{}}
	if err := n.open(); err != nil {
		n.Close()
		return nil, err
	}
	return n, nil
}

func (n *Network) open() error {
	if err := os.MkdirAll(n.path("dhcp"), 0o755); err != nil {
		return fmt.Errorf("making the network's folder: %w", err)
	}
	gateway := n.gateway()
	err := run(
		"ip link add "+bridge+" type bridge", "ip link set "+bridge+" up",
		fmt.Sprintf("ip addr add %s/%d dev %s", gateway, n.options.Subnet.Bits(), bridge),
		"ip addr add "+MetadataAddress+"/32 dev lo", "ip addr add "+ServiceAddress+"/32 dev lo", "ip addr add "+internetAddress+"/32 dev lo",
	)
	if err != nil {
		return err
	}
	if err := n.serveDHCP(); err != nil {
		return err
	}
	if i := n.options.Internet; i != nil {
		i.log = n.options.Log
		if err := n.listen(internetAddress+":443", i.serve); err != nil {
			return err
		}
	}
	if err := n.listen(MetadataAddress+":80", func(l net.Listener) {
		_ = (&http.Server{Handler: http.HandlerFunc(n.metadata), ReadHeaderTimeout: time.Minute}).Serve(l)
	}); err != nil {
		return err
	}
	return n.listen(ServiceAddress+":443", func(l net.Listener) {
		serve(l, func(net.Conn) (net.Conn, error) { return net.Dial("tcp", n.options.APIServer) })
	})
}

func (n *Network) listen(address string, serve func(net.Listener)) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("listening in the namespace: %w", err)
	}
	n.listeners = append(n.listeners, listener)
	go serve(listener)
	return nil
}

func (n *Network) path(names ...string) string {
	return filepath.Join(append([]string{n.options.Dir}, names...)...)
}

func (n *Network) gateway() netip.Addr { return n.options.Subnet.Masked().Addr().Next() }

// serveDHCP starts dnsmasq, which assigns each guest the address of its port, and resolves the download hosts to this machine. The
// resolver of guests with NoResolver is an address that no machine has.
func (n *Network) serveDHCP() error {
	silent := n.gateway().Next()
	args := []string{
		// Without --no-daemon, dnsmasq changes its capabilities, and then the kernel does not kill it when this process ends.
		"--no-daemon", "--conf-file=/dev/null", "--interface=" + bridge, "--bind-interfaces",
		fmt.Sprintf("--dhcp-range=%s,static,600", n.options.Subnet.Masked().Addr()), "--dhcp-hostsdir=" + n.path("dhcp"),
		fmt.Sprintf("--dhcp-option=option:router,%s", n.gateway()), fmt.Sprintf("--dhcp-option=option:mtu,%d", mtu),
		fmt.Sprintf("--dhcp-option=tag:%s,option:dns-server,%s", noResolverTag, silent),
		"--dhcp-authoritative", "--no-resolv", "--no-hosts", "--dhcp-leasefile=" + n.path("leases"), "--log-dhcp",
	}
	for _, host := range downloadHosts {
		args = append(args, "--address=/"+host+"/"+internetAddress)
	}
	p, err := start(n.path("dnsmasq.log"), "dnsmasq", args...)
	if err == nil {
		n.processes = append(n.processes, p)
	}
	return err
}

// noResolverTag is the tag in dnsmasq's configuration for guests with NoResolver.
const noResolverTag = "noResolverTag"

// lease makes dnsmasq assign a guest its address. The host name is derived from the address, as in Neutron's DHCP.
func (n *Network) lease(g *Guest) error {
	tag := ""
	if g.NoResolver {
		tag = ",set:" + noResolverTag
	}
	line := fmt.Sprintf("%s%s,%s,host-%s,600\n", g.hardware(), tag, g.Address, strings.NewReplacer(".", "-", ":", "-").Replace(g.Address.String()))
	return os.WriteFile(n.path("dhcp", g.ID), []byte(line), 0o644)
}

// Route adds a route to a network behind a guest, such as its pod network.
func (n *Network) Route(behind netip.Prefix, address netip.Addr) error {
	return run(fmt.Sprintf("ip route replace %s via %s", behind, address))
}

// Close stops all guests and removes the network.
func (n *Network) Close() {
	n.mu.Lock()
	var ids []string
	for id := range n.guests {
		ids = append(ids, id)
	}
	n.mu.Unlock()
	for _, id := range ids {
		n.PowerOff(id)
	}
	for _, p := range n.processes {
		p.kill()
	}
	for _, listener := range n.listeners {
		_ = listener.Close()
	}
	_ = run("ip link del "+bridge, "ip addr flush dev lo scope global")
}
