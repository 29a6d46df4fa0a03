//go:build boot

package guests

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"
	"time"
)

// Guest holds what the cloud knows about a server, and what the virtual machine boots.
type Guest struct {
	// ID and Name are the ID and the name of the server.
	ID, Name string
	// Address and MAC are the addresses of the server's port. Without a MAC, one is derived from the address.
	Address netip.Addr
	MAC     string
	// VCPUs and Memory (in MiB) are the size of the server's flavor.
	VCPUs, Memory int
	// Disk is the image; the guest writes to a copy of it. Initrd, and Append for the kernel's command line, may be empty.
	Disk, Kernel, Initrd, Append string
	// UserData and Metadata are the contents of user_data and meta_data.json from the metadata service.
	UserData, Metadata []byte
	// ConfigDrive is true when the guest finds UserData and Metadata on a drive, and the metadata service answers 404.
	ConfigDrive bool
	// NoResolver is true when DHCP names a DNS resolver that does not answer.
	NoResolver bool
}

// hardware returns the MAC address of the guest's network card.
func (g *Guest) hardware() string {
	if g.MAC != "" {
		return g.MAC
	}
	a := g.Address.As4()
	return fmt.Sprintf("fa:16:3e:%02x:%02x:%02x", a[1], a[2], a[3])
}

func (g *Guest) tap() string { a := g.Address.As4(); return fmt.Sprintf("tap-%d-%d", a[2], a[3]) }

// running is a guest that has been started.
type running struct {
	guest   *Guest
	dir     string
	process *process
}

// niceness is added to the niceness of QEMU. It leaves processor time to the control plane. Otherwise emulated guests use all
// processors, the API server does not answer in time, and drover fails to renew its lease and exits.
const niceness = "10"

// Boot starts a guest. It returns an error if the guest's disk or network device cannot be created, or if QEMU does not
// start.
func (n *Network) Boot(g *Guest) error {
	r := &running{guest: g, dir: n.path(g.Name)}
	if err := os.MkdirAll(r.dir, 0o755); err != nil {
		return fmt.Errorf("making the guest's folder: %w", err)
	}
	err := errors.Join(n.lease(g), run(
		"qemu-img create -q -f qcow2 -F raw -b "+g.Disk+" "+r.dir+"/disk.qcow2",
		"ip tuntap add dev "+g.tap()+" mode tap", "ip link set "+g.tap()+" master "+bridge+" up",
	))
	if err == nil && g.ConfigDrive {
		err = r.writeDrive()
	}
	if err == nil {
		r.process, err = start(r.dir+"/qemu.log", "nice", append([]string{"-n", niceness, "qemu-system-x86_64"}, r.arguments()...)...)
	}
	if err != nil {
		return fmt.Errorf("booting %s: %w", g.Name, err)
	}
	n.mu.Lock()
	n.guests[g.ID], n.byAddress[g.Address.String()] = r, g.ID
	n.mu.Unlock()
	n.options.Log("guest %s (%s, %s): started", g.Name, g.ID, g.Address)
	go n.follow(r)
	return nil
}

// arguments returns the arguments of QEMU. The SMBIOS fields have Nova's values, by which cloud-init and Ignition
// recognize OpenStack.
func (r *running) arguments() []string {
	g := r.guest
	args := []string{
		"-name", g.Name, "-machine", "q35", "-accel", accelerator(), "-cpu", "max", "-smp", strconv.Itoa(g.VCPUs), "-m", strconv.Itoa(g.Memory),
		"-kernel", g.Kernel, "-append", "root=/dev/vda rw console=ttyS0 net.ifnames=0 " + g.Append,
		"-drive", "file=" + r.dir + "/disk.qcow2,if=virtio,format=qcow2,cache=unsafe",
		"-netdev", "tap,id=n0,ifname=" + g.tap() + ",script=no,downscript=no", "-device", "virtio-net-pci,netdev=n0,mac=" + g.hardware(),
		"-device", "virtio-rng-pci",
		"-smbios", "type=1,manufacturer=OpenStack Foundation,product=OpenStack Nova,version=26.2.2,uuid=" + g.ID + ",serial=" + g.ID,
		"-display", "none", "-serial", "file:" + r.dir + "/console.log", "-monitor", "unix:" + r.dir + "/monitor,server=on,wait=off",
	}
	if g.Initrd != "" {
		args = append(args, "-initrd", g.Initrd)
	}
	if g.ConfigDrive {
		args = append(args, "-drive", "file="+r.dir+"/drive.iso,if=virtio,format=raw,readonly=on")
	}
	return args
}

