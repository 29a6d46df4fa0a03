//go:build cluster

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/proto"
	"github.com/drover-project/drover/test/sandbox"
	"github.com/drover-project/drover/test/sandbox/scenario"
)

const (
	goodGroup          = "good"
	wrongPasswordGroup = "wrong-password"
)

var badGroups = []badGroup{
	{
		name: "unknown-flavor", old: "flavor: m1.small", new: "flavor: m1.huge", replicas: "1", listed: true, onMachine: true,
		condition: v1alpha1.ConditionTemplateResolved, reason: "FlavorNotFound", says: []string{"cloudProviderSpec.flavor", `"m1.huge"`},
	},
	{
		name: "unknown-image", old: "image: Ubuntu Noble", new: "image: Ubuntu Nobel", replicas: "1", listed: true, onMachine: true,
		condition: v1alpha1.ConditionTemplateResolved, reason: "ImageNotFound", says: []string{"cloudProviderSpec.image", "Nobel"},
	},
	{
		name: "misspelt-key", old: "flavor: m1.small", new: "flavour: m1.small", replicas: "1", listed: true, onMachine: true,
		condition: v1alpha1.ConditionTemplateResolved, reason: "InvalidSpec", says: []string{"cloudProviderSpec.flavour", "did you mean flavor"},
	},
	{
		name: wrongPasswordGroup, old: "region: dbl", replicas: "1", listed: true, onMachine: true,
		new:       "region: dbl\n            username: drover\n            password: wrong\n            domainName: Default\n            projectName: metakube",
		condition: v1alpha1.ConditionTemplateResolved, reason: "Unauthorized",
		says: []string{"cloudProviderSpec.password", "signing in at", "401"},
	},
	{
		name: "invalid-maximum", old: `max-size: "5"`, new: `max-size: "five"`, replicas: "0",
		condition: v1alpha1.ConditionBoundsValid, reason: "BoundsInvalid", says: []string{"node-group-max-size", `"five"`},
	},
	{
		name: "minimum-above-maximum", old: `min-size: "1"`, new: `min-size: "6"`, replicas: "0",
		condition: v1alpha1.ConditionBoundsValid, reason: "BoundsInvalid", says: []string{"node-group-min-size is 6", "which is 5"},
	},
}

func containsAll(text string, parts []string) bool {
	return !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(text, part) })
}

// deploymentSays returns an empty text when the deployment has the expected condition, and otherwise a text that
// describes the expected and the actual conditions.
func (b badGroup) deploymentSays(ctx context.Context, s *sandbox.Sandbox) (string, error) {
	var d v1alpha1.MachineDeployment
	if err := s.Client.Get(ctx, client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: b.name}, &d); err != nil {
		return "", err
	}
	for _, c := range d.Status.Conditions {
		if c.Type == b.condition && c.Status == metav1.ConditionFalse && c.Reason == b.reason && containsAll(c.Message, b.says) {
			return "", nil
		}
	}
	return fmt.Sprintf("condition %s False for %s that says %q; there is %+v", b.condition, b.reason, b.says, d.Status.Conditions), nil
}

// machineSays returns an empty text when the status of the group's Machine has the expected error and there is a
// warning Event about it. Otherwise it returns a text that says what is missing.
func (b badGroup) machineSays(ctx context.Context, s *sandbox.Sandbox) (string, error) {
	var machines v1alpha1.MachineList
	if err := s.Client.List(ctx, &machines, client.MatchingLabels{"group": b.name}); err != nil {
		return "", err
	}
	if len(machines.Items) != 1 {
		return fmt.Sprintf("one Machine; there are %d", len(machines.Items)), nil
	}
	status := machines.Items[0].Status
	if status.ErrorReason == nil || *status.ErrorReason != b.reason || status.ErrorMessage == nil || !containsAll(*status.ErrorMessage, b.says) {
		return fmt.Sprintf("errorReason %s that says %q; there is %+v", b.reason, b.says, status), nil
	}
	return b.eventSays(ctx, s, machines.Items[0].Name)
}

func (b badGroup) eventSays(ctx context.Context, s *sandbox.Sandbox, object string) (string, error) {
	var events corev1.EventList
	if err := s.Client.List(ctx, &events, client.InNamespace(metav1.NamespaceSystem)); err != nil {
		return "", err
	}
	for i := range events.Items {
		e := &events.Items[i]
		if e.InvolvedObject.Name == object && e.Type == corev1.EventTypeWarning && containsAll(e.Message, b.says) {
			return "", nil
		}
	}
	return fmt.Sprintf("a warning Event about %s that says %q", object, b.says), nil
}

