package world

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	sim "github.com/drover-project/drover/test/openstack"
)

// Ours returns what is in the cloud and does not belong to others.
func (w *World) Ours() sim.Left {
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

// isComplete reports whether these are n servers, each with one port, one floating IP and one volume. A create that arrives when
// another process has made its own may leave one port or floating IP more: it has our owner tag, and the orphan collector removes
// it. A server that such a create asks for fails, since its port is gone, and is deleted with its Machine at the latest.
func (w *World) isComplete(o sim.Left, n int) bool {
	most := n
	if w.LateCreates {
		most++
	}
	within := func(ids []string) bool { return len(ids) >= n && len(ids) <= most }
	if n == 0 && len(o.Servers)+len(o.Volumes) > 0 {
		return false
	}
	return within(o.Servers) && within(o.Volumes) && within(o.Ports) && within(o.FloatingIPs)
}

// CheckServers returns an error unless there are exactly n servers, each with its port and floating IP, everything was torn down
// in order so far, and the resources of others are unchanged.
func (w *World) CheckServers(n int) error {
	o := w.Ours()
	if !w.isComplete(o, n) {
		return errors.Join(fmt.Errorf("there must be %d servers, ports, floating IPs and volumes each, not %+v", n, o), w.teardown.err())
	}
	return errors.Join(w.checkConnected(o.Servers), w.teardown.err(), w.CheckUnrelated())
}

// checkConnected returns an error unless the port of every ACTIVE server is bound to it, and its floating IP is on that port.
func (w *World) checkConnected(servers []string) error {
	for _, id := range servers {
		if s, _ := w.Cloud.Server(id); s.Status == "ACTIVE" && (len(s.Ports) != 1 || len(s.Floating) != 1) {
			return fmt.Errorf("server %s (%s) is ACTIVE with ports %v and floating IPs %v, not with one each", id, s.Name, s.Ports, s.Floating)
		}
	}
	return nil
}

// CheckEnd returns an error when cloud or cluster still holds anything of a Machine, when something was torn down out of order, or
// when the resources of others have changed.
func (w *World) CheckEnd() error {
	return errors.Join(w.checkNothingLeft(), w.teardown.err(), w.CheckUnrelated())
}

func (w *World) checkNothingLeft() error {
	if o := w.Ours(); !w.isComplete(o, 0) {
		return fmt.Errorf("left in the cloud: %+v", o)
	}
	var nodes corev1.NodeList
	if err := w.Admin.List(w.Context, &nodes); err != nil {
		return err
	}
	if len(nodes.Items) != 1 {
		return fmt.Errorf("%d nodes are left, of which one is unrelated", len(nodes.Items))
	}
	var tokens corev1.SecretList
	if err := w.Admin.List(w.Context, &tokens, client.HasLabels{v1alpha1.LabelTokenMachine}); err != nil {
		return err
	}
	if len(tokens.Items) != 0 {
		return fmt.Errorf("%d join tokens are left", len(tokens.Items))
	}
	return nil
}

// CheckUnrelated returns an error when the resources of others have changed.
func (w *World) CheckUnrelated() error {
	diff, err := w.changed()
	if err != nil {
		return err
	}
	if diff != "" {
		return fmt.Errorf("resources of others have changed:\n%s", diff)
	}
	return nil
}

// CheckCreates returns an error unless n servers were made in all, and no more ports and floating IPs, apart from ports that were
// replaced after a look-up. spare is how many more are allowed, such as those that a set makes before it sees that it is deleted.
func (w *World) CheckCreates(n, spare int) error {
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
