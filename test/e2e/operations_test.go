//go:build cluster

package e2e

import (
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/openstack/provider"
	"github.com/drover-project/drover/test/openstack"
	"github.com/drover-project/drover/test/sandbox"
)

// scale sets the size of the group, and waits until its nodes are usable.
func (h herd) scale(to int) {
	h.Helper()
	h.kubectl("-n", metav1.NamespaceSystem, "scale", "machinedeployment", h.group, fmt.Sprintf("--replicas=%d", to))
	h.usable(to)
}

// serverIDs returns the sorted IDs of all servers.
func (h herd) serverIDs() (out []string) {
	for _, s := range h.s.Cloud.Servers() {
		out = append(out, s.ID)
	}
	slices.Sort(out)
	return out
}

// calls returns the number of requests to create a server, and the number of requests to delete anything.
func (h herd) calls() (made, deleted int) { return h.s.Cloud.CallCount("POST /servers"), h.deletes() }

// uncalled fails the test when the cloud has received requests to create a server or to delete anything in addition to
// the given numbers of requests.
func (h herd) uncalled(made, deleted int) {
	h.Helper()
	if m, d := h.calls(); m != made || d != deleted {
		h.Errorf("%d servers were made, and %d deletions asked for; none was needed", m-made, d-deleted)
	}
}

// hold stops drover and the cloud-controller-manager, and returns a function that starts them and the kubelets again.
func (h herd) hold() (goOn func()) {
	h.Helper()
	h.s.StopDrover(0)
	h.s.KillCloudController()
	return func() {
		h.Helper()
		h.s.ReviveCloudController()
		h.s.RestartKubelets()
		h.restarts()
	}
}

// writes creates a file in the working folder of the documentation's commands.
func (h herd) writes(name, text string) {
	h.Helper()
	if err := os.WriteFile(filepath.Join(h.shell.Dir, name), []byte(text), 0o600); err != nil {
		h.Fatal(err)
	}
}

// mounts writes the clouds.yaml of the Secret to the path where drover reads it, as a kubelet does with the volume of a
// pod.
func (h herd) mounts() {
	h.Helper()
	raw, err := base64.StdEncoding.DecodeString(h.kubectl("-n", sandbox.Namespace, "get", "secret", "drover-cloud", "-o", `jsonpath={.data.clouds\.yaml}`))
	if err != nil {
		h.Fatal(err)
	}
	path := filepath.Join(h.s.Dir, "clouds.yaml")
	if err := os.WriteFile(path+".new", raw, 0o600); err != nil {
		h.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		h.Fatal(err)
	}
}

// cloudsWith returns a clouds.yaml with an application credential.
func (h herd) cloudsWith(id, secret string) string {
	h.Helper()
	auth := map[string]string{"auth_url": h.s.Cloud.AuthURL(), "application_credential_id": id, "application_credential_secret": secret}
	raw, err := yaml.Marshal(map[string]any{"clouds": map[string]any{"openstack": map[string]any{"auth": auth, "region_name": openstack.MetaKubeRegion}}})
	if err != nil {
		h.Fatal(err)
	}
	return string(raw)
}

// rotates replaces drover's cloud credentials with the commands of docs/operations.md, and waits until drover logs that
// it uses the new ones.
func (h herd) rotates(clouds string) {
	h.Helper()
	const said = "Using changed credentials of the configured cloud"
	read := func() int {
		log, err := os.ReadFile(h.s.LogFile("drover"))
		if err != nil {
			h.Fatal(err)
		}
		return strings.Count(string(log), said)
	}
	before := read()
	h.writes("clouds.yaml", clouds)
	h.shell.Run(h.T, "docs/operations.md#rotate-cloud")
	h.mounts()
	eventually(h.T, func(context.Context) (string, error) {
		if read() == before {
			return "drover to log: " + said, nil
		}
		return "", nil
	})
}

// owned waits until each Machine belongs to an existing set, which belongs to a deployment.
func (h herd) owned() {
	h.Helper()
	eventually(h.T, func(ctx context.Context) (string, error) {
		all, err := h.machines(ctx)
		if err != nil {
			return "", err
		}
		var sets v1alpha1.MachineSetList
		if err := h.s.Client.List(ctx, &sets); err != nil {
			return "", err
		}
		for _, m := range all {
			owner := metav1.GetControllerOf(&m)
			if owner == nil || !slices.ContainsFunc(sets.Items, func(s v1alpha1.MachineSet) bool { return s.UID == owner.UID && metav1.GetControllerOf(&s) != nil }) {
				return "a set of a deployment that owns Machine " + m.Name, nil
			}
		}
		return "", nil
	})
}

