package chaos

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	sim "github.com/drover-project/drover/test/openstack"
)

// ours is what is in the cloud and does not belong to the bystanders.
func (w *World) ours() sim.Left {
	all := w.Cloud.Leftovers()
	mine := func(ids []string) (out []string) {
		for _, id := range ids {
			if !w.others.has(id) {
				out = append(out, id)
			}
		}
		return out
	}
	return sim.Left{Servers: mine(all.Servers), Ports: mine(all.Ports), FloatingIPs: mine(all.FloatingIPs), Volumes: mine(all.Volumes)}
}

// are: these are so many servers, each with one port, one floating IP and one volume. A create that arrives when another
// process has made its own may leave one port or floating IP more: it has our marks, and is the collector's. A server that
// it asks for fails, since its port is gone, and goes with its Machine at the latest.
func (w *World) are(o sim.Left, n int) bool {
	most := n
	if w.late {
		most++
	}
	within := func(ids []string) bool { return len(ids) >= n && len(ids) <= most }
	if gone := n == 0; gone && len(o.Servers)+len(o.Volumes) > 0 {
		return false
	}
	return within(o.Servers) && within(o.Volumes) && within(o.Ports) && within(o.FloatingIPs)
}

// servers: there are exactly so many.
func (w *World) servers(n int) error {
	o := w.ours()
	if !w.are(o, n) {
		return fmt.Errorf("there must be %d servers, ports, floating IPs and volumes each, not %+v", n, o)
	}
	return w.connected(o.Servers)
}

// connected: the port of every ACTIVE server is bound to it, and its floating IP is on that port.
func (w *World) connected(servers []string) error {
	for _, id := range servers {
		if s, _ := w.Cloud.Server(id); s.Status == "ACTIVE" && (len(s.Ports) != 1 || len(s.Floating) != 1) {
			return fmt.Errorf("server %s (%s) is ACTIVE with ports %v and floating IPs %v, not with one each", id, s.Name, s.Ports, s.Floating)
		}
	}
	return nil
}

// nothingLeft: neither cloud nor cluster holds anything of the Machine.
func (w *World) nothingLeft() error {
	if o := w.ours(); !w.are(o, 0) {
		return fmt.Errorf("left in the cloud: %+v", o)
	}
	var nodes corev1.NodeList
	if err := w.admin.List(w.ctx, &nodes); err != nil {
		return err
	}
	if len(nodes.Items) != 1 {
		return fmt.Errorf("%d nodes are left, of which one is somebody else's", len(nodes.Items))
	}
	var tokens corev1.SecretList
	if err := w.admin.List(w.ctx, &tokens, client.HasLabels{v1alpha1.LabelTokenMachine}); err != nil {
		return err
	}
	if len(tokens.Items) != 0 {
		return fmt.Errorf("%d join tokens are left", len(tokens.Items))
	}
	return nil
}

// untouched: what belongs to others is as it was.
func (w *World) untouched() error {
	diff, err := w.changed()
	if err != nil {
		return err
	}
	if diff != "" {
		return fmt.Errorf("what belongs to others has changed:\n%s", diff)
	}
	return nil
}

// made: whatever happened, as many servers were ever made as Machines needed, and no more ports and floating IPs, apart from
// ports that were replaced after a look-up. spare are those that a set may have made beyond that, before it saw that it was to
// go.
func (w *World) made(n, spare int) error {
	made := map[string]int{"POST /servers": -2, "POST /ports": -2, "POST /floatingips": -2}
	for _, call := range w.Cloud.Calls() {
		if call.Status < 200 || call.Status >= 300 {
			continue
		}
		if _, counts := made[call.Name()]; counts {
			made[call.Name()]++
		}
		if call.Name() == "GET /ports/{id}" {
			made["POST /ports"]--
		}
	}
	most := n + spare
	if made["POST /servers"] < n || made["POST /servers"] > most || made["POST /ports"] > most || made["POST /floatingips"] > most {
		return fmt.Errorf("%d servers should have been made, not %v", n, made)
	}
	return nil
}
