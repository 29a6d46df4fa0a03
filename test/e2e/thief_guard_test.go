package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/guard"
	"github.com/drover-project/drover/test/kube"
)

// thief is an author: somebody with every right on the kinds of the namespace in which the herd is, and no other right.
type thief struct {
	herd
	kubeconfig string
}

func newThief(t *testing.T, h herd) thief {
	t.Helper()
	const user = "thief"
	role := &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: user},
		Rules: []rbacv1.PolicyRule{{APIGroups: []string{v1alpha1.GroupVersion.Group}, Verbs: []string{"*"}, Resources: []string{
			"clusters", "clusters/status", "machineclasses", "machines", "machinesets", "machinesets/status", "machinesets/scale",
			"machinedeployments", "machinedeployments/status", "machinedeployments/scale",
		}}},
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: role.ObjectMeta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: user},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}
	for _, o := range []client.Object{role, binding} {
		if err := h.s.Client.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	config, err := h.s.Cluster.ConfigForUser(user)
	if err != nil {
		t.Fatal(err)
	}
	th := thief{h, filepath.Join(t.TempDir(), "kubeconfig")}
	if err := kube.WriteKubeconfig(th.kubeconfig, config); err != nil {
		t.Fatal(err)
	}
	eventually(t, func(context.Context) (string, error) {
		if err := th.try("get", "machines.cluster.k8s.io"); err != nil {
			return "the author's rights: " + err.Error(), nil
		}
		return "", nil
	})
	return th
}

// try runs kubectl as the thief; it returns the refusal.
func (th thief) try(args ...string) error {
	_, err := th.s.Cluster.Kubectl(th.Context(), append([]string{"--kubeconfig", th.kubeconfig, "--namespace", metav1.NamespaceSystem}, args...)...)
	return err
}

// patch is kubectl patch of an object.
func (th thief) patch(object, body string, more ...string) error {
	return th.try(append([]string{"patch", object, "--type=merge", "--patch", body}, more...)...)
}

// create is kubectl create of a manifest.
func (th thief) create(manifest string) error {
	file := filepath.Join(th.TempDir(), "manifest.yaml")
	if err := os.WriteFile(file, []byte(manifest), 0o600); err != nil {
		th.Fatal(err)
	}
	return th.try("create", "-f", file)
}

// forgeries are writes by which an author would have drover take something that is not his. victim is another's server, own
// a Machine and group a deployment of his own.
func (th thief) forgeries(own v1alpha1.Machine, victim string) map[string]func() error {
	machine, group := "machine/"+own.Name, "machinedeployment/"+th.group
	const bypass = `"metadata":{"annotations":{"kubermatic.io/bypass-no-spec-mutation-requirement":"true"}}`
	forged := func(more string) string {
		return "apiVersion: cluster.k8s.io/v1alpha1\nkind: Machine\nmetadata: {name: forged}\n" + more
	}
	return map[string]func() error{
		"a new Machine with another's server": func() error { return th.create(forged(`spec: {providerID: "openstack:///` + victim + `"}`)) },
		"a new Machine with another's volume": func() error { return th.create(forged(`status: {providerStatus: {volumeIDs: ["` + victim + `"]}}`)) },
		"a new Machine with another's floating IP": func() error {
			return th.create(strings.Replace(forged(""), "name: forged", `name: forged, annotations: {kubermatic.io/release-openstack-floating-ip: "`+victim+`"}`, 1))
		},
		"a new Machine that may adopt a server": func() error {
			return th.create(strings.Replace(forged(""), "name: forged", `name: forged, annotations: {drover-project.github.io/adopt: "11111111-0000-4000-8000-000000000001"}`, 1))
		},
		"another's server on his Machine": func() error {
			return th.patch(machine, `{`+bypass+`,"spec":{"providerID":"openstack:///`+victim+`"}}`)
		},
		"his Machine's server left out, then another's": func() error {
			return th.patch(machine, `{`+bypass+`,"status":null,"spec":{"providerID":"openstack:///`+victim+`"}}`)
		},
		"an address of the API server": func() error {
			return th.patch(machine, `{"status":{"addresses":[{"type":"InternalIP","address":"10.96.0.1"}]}}`)
		},
		"another's Node": func() error {
			return th.patch(machine, `{"status":{"nodeRef":{"kind":"Node","name":"control-plane"}}}`)
		},
		"another's volume": func() error { return th.patch(machine, `{"status":{"providerStatus":{"volumeIDs":["`+victim+`"]}}}`) },
		"another's floating IP": func() error {
			return th.patch(machine, `{"metadata":{"annotations":{"kubermatic.io/release-openstack-floating-ip":"`+victim+`"}}}`)
		},
		"the finalizers of his Machine": func() error { return th.patch(machine, `{"metadata":{"finalizers":null}}`) },
		"a template with another's server": func() error {
			return th.patch(group, `{"spec":{"template":{"spec":{"providerID":"openstack:///`+victim+`"}}}}`)
		},
		"a template with another's floating IP": func() error {
			return th.patch(group, `{"spec":{"template":{"metadata":{"annotations":{"kubermatic.io/release-openstack-floating-ip":"`+victim+`"}}}}}`)
		},
		"a removal that nobody asked for": func() error {
			return th.patch(group, `{"spec":{"removals":[{"name":"`+own.Name+`","uid":"`+string(own.UID)+`"}]}}`)
		},
		"a removal by a rollout": func() error {
			return th.patch("machineset/"+th.set(), `{"spec":{"rolloutRemovals":[{"name":"`+own.Name+`","uid":"`+string(own.UID)+`"}]}}`)
		},
		"a series of placeholders":     func() error { return th.patch(group, `{"spec":{"placeholderSeries":7}}`) },
		"a back-off of his group":      func() error { return th.patch(group, `{"status":{"backoffs":[]}}`, "--subresource=status") },
		"a size that was not the last": func() error { return th.patch(group, `{"status":{"lastReplicas":0}}`, "--subresource=status") },
		"the right to write what is guarded": func() error {
			return th.try("create", "rolebinding", "mine", "--clusterrole=drover:machine-status", "--user=thief")
		},
		"the policy":  func() error { return th.try("delete", "validatingadmissionpolicy", "drover-guard-machines") },
		"its binding": func() error { return th.try("delete", "validatingadmissionpolicybinding", "drover-guard-machines") },
		"drover's identity": func() error {
			return th.try("--as=system:serviceaccount:drover:drover", "get", "machines.cluster.k8s.io")
		},
	}
}