// comesBack restores the objects with the commands of docs/operations.md and calls goOn, which starts drover. It waits
// until as many Machines as wanted have their old servers and nodes.
func (h herd) comesBack(want int, goOn func()) {
	h.Helper()
	h.shell.Run(h.T, "docs/operations.md#restore-objects")
	h.shell.Run(h.T, "docs/operations.md#restore-adopt")
	h.shell.Run(h.T, "docs/operations.md#restore-start")
	goOn()
	h.usable(want)
	h.marked()
	h.owned()
	h.shell.Run(h.T, "docs/operations.md#restore-check")
}

// TestTheCommandsOfTheOperationsPageWork follows docs/operations.md on one cluster and its cloud, with the commands of that page.
func TestTheCommandsOfTheOperationsPageWork(t *testing.T) {
	t.Parallel()
	h := newHerd(t)
	h.install()
	t.Run("the credentials for the cloud are rotated without a restart of drover", func(t *testing.T) { h.in(t).credentials() })
	t.Run("restoring a backup of the Machine objects into a new cluster deletes no server and creates no server twice", func(t *testing.T) { h.in(t).newCluster() })
	t.Run("the nodes stay when the CRD of Machines was deleted by mistake and an operator runs the commands for that case (F-42)", func(t *testing.T) { h.in(t).mistake() })
	t.Run("the nodes stay when an operator runs the commands that remove drover and its CRDs (F-42)", func(t *testing.T) { h.in(t).removal() })
}

func (h herd) credentials() {
	h.Helper()
	began, err := h.metric(h.Context(), "process_start_time_seconds")
	if err != nil {
		h.Fatal(err)
	}
	for _, name := range []string{"tls.crt", "tls.key", "ca.crt"} {
		h.writes(name, name)
	}
	h.shell.Run(h.T, "docs/operations.md#rotate-grpc")
	h.rotates(h.cloudsWith(openstack.MetaKubeAppCredentialID, openstack.MetaKubeAppCredentialSecret))
	id, err := h.s.Cloud.AddAppCredential(openstack.AppCredential{Name: "next", Secret: "next-secret", User: openstack.MetaKubeUser, Project: openstack.MetaKubeProject})
	if err != nil {
		h.Fatal(err)
	}
	h.rotates(h.cloudsWith(id, "next-secret"))
	h.s.Cloud.RevokeAppCredential(openstack.MetaKubeAppCredentialID)
	h.scale(3)
	for _, call := range h.s.Cloud.Calls() {
		if call.Service == "identity" && call.Status == http.StatusUnauthorized {
			h.Error("a sign-in with the old credentials was tried and refused")
		}
	}
	if now, err := h.metric(h.Context(), "process_start_time_seconds"); now != began {
		h.Errorf("drover was started again: it runs since %s, and ran since %s (%v)", now, began, err)
	}
}

func (h herd) newCluster() {
	h.Helper()
	was, servers := h.look(), h.serverIDs()
	made, deleted := h.calls()
	h.shell.Run(h.T, "docs/operations.md#backup")
	goOn := h.hold()
	if err := h.s.Cluster.RemoveData(h.Context()); err != nil {
		h.Fatal(err)
	}
	h.shell.Run(h.T, "docs/operations.md#restore-install")
	h.comesBack(len(was.machines), goOn)
	all, err := h.machines(h.Context())
	if err != nil {
		h.Fatal(err)
	}
	if same := slices.ContainsFunc(slices.Collect(maps.Keys(all)), func(uid types.UID) bool { _, ok := was.machines[uid]; return ok }); same {
		h.Error("a Machine has its old UID, so nothing was tried")
	}
	h.uncalled(made, deleted)
	h.scale(len(servers) + 1)
	if m, _ := h.calls(); m != made+1 {
		h.Errorf("%d servers were made for one more Machine", m-made)
	}
	h.stayedServers(servers)
}

// stayedServers fails the test when one of the servers was deleted.
func (h herd) stayedServers(servers []string) {
	h.Helper()
	now := h.serverIDs()
	for _, id := range servers {
		if !slices.Contains(now, id) {
			h.Errorf("server %s is gone", id)
		}
	}
}

func (h herd) mistake() {
	h.Helper()
	was, servers := h.look(), h.serverIDs()
	made, deleted := h.calls()
	h.unguarded()
	h.kubectl("delete", "crd", "machines.cluster.k8s.io", "--wait=false")
	h.held(was)
	h.s.StopDrover(0)
	h.shell.Run(h.T, "docs/operations.md#keep-nodes")
	h.comesBack(len(servers), h.restarts)
	h.uncalled(made, deleted)
	h.stayedServers(servers)
}

