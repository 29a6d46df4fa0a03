//go:build boot

package guests

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
)

// documents returns what Nova publishes about a guest, by file name.
func (g *Guest) documents() map[string][]byte {
	return map[string][]byte{"meta_data.json": g.Metadata, "user_data": g.UserData}
}

// metadata answers as Nova's metadata service behind Neutron's proxy does: it recognizes a guest by its address.
func (n *Network) metadata(w http.ResponseWriter, r *http.Request) {
	address, _, _ := net.SplitHostPort(r.RemoteAddr)
	n.mu.Lock()
	guest := n.guests[n.byAddress[address]]
	n.mu.Unlock()
	if guest == nil || guest.guest.ConfigDrive {
		http.Error(w, "404 Not Found", http.StatusNotFound)
		return
	}
	const latest = "/openstack/latest/"
	if r.URL.Path == "/openstack" || r.URL.Path == "/openstack/" {
		_, _ = fmt.Fprintln(w, "latest")
		return
	}
	for name, data := range guest.guest.documents() {
		if r.URL.Path == latest+name {
			_, _ = w.Write(data)
			return
		}
	}
	http.Error(w, "404 Not Found", http.StatusNotFound)
}

// writeDrive creates the guest's config drive.
func (r *running) writeDrive() error {
	root := r.dir + "/drive"
	latest := root + "/openstack/latest"
	err := os.MkdirAll(latest, 0o755)
	for name, data := range r.guest.documents() {
		err = errors.Join(err, os.WriteFile(latest+"/"+name, data, 0o644))
	}
	return errors.Join(err, run("genisoimage -quiet -R -J -V config-2 -o "+r.dir+"/drive.iso "+root))
}
