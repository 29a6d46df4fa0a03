package world

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	sim "github.com/drover-project/drover/test/openstack"
)

// Ours returns the cloud resources that drover has created: all except the unrelated ones.
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

// isComplete reports whether o holds n servers, each with one port, one floating IP and one volume. A late create call may leave
// one more port or floating IP, which the orphan collector deletes. A server created by a late call fails because its port is gone,
// and is deleted with its Machine at the latest.
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

// CheckServers returns an error unless there are exactly n servers, each with its port and floating IP, everything was deleted in
// order so far, and the unrelated resources are unchanged.
func (w *World) CheckServers(n int) error {
	o := w.Ours()
	if !w.isComplete(o, n) {
		return errors.Join(fmt.Errorf("there are %+v, want %d servers, ports, floating IPs and volumes each", o, n), w.teardown.err())
	}
	return errors.Join(w.checkConnected(o.Servers), w.teardown.err(), w.CheckUnrelated())
}

// checkConnected returns an error unless each ACTIVE server has exactly one port and one floating IP.
func (w *World) checkConnected(servers []string) error {
	for _, id := range servers {
		if s, _ := w.Cloud.Server(id); s.Status == "ACTIVE" && (len(s.Ports) != 1 || len(s.Floating) != 1) {
			return fmt.Errorf("server %s (%s) is ACTIVE with ports %v and floating IPs %v, not with one each", id, s.Name, s.Ports, s.Floating)
		}
	}
	return nil
}

// CheckEnd returns an error when the cloud or the cluster still holds a resource of a Machine, when something was deleted out of
// order, or when unrelated resources have changed.
func (w *World) CheckEnd() error {
	return w.CheckLeft(0)
}

// CheckLeft returns an error unless the cloud and the cluster hold exactly the resources of n Machines that run, everything was deleted in
// order, and the unrelated resources are unchanged.
func (w *World) CheckLeft(n int) error {
	return errors.Join(w.checkLeft(n), w.checkConnected(w.Ours().Servers), w.teardown.err(), w.CheckUnrelated())
}

func (w *World) checkLeft(n int) error {
	if o := w.Ours(); !w.isComplete(o, n) {
		return fmt.Errorf("left in the cloud of %d Machines: %+v", n, o)
	}
	var nodes corev1.NodeList
	if err := w.Admin.List(w.Context, &nodes); err != nil {
		return err
	}
	if len(nodes.Items) != n+1 {
		return fmt.Errorf("%d nodes are left of %d Machines, of which one is unrelated", len(nodes.Items), n)
	}
	var tokens corev1.SecretList
	if err := w.Admin.List(w.Context, &tokens, client.HasLabels{v1alpha1.LabelTokenMachine}); err != nil {
		return err
	}
	// Kubernetes deletes a token that a late call has created when it expires, half an hour later.
	if len(tokens.Items) > int(w.late.Load()) {
		return fmt.Errorf("%d join tokens are left", len(tokens.Items))
	}
	return nil
}

// CheckUnrelated returns an error when unrelated resources have changed.
func (w *World) CheckUnrelated() error {
	diff, err := w.changed()
	if err != nil {
		return err
	}
	if diff != "" {
		return fmt.Errorf("unrelated resources have changed:\n%s", diff)
	}
	return nil
}

// CheckCreates returns an error unless at least n and at most n+spare servers were created, and at most n+spare ports and
// floating IPs each. Ports that were replaced after a create in doubt do not count. spare allows for further servers, for example
// those that a set creates before it sees its own deletion.
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
	most := n + spare + int(w.late.Load())
	if made["POST /servers"] < n || made["POST /servers"] > most || made["POST /ports"] > most || made["POST /floatingips"] > most {
		return fmt.Errorf("%v were created, want %d servers", made, n)
	}
	return nil
}