func (h herd) removal() {
	h.Helper()
	was := h.look()
	h.s.StopDrover(0)
	h.shell.Run(h.T, "docs/operations.md#uninstall")
	h.shell.Run(h.T, "docs/operations.md#remove-crds-keep-nodes")
	h.stays(kept{nodes: was.nodes, deletes: was.deletes})
	if n := len(h.s.Cloud.Servers()); n != len(was.nodes) {
		h.Errorf("%d servers, want %d", n, len(was.nodes))
	}
}

// TestServersAfterASnapshotOfEtcdIsRestored restores a snapshot of etcd. After the snapshot was taken, one Machine was deleted and
// two were created.
func TestServersAfterASnapshotOfEtcdIsRestored(t *testing.T) {
	t.Parallel()
	h := newHerd(t, func(o *sandbox.Options) { o.DroverFlags = []string{"--orphan-age=0"} })
	snapshot := filepath.Join(t.TempDir(), "etcd")
	goOn := h.hold()
	if err := h.s.Cluster.SaveData(t.Context(), snapshot); err != nil {
		t.Fatal(err)
	}
	goOn()
	h.usable(2)
	before := slices.Collect(maps.Values(h.look().machines))
	gone, stayed := before[0], before[1]
	h.kubectl("-n", gone.Namespace, "delete", "machines.cluster.k8s.io", gone.Name)
	h.scale(3)
	servers := h.serverIDs()
	goOn = h.hold()
	if err := h.s.Cluster.RestoreData(t.Context(), snapshot); err != nil {
		t.Fatal(err)
	}
	goOn()
	t.Run("a Machine whose server was deleted after the snapshot was taken is replaced, and a Machine whose server exists stays", func(t *testing.T) {
		h := h.in(t)
		eventually(t, func(ctx context.Context) (string, error) {
			all, err := h.machines(ctx)
			if _, there := all[gone.UID]; there || err != nil {
				return "Machine " + gone.Name + " to be replaced", err
			}
			return "", nil
		})
		h.usable(2)
		all, err := h.machines(t.Context())
		if now, there := all[stayed.UID]; err != nil || !there || *now.Spec.ProviderID != *stayed.Spec.ProviderID || now.DeletionTimestamp != nil {
			t.Errorf("Machine %s is not as it was: %+v, %v", stayed.Name, now.Spec, err)
		}
	})
	t.Run("the servers that were created after the snapshot was taken are reported as orphans and kept (MCM-82)", func(t *testing.T) {
		h := h.in(t)
		eventually(t, func(ctx context.Context) (string, error) {
			if err := h.s.Client.Get(ctx, client.ObjectKey{Namespace: sandbox.Namespace, Name: "drover-orphans"}, &corev1.ConfigMap{}); err != nil {
				return "the first search for orphans", client.IgnoreNotFound(err)
			}
			report := h.shell.Run(t, "docs/safety.md#orphan-report")
			for _, id := range servers {
				if id != provider.ServerIDOf(*stayed.Spec.ProviderID) && !strings.Contains(report, id) {
					return "server " + id + " in the report:\n" + report, nil
				}
			}
			return "", nil
		})
		h.stays(kept{nodes: map[string]types.UID{}, deletes: h.deletes()})
		h.stayedServers(servers)
	})
	t.Run("Machines that an operator creates adopt the servers that were created after the snapshot was taken", func(t *testing.T) { h.in(t).takeBack(servers) })
}

// takeBack creates a Machine for each server that has none, with the annotation that lets the Machine adopt the server.
func (h herd) takeBack(servers []string) {
	h.Helper()
	made, _ := h.calls()
	all, err := h.machines(h.Context())
	if err != nil {
		h.Fatal(err)
	}
	template := slices.Collect(maps.Values(all))[0]
	for _, id := range servers {
		server, _ := h.s.Cloud.Server(id)
		if _, known := all[types.UID(server.Metadata["machine-uid"])]; known {
			continue
		}
		m := &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: template.Namespace, Name: server.Name, Labels: map[string]string{"restored": "yes"}}, Spec: template.Spec}
		m.Spec.ProviderID, m.Spec.Metadata.Name = ptr.To("openstack:///"+id), ""
		if err := h.s.Client.Create(h.Context(), m); err != nil {
			h.Fatal(err)
		}
		maps.Copy(h.shell.Words, map[string]string{"NAMESPACE": m.Namespace, "NAME": m.Name, "SERVER_ID": id})
		h.shell.Run(h.T, "docs/operations.md#adopt")
		eventually(h.T, func(ctx context.Context) (string, error) {
			var n corev1.Node
			err := h.s.Client.Get(ctx, client.ObjectKey{Name: server.Name}, &n)
			if err != nil || !sandbox.UsableNode(&n) {
				return "a usable node of " + server.Name, client.IgnoreNotFound(err)
			}
			return "", nil
		})
	}
	h.marked()
	if m, _ := h.calls(); m != made {
		h.Errorf("%d servers were made", m-made)
	}
}