func TestAThiefMeetsTheGuardPolicies(t *testing.T) {
	t.Parallel()
	h := newHerd(t)
	th := newThief(t, h)
	was := h.look()
	victim, own := "", v1alpha1.Machine{}
	for _, m := range was.machines {
		own, victim = m, strings.TrimPrefix(*m.Spec.ProviderID, "openstack:///")
	}
	for _, m := range was.machines {
		if m.UID != own.UID {
			victim = strings.TrimPrefix(*m.Spec.ProviderID, "openstack:///")
		}
	}
	for name, try := range th.forgeries(own, victim) {
		t.Run("he cannot set or take "+name+" (F-5)", func(t *testing.T) {
			err := try()
			if err == nil {
				t.Fatal("it was admitted")
			}
			if !strings.Contains(err.Error(), "drover-guard-") && !strings.Contains(strings.ToLower(err.Error()), "forbidden") {
				t.Errorf("it was refused for another reason: %v", err)
			}
		})
	}
	t.Run("every server and Node is as it was (F-5)", func(t *testing.T) { h.in(t).stays(was) })
	t.Run("he scales his group, and drover works under its own policies (F-5)", func(t *testing.T) {
		if err := th.try("scale", "machinedeployment/"+h.group, "--replicas=3"); err != nil {
			t.Fatal(err)
		}
		h.in(t).usable(3)
	})
	t.Run("he deletes a Machine: drover drains and deletes its server and makes another one (F-5)", func(t *testing.T) {
		if err := th.try("delete", "machine.cluster.k8s.io/"+own.Name, "--timeout=90s"); err != nil {
			t.Fatal(err)
		}
		h.in(t).usable(3)
	})
	t.Run("drover says that the policies are in force, and when a binding is missing (F-5)", func(t *testing.T) { saysWhenUnguarded(t, h.in(t)) })
}

// saysWhenUnguarded deletes a binding and waits until drover has taken note.
func saysWhenUnguarded(t *testing.T, h herd) {
	inForce := func(want string) {
		t.Helper()
		eventually(t, func(ctx context.Context) (string, error) {
			value, err := h.metric(ctx, "drover_guard_policies_in_force")
			if value != want {
				return fmt.Sprintf("drover_guard_policies_in_force %s: it is %q", want, value), err
			}
			return "", nil
		})
	}
	inForce("1")
	h.kubectl("delete", "validatingadmissionpolicybinding/drover-guard-machines")
	inForce("0")
	eventually(t, func(ctx context.Context) (string, error) {
		var list eventsv1.EventList
		if err := h.s.Client.List(ctx, &list); err != nil {
			return "", err
		}
		told := slices.ContainsFunc(list.Items, func(e eventsv1.Event) bool {
			return e.Type == corev1.EventTypeWarning && e.Reason == guard.ReasonNotInForce && strings.Contains(e.Note, "ValidatingAdmissionPolicyBinding drover-guard-machines is missing")
		})
		if !told {
			return "an Event that names the missing binding", nil
		}
		return "", nil
	})
}
