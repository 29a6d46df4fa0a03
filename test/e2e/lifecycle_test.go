package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/test/openstack"
	"github.com/drover-project/drover/test/sandbox"
	"github.com/drover-project/drover/test/sandbox/scenario"
)

// onlyMember waits until the group has one Machine with a usable node, and no server other than that
// Machine's.
func onlyMember(t *testing.T, s *sandbox.Sandbox, group string) (machine v1alpha1.Machine, server openstack.Server) {
	t.Helper()
	eventually(t, func(ctx context.Context) (string, error) {
		var machines v1alpha1.MachineList
		if err := s.Client.List(ctx, &machines, client.MatchingLabels{"group": group}); err != nil {
			return "", err
		}
		var servers []openstack.Server
		for _, each := range s.Cloud.Servers() {
			if strings.HasPrefix(each.Name, group+"-") {
				servers = append(servers, each)
			}
		}
		if len(machines.Items) != 1 || len(servers) != 1 {
			return fmt.Sprintf("one Machine with one server: now %d and %d", len(machines.Items), len(servers)), nil
		}
		machine, server = machines.Items[0], servers[0]
		var n corev1.Node
		err := s.Client.Get(ctx, client.ObjectKey{Name: machine.ServerName()}, &n)
		if client.IgnoreNotFound(err) != nil {
			return "", err
		}
		if !sandbox.UsableNode(&n) || n.Spec.ProviderID != "openstack:///"+server.ID || machine.Status.NodeRef == nil {
			return "a usable node of that server, known to the Machine", nil
		}
		return "", nil
	})
	return machine, server
}

func TestServersJoinAndLostServersAreReplaced(t *testing.T) {
	t.Parallel()
	s := sandbox.ForTest(t, sandbox.Options{Drover: drover, NoAutoscaler: true})
	d, err := scenario.NewDemo(s)
	if err != nil {
		t.Fatal(err)
	}
	ubuntu := badGroup{name: "ubuntu", replicas: "1"}
	flatcar := badGroup{name: "flatcar", replicas: "1", old: "operatingSystem: ubuntu", new: "operatingSystem: flatcar"}
	apply(t, s, ubuntu.name, marked(t, ubuntu.manifest(t, d)))
	apply(t, s, flatcar.name, strings.Replace(flatcar.manifest(t, d), openstack.MetaKubeImage, openstack.MetaKubeFlatcar, 1))
	promised := map[string]*corev1.Node{}
	for _, group := range []string{ubuntu.name, flatcar.name} {
		promised[group] = told(t, s, group)
	}

	var lost v1alpha1.Machine
	for _, group := range []string{ubuntu.name, flatcar.name} {
		t.Run("a server of the group "+group+" joins the cluster with the user data that drover has written", func(t *testing.T) {
			machine, server := onlyMember(t, s, group)
			if server.Metadata["machine-uid"] != string(machine.UID) {
				t.Errorf("metadata: got %v, want machine-uid %s", server.Metadata, machine.UID)
			}
			eventually(t, func(context.Context) (string, error) {
				if journal := s.Journals()[server.ID]; !strings.Contains(journal, "serving certificate is granted") {
					return "a serving certificate; the journal says\n" + journal, nil
				}
				return "", nil
			})
			lost = machine
		})
		t.Run("a node of the group "+group+" matches the template node that drover has returned to the autoscaler (CA-C99, CA-C100, CA-C101, MC-73, MCM-96, CAPI-12)", func(t *testing.T) {
			eventually(t, func(ctx context.Context) (string, error) {
				machine, _ := onlyMember(t, s, group)
				n := &corev1.Node{}
				err := s.Client.Get(ctx, client.ObjectKey{Name: machine.ServerName()}, n)
				return strings.Join(compare(promised[group], n), "\n"), client.IgnoreNotFound(err)
			})
		})
	}
	t.Run("the bootstrap token of a server is deleted once the server has joined the cluster", func(t *testing.T) {
		eventually(t, func(ctx context.Context) (string, error) {
			var secrets corev1.SecretList
			err := s.Client.List(ctx, &secrets, client.HasLabels{v1alpha1.LabelTokenMachine})
			if err != nil || len(secrets.Items) == 0 {
				return "", err
			}
			return fmt.Sprintf("no bootstrap tokens: there are %d", len(secrets.Items)), nil
		})
	})
	t.Run("a server that is deleted in the cloud is replaced, and its Node and ports are deleted", func(t *testing.T) {
		_, server := onlyMember(t, s, flatcar.name)
		s.Cloud.DeleteServer(server.ID)
		// drover lists the cloud's resources once a minute, and far more often while it creates something. So the creation
		// of a third group makes drover notice the deleted server soon.
		third := badGroup{name: "third", replicas: "1"}
		apply(t, s, third.name, third.manifest(t, d))
		eventually(t, func(ctx context.Context) (string, error) {
			err := s.Client.Get(ctx, client.ObjectKeyFromObject(&lost), &v1alpha1.Machine{})
			if err == nil {
				return "the Machine " + lost.Name + " to be gone", nil
			}
			return "", client.IgnoreNotFound(err)
		})
		machine, _ := onlyMember(t, s, flatcar.name)
		if machine.UID == lost.UID {
			t.Errorf("the Machine %s is still there", lost.Name)
		}
		if err := s.Client.Get(t.Context(), client.ObjectKey{Name: lost.ServerName()}, &corev1.Node{}); client.IgnoreNotFound(err) != nil || err == nil {
			t.Errorf("the lost server's Node: got %v, want it gone", err)
		}
		eventually(t, func(context.Context) (string, error) {
			if left := s.Cloud.Leftovers(); len(left.Servers) != 3 || len(left.Ports) != 3 || len(left.FloatingIPs) != 3 {
				return fmt.Sprintf("three of each in the cloud: %+v", left), nil
			}
			return "", nil
		})
	})
	t.Run("a scale-up that is reverted while its servers boot leaves none of its servers, ports and floating IPs (CAPI-9)", func(t *testing.T) { takenBack(t, s, ubuntu.name) })
}