// accelerator returns the accelerator in DROVER_BOOT_ACCEL, such as kvm. The default is QEMU's emulation.
func accelerator() string {
	if a := os.Getenv("DROVER_BOOT_ACCEL"); a != "" {
		return a
	}
	return "tcg,thread=multi"
}

// follow passes the guest's console to the options' Console every two seconds, until the guest has ended.
func (n *Network) follow(r *running) {
	const most = 64 << 10
	ticker := time.NewTicker(2 * time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-r.process.ended:
			n.options.Log("guest %s: ended", r.guest.Name)
			n.mu.Lock()
			defer n.mu.Unlock()
			if n.guests[r.guest.ID] == r {
				text, _ := os.ReadFile(r.process.log)
				n.failure = fmt.Errorf("QEMU of guest %s has ended: %s", r.guest.Name, text)
			}
			return
		case <-ticker.C:
			if n.options.Console != nil {
				text := n.Console(r.guest.ID)
				n.options.Console(r.guest.ID, text[max(0, len(text)-most):])
			}
		}
	}
}

// Err returns an error when a guest has ended without PowerOff.
func (n *Network) Err() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.failure
}

// Console returns everything that a guest has printed on its console. It is empty when there is no such guest.
func (n *Network) Console(id string) string {
	if r := n.find(id); r != nil {
		data, _ := os.ReadFile(r.dir + "/console.log")
		return string(data)
	}
	return ""
}

// Consoles returns the consoles of the running guests, by their names.
func (n *Network) Consoles() map[string]string {
	n.mu.Lock()
	names := map[string]string{}
	for id, r := range n.guests {
		names[r.guest.Name] = id
	}
	n.mu.Unlock()
	for name, id := range names {
		names[name] = n.Console(id)
	}
	return names
}

func (n *Network) find(id string) *running {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.guests[id]
}

// Reboot presses Ctrl-Alt-Delete on a guest's keyboard, which makes systemd reboot the guest. It returns an error if
// there is no such guest or QEMU does not answer.
func (n *Network) Reboot(id string) error {
	r := n.find(id)
	if r == nil {
		return fmt.Errorf("rebooting: guest %s does not exist", id)
	}
	conn, err := net.Dial("unix", r.dir+"/monitor")
	if err != nil {
		return fmt.Errorf("rebooting %s: %w", r.guest.Name, err)
	}
	defer func() { _ = conn.Close() }()
	_, err = io.WriteString(conn, "sendkey ctrl-alt-delete\n")
	if err == nil {
		// QEMU does not close the connection. It has read the command within a second.
		err = conn.SetReadDeadline(time.Now().Add(time.Second))
		_, _ = io.Copy(io.Discard, conn)
	}
	return err
}

// PowerOff ends a guest without a shutdown, as the deletion of its server does. It does nothing when there is no such guest.
func (n *Network) PowerOff(id string) {
	n.mu.Lock()
	r := n.guests[id]
	if r != nil {
		delete(n.guests, id)
		delete(n.byAddress, r.guest.Address.String())
	}
	n.mu.Unlock()
	if r == nil {
		return
	}
	r.process.kill()
	_ = os.Remove(n.path("dhcp", id))
	_ = os.Remove(r.dir + "/disk.qcow2")
	_ = run("ip link del " + r.guest.tap())
}
