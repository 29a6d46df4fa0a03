//go:build cluster

package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/test/machinecontroller"
	"github.com/drover-project/drover/test/openstack"
	"github.com/drover-project/drover/test/sandbox"
)

func TestFromMachineControllerToDroverAndBack(t *testing.T) {
	t.Parallel()
	r := newRoundTrip(t)
	t.Run("with the ClusterRoleBinding for writing statuses, machine-controller can scale under drover's admission policies (F-5)", func(t *testing.T) {
		r := r.in(t)
		r.balanced(3, 0)
		r.kubectl("apply", "--server-side", "-f", manifests+"/rbac/status.yaml", "-f", manifests+"/machine-controller/status.yaml")
		r.install()
		// The sandbox runs drover outside of the cluster and does not need this Deployment. Its pods would only delay
		// the drains of their nodes.
		r.kubectl("-n", sandbox.Namespace, "delete", "deployment", "drover")
		r.kubectl("-n", metav1.NamespaceSystem, "scale", "machinedeployment", r.group, "--replicas=4")
		r.balanced(4, 0)
		r.handOver()
	})
	t.Run("drover takes over every Machine of machine-controller while other programs keep overwriting the objects (F-5)", func(t *testing.T) { r.in(t).forth() })
	var deleted v1alpha1.Machine
	t.Run("machine-controller finishes the scale-up and the removal that drover had begun before it was killed (F-5)", func(t *testing.T) {
		deleted = r.in(t).back()
	})
	t.Run("drover takes over every Machine a second time, after machine-controller has managed the Machines in between (F-5)", func(t *testing.T) { r.in(t).forthAgain() })
	t.Run("when machine-controller deletes a server that drover created, only the server's port and floating IP stay (F-5)", func(t *testing.T) {
		r.in(t).leaves(deleted)
	})
}

// forth starts drover after machine-controller has stopped, while other programs keep writing the objects. drover must
// take over every Machine, remove two Machines and add one.
func (r *roundTrip) forth() {
	writers := r.writers()
	was, all := r.look(), r.living()
	made, deleted := r.calls()
	r.restarts()
	r.takenOver()
	r.balanced(4, 0)
	r.stays(was)
	if m, d := r.calls(); m != made || d != deleted {
		r.Errorf("drover made %d servers and deleted %d when it took over", m-made, d-deleted)
	}
	rpc := r.dial()
	r.remove(rpc, all[1], all[2])
	r.balanced(2, 0)
	r.grow(rpc, 1)
	r.balanced(3, 0)
	if m, d := r.calls(); m != made+1 || d != deleted+2 {
		r.Errorf("%d servers were made for one more Machine, and %d deletions were asked for of two", m-made, d-deleted)
	}
	r.live(all[0], all[3])
	for name, stop := range writers {
		// Fewer writes would hardly disturb drover. Many attempts fail with a conflict, because the programs disturb each other, too.
		if n := stop(); n < 3 {
			r.Errorf("%s wrote %d times", name, n)
		}
	}
}

// back kills drover in the middle of a scale-up and a removal, and lets machine-controller finish both. It returns the
// Machine with a server of drover's, which machine-controller has deleted.
func (r *roundTrip) back() (deleted v1alpha1.Machine) {
	rpc := r.dial()
	first, theirs, ours := r.byMaker()
	made, _ := r.calls()
	r.s.Cloud.Inject(openstack.Fault{Call: "DELETE /servers/{id}", Delay: 5 * time.Second})
	r.s.Cloud.Inject(openstack.Fault{Call: "POST /servers", After: 1, Hang: true})
	r.grow(rpc, 2)
	r.remove(rpc, first)
	r.midway(made, first)
	r.s.KillDrover(0)
	r.s.Cloud.ClearFaults()
	r.takeOver()
	r.usable(4)
	r.live(theirs, ours)
	r.kubectl("-n", metav1.NamespaceSystem, "delete", "machines.cluster.k8s.io", theirs.Name, ours.Name, "--timeout=1m")
	r.usable(4)
	r.handOver()
	return ours
}

// forthAgain starts drover after machine-controller has ended. Two ports and two floating IPs have no server then. One
// port and one floating IP belong to a deleted Machine. drover created the others for a Machine whose server
// machine-controller then created itself.
func (r *roundTrip) forthAgain() {
	made, deleted := r.calls()
	// Without the lease of the killed process, the new process need not wait until that lease expires.
	r.kubectl("-n", sandbox.Namespace, "delete", "lease", "--all")
	r.restarts()
	r.takenOver()
	r.balanced(4, 2)
	r.stays(r.look())
	if m, d := r.calls(); m != made || d != deleted {
		r.Errorf("drover made %d servers and deleted %d when it took over again", m-made, d-deleted)
	}
}

// leaves makes the simulated machine-controller delete the deployment and its servers. It checks that afterwards only a port and a
// floating IP are left, both with drover's owner tag of the given Machine.
func (r *roundTrip) leaves(of v1alpha1.Machine) {
	manager := r.login(machinecontroller.ManagerAccount)
	r.runs(func(ctx context.Context) { machinecontroller.RunManager(ctx, manager, metav1.NamespaceSystem) })
	r.kubectl("-n", metav1.NamespaceSystem, "delete", "machinedeployment", r.group, "--timeout=1m")
	eventually(r.T, func(context.Context) (string, error) {
		if left := r.s.Cloud.Leftovers(); len(left.Servers)+len(left.Volumes) > 0 || len(left.Ports) != 1 || len(left.FloatingIPs) != 1 {
			return fmt.Sprintf("one port and one floating IP, and nothing else: %+v", left), nil
		}
		return "", nil
	})
	tag := fmt.Sprintf("drover %s %s 0", r.clusterID(), of.UID)
	for kind, got := range r.descriptions() {
		if got != tag {
			r.Errorf("the %s that is left has the description %q, want %q", kind, got, tag)
		}
	}
}

// byMaker returns two Machines whose servers machine-controller created (first and theirs), and one whose server drover created (ours).
func (r *roundTrip) byMaker() (first, theirs, ours v1alpha1.Machine) {
	r.Helper()
	var made []v1alpha1.Machine
	for _, m := range r.living() {
		if m.Annotations[v1alpha1.FinalizerFloatingIP] == "" {
			ours = m
		} else {
			made = append(made, m)
		}
	}
	if len(made) != 2 || ours.Name == "" {
		r.Fatalf("machine-controller made %d of the Machines, want 2", len(made))
	}
	return made[0], made[1], ours
}

// midway waits until drover is in the middle of both the scale-up and the removal: it has requested one of two new
// servers, the ports of both exist, and the Machine to be removed is being deleted.
func (r *roundTrip) midway(made int, leaving v1alpha1.Machine) {
	r.Helper()
	eventually(r.T, func(ctx context.Context) (string, error) {
		all, err := r.machines(ctx)
		if err != nil {
			return "", err
		}
		n := len(r.s.Cloud.Leftovers().Ports)
		if now, _ := r.calls(); now == made || n < 5 || all[leaving.UID].DeletionTimestamp == nil {
			return fmt.Sprintf("another server, five ports (there are %d), and the deletion of Machine %s", n, leaving.Name), nil
		}
		return "", nil
	})
}
