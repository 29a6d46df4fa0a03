package world

import (
	"errors"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/test/chaos/calls"
)

// teardown records violations of the order in which a Machine is deleted: pods and volumes leave the Node before the
// server is deleted; the floating IP, the port and the Node are deleted after the server is gone; the Machine is
// deleted last. It also records the deletion of a healthy Machine that is needed, and the creation of more Machines
// than a size allows.
type teardown struct {
	mu     sync.Mutex
	broken []error
}

func (t *teardown) note(err error) {
	if err != nil {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.broken = append(t.broken, err)
	}
}

// err returns the recorded violations.
func (t *teardown) err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return errors.Join(t.broken...)
}

// BeforeCall checks a call of drover before it is carried out.
func (w *World) BeforeCall(r *http.Request, name string) {
	if r.Method != http.MethodDelete || w.Forced {
		return
	}
	var err error
	id := path.Base(r.URL.Path)
	switch {
	case strings.HasSuffix(name, "/servers/{id}"):
		err = errors.Join(w.isOfLiving(id), w.emptied(id))
	case strings.HasSuffix(name, "/ports/{id}"):
		for _, s := range w.Cloud.Servers() {
			if slices.Contains(s.Ports, id) {
				err = fmt.Errorf("server %s still exists", s.ID)
			}
		}
	case strings.HasSuffix(name, "/floatingips/{id}"):
		if o := w.Ours(); slices.Contains(o.FloatingIPs, id) && len(o.FloatingIPs) <= len(o.Servers) {
			err = fmt.Errorf("there are %d floating IPs while %d servers still exist", len(o.FloatingIPs), len(o.Servers))
		}
	case name == "kube DELETE nodes":
		err = w.serverless(id)
	case name == "kube DELETE machines":
		err = w.mayBeDeleted(id)
	}
	if err != nil {
		w.teardown.note(fmt.Errorf("%s: %w", name, err))
	}
}

// emptied returns an error while a pod is on a server's Node or a volume is attached to it. It ignores pods on a Node whose
// kubelet was stopped, because no kubelet ends them.
func (w *World) emptied(server string) error {
	var nodes corev1.NodeList
	if err := w.Admin.List(w.Context, &nodes); err != nil {
		return err
	}
	at := slices.IndexFunc(nodes.Items, func(n corev1.Node) bool { return strings.HasSuffix(n.Spec.ProviderID, "/"+server) })
	if at < 0 || w.safety.isStopped(server) {
		return nil
	}
	node := nodes.Items[at].Name
	var pods corev1.PodList
	var attachments storagev1.VolumeAttachmentList
	if err := errors.Join(w.Admin.List(w.Context, &pods), w.Admin.List(w.Context, &attachments)); err != nil {
		return err
	}
	for i := range pods.Items {
		if pods.Items[i].Spec.NodeName == node {
			return fmt.Errorf("pod %s is still on its Node", pods.Items[i].Name)
		}
	}
	for i := range attachments.Items {
		if attachments.Items[i].Spec.NodeName == node {
			return fmt.Errorf("volume attachment %s still exists", attachments.Items[i].Name)
		}
	}
	return nil
}

// serverless returns an error while the server of a Node exists.
func (w *World) serverless(name string) error {
	var node corev1.Node
	if err := w.Admin.Get(w.Context, types.NamespacedName{Name: name}, &node); err != nil {
		return client.IgnoreNotFound(err)
	}
	if id := path.Base(node.Spec.ProviderID); w.known(id) {
		return fmt.Errorf("its server %s still exists", id)
	}
	return nil
}

func (w *World) known(server string) bool {
	_, there := w.Cloud.Server(server)
	return there
}

// AfterCall checks the state after a call of drover: nothing is left of a Machine whose last finalizer was removed, and no group
// has more Machines than its size.
func (w *World) AfterCall(r *http.Request, name string) {
	var err error
	switch {
	case name == "kube POST machines":
		err = w.checkSizes()
	case name == "kube DELETE machines":
		err = w.noteReplaced(path.Base(r.URL.Path))
	case strings.HasPrefix(name, "cloud POST ") && strings.HasSuffix(name, "/servers"):
		err = w.serversWithin()
	case !w.Forced && name == "kube PATCH machines" && strings.Contains(calls.Content(r), `"finalizers"`):
		err = w.checkOwners()
	}
	if err != nil {
		w.teardown.note(fmt.Errorf("%s: %w", name, err))
	}
}

// checkOwners returns an error when a server or Node exists whose Machine is gone, or when any resource exists although the
// last Machine is gone.
func (w *World) checkOwners() error {
	var machines v1alpha1.MachineList
	var nodes corev1.NodeList
	if err := errors.Join(w.Admin.List(w.Context, &machines), w.Admin.List(w.Context, &nodes)); err != nil {
		return err
	}
	has := func(is func(*v1alpha1.Machine) bool) bool {
		return slices.ContainsFunc(machines.Items, func(m v1alpha1.Machine) bool { return is(&m) })
	}
	left := w.Ours()
	for _, id := range left.Servers {
		s, _ := w.Cloud.Server(id)
		uid := types.UID(s.Metadata["machine-uid"])
		if !w.safety.isOrphaned(uid) && !has(func(m *v1alpha1.Machine) bool { return m.UID == uid }) {
			return fmt.Errorf("the Machine of server %s is gone while the server exists", id)
		}
	}
	for i := range nodes.Items {
		orphaned := w.safety.isOrphaned(types.UID(v1alpha1.NodeOwner(nodes.Items[i].Labels, nodes.Items[i].Annotations)))
		if name := nodes.Items[i].Name; name != unrelatedNode && !orphaned && !has(func(m *v1alpha1.Machine) bool { return m.Name == name }) {
			return fmt.Errorf("the Machine of Node %s is gone while the Node exists", name)
		}
	}
	if len(machines.Items) == 0 && !w.isComplete(left, 0) {
		return fmt.Errorf("the last Machine is gone while %+v exist", left)
	}
	return nil
}