func TestInvalidValuesOfAGroupAreReportedAndAffectNoOtherGroup(t *testing.T) {
	t.Parallel()
	s := sandbox.ForTest(t, sandbox.Options{Drover: drover})
	d, err := scenario.NewDemo(s)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range badGroups {
		apply(t, s, b.name, b.manifest(t, d))
	}
	for _, b := range badGroups {
		t.Run("a condition and an Event of the deployment "+b.name+" say which value is invalid and why", func(t *testing.T) {
			eventually(t, func(ctx context.Context) (string, error) { return b.deploymentSays(ctx, s) })
			eventually(t, func(ctx context.Context) (string, error) { return b.eventSays(ctx, s, b.name) })
		})
		if b.onMachine {
			t.Run("the status and an Event of the Machine in the deployment "+b.name+" say which value is invalid and why", func(t *testing.T) {
				eventually(t, func(ctx context.Context) (string, error) { return b.machineSays(ctx, s) })
			})
		}
	}
	t.Run("NodeGroups returns a group only when the group's minimum and maximum size are valid", func(t *testing.T) { listsGroups(t, s) })
	t.Run("a group with valid values gets a node for its pod", func(t *testing.T) { goodGroupWorks(t, s, d) })
	t.Run("no resource is created in the cloud for the groups with invalid values", func(t *testing.T) {
		for _, server := range s.Cloud.Servers() {
			if !strings.HasPrefix(server.Name, goodGroup+"-") {
				t.Errorf("there is a server %s", server.Name)
			}
		}
		left := s.Cloud.Leftovers()
		if n := len(left.Servers); len(left.Ports) != n || len(left.FloatingIPs) != n || len(left.Volumes) != 0 {
			t.Errorf("beside what servers have: %+v", left)
		}
	})
	t.Run("the groups with invalid values and their Machines can be deleted, and no server is left", func(t *testing.T) { deleteAll(t, s) })
	t.Run("the API server refuses no request of drover for lack of permission", func(t *testing.T) {
		log, err := os.ReadFile(s.LogFile("drover"))
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range bytes.Split(log, []byte("\n")) {
			if bytes.Contains(line, []byte("is forbidden")) {
				t.Errorf("%s", line)
			}
		}
	})
}

func listsGroups(t *testing.T, s *sandbox.Sandbox) {
	conn, err := s.Dial()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	rpc := proto.NewCloudProviderClient(conn)
	if _, err := rpc.Refresh(t.Context(), &proto.RefreshRequest{}); err != nil {
		t.Fatal(err)
	}
	answer, err := rpc.NodeGroups(t.Context(), &proto.NodeGroupsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	var got, want []string
	for _, g := range answer.GetNodeGroups() {
		got = append(got, g.GetId())
	}
	for _, b := range badGroups {
		if b.listed {
			want = append(want, "MachineDeployment/kube-system/"+b.name)
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// goodGroupWorks checks that a pod for an empty group gets its node.
func goodGroupWorks(t *testing.T, s *sandbox.Sandbox, d *scenario.Demo) {
	good := badGroup{name: goodGroup, old: `min-size: "1"`, new: `min-size: "0"`, replicas: "0"}
	manifest := strings.Replace(good.manifest(t, d), "providerSpec:", "metadata:\n        labels:\n          pool: good\n      providerSpec:", 1)
	apply(t, s, goodGroup, manifest)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: corev1.NamespaceDefault},
		Spec:       corev1.PodSpec{NodeSelector: map[string]string{"pool": "good"}, Containers: []corev1.Container{{Name: "c", Image: "example.invalid/c"}}},
	}
	if err := s.Client.Create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	eventually(t, func(ctx context.Context) (string, error) {
		err := s.Client.Get(ctx, client.ObjectKeyFromObject(pod), pod)
		if err != nil || pod.Status.Phase == corev1.PodRunning {
			return "", err
		}
		return "the pod to run: " + string(pod.Status.Phase), nil
	})
}

// deleteAll deletes every group together with its sets and Machines. It does not rely on the garbage collector, which
// discovers new kinds only every 30 s. It forces the deletion of the Machine whose credentials are refused: drover
// cannot query the cloud with them, and would wait for valid ones.
func deleteAll(t *testing.T, s *sandbox.Sandbox) {
	kubectl := func(args ...string) {
		t.Helper()
		if _, err := s.Cluster.Kubectl(t.Context(), append([]string{"--namespace=kube-system"}, args...)...); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Client.DeleteAllOf(t.Context(), &corev1.Pod{}, client.InNamespace(corev1.NamespaceDefault), client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	kubectl("delete", "machinedeployments,machinesets,machines", "--all", "--wait=false")
	kubectl("annotate", "machines", "--selector=group="+wrongPasswordGroup, v1alpha1.AnnotationForceDelete+"=true")
	eventually(t, func(ctx context.Context) (string, error) {
		var machines v1alpha1.MachineList
		if err := s.Client.List(ctx, &machines); err != nil {
			return "", err
		}
		left := s.Cloud.Leftovers()
		if len(machines.Items)+len(left.Servers)+len(left.Ports)+len(left.FloatingIPs) > 0 {
			return fmt.Sprintf("everything to be gone: %d Machines, %+v", len(machines.Items), left), nil
		}
		return "", nil
	})
}

func TestAMachineShowsThatThePasswordOfTheConfiguredCloudIsWrong(t *testing.T) {
	t.Parallel()
	s := sandbox.ForTest(t, sandbox.Options{Drover: drover, Password: "wrong", NoAutoscaler: true})
	d, err := scenario.NewDemo(s)
	if err != nil {
		t.Fatal(err)
	}
	b := badGroup{name: "nodes", replicas: "1", reason: "Unauthorized", says: []string{"the configured cloud", "401"}}
	apply(t, s, b.name, b.manifest(t, d))
	eventually(t, func(ctx context.Context) (string, error) { return b.machineSays(ctx, s) })
	if left := s.Cloud.Leftovers(); len(left.Servers)+len(left.Ports)+len(left.FloatingIPs) > 0 {
		t.Errorf("in the cloud: %+v", left)
	}
}
