package scenario

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/test/sandbox"
)

// group is a node group of a trial.
type group struct {
	name            string
	least, size, at int
	// flavor and zone are those of the group's servers. Empty means the flavor or zone of the demo's group.
	flavor, zone string
	// alone is true when the group's servers are in no server group.
	alone  bool
	labels map[string]string
	taints []corev1.Taint
	// annotations are added to the MachineDeployment, besides its bounds.
	annotations map[string]string
}

// make applies the MachineDeployment of a group. It is derived from the MachineDeployment of the demo's group.
func (d *Demo) make(ctx context.Context, g group) error {
	md := d.Group.DeepCopy()
	own := map[string]string{"group": g.name}
	md.Name, md.ResourceVersion = g.name, ""
	md.Annotations = map[string]string{
		v1alpha1.AnnotationsMinSize[0]: strconv.Itoa(g.least), v1alpha1.AnnotationsMaxSize[0]: strconv.Itoa(g.at),
	}
	maps.Copy(md.Annotations, g.annotations)
	md.Spec.Replicas = ptr.To(int32(g.size))
	md.Spec.Selector.MatchLabels, md.Spec.Template.Metadata.Labels = own, own
	md.Spec.Template.Spec.Metadata.Labels, md.Spec.Template.Spec.Taints = g.labels, g.taints
	changed, err := ChangedSpec(md.Spec.Template.Spec.ProviderSpec.Value.Raw, func(cloud map[string]any) {
		if g.flavor != "" {
			cloud["flavor"] = g.flavor
		}
		if g.zone != "" {
			cloud["availabilityZone"] = g.zone
		}
		if g.alone {
			delete(cloud, "serverGroupID")
		}
	})
	if err != nil {
		return err
	}
	md.Spec.Template.Spec.ProviderSpec.Value.Raw = changed
	if err := d.Client.Create(ctx, md); err != nil {
		return fmt.Errorf("making group %s: %w", g.name, err)
	}
	return nil
}

// ChangedSpec returns a provider spec whose cloudProviderSpec is changed.
func ChangedSpec(raw []byte, change func(cloud map[string]any)) ([]byte, error) {
	var spec map[string]any
	if err := json.Unmarshal(raw, &spec); err != nil {
		return nil, fmt.Errorf("reading the provider spec: %w", err)
	}
	cloud, ok := spec["cloudProviderSpec"].(map[string]any)
	if !ok {
		return nil, fmt.Errorf("reading the provider spec: it has no cloudProviderSpec")
	}
	change(cloud)
	return json.Marshal(spec)
}

// load describes pods of a trial: their name, their number, their CPU requests in milli-CPUs, and the
// labels of the nodes on which they run.
type load struct {
	name      string
	pods      int
	cpu       int64
	on        map[string]string
	tolerates []corev1.Toleration
}

// put creates a load, or changes the number of its pods.
func (d *Demo) put(ctx context.Context, l load) error {
	labels := map[string]string{"load": l.name}
	work := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: l.name, Namespace: corev1.NamespaceDefault},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To(int32(l.pods)), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					TerminationGracePeriodSeconds: ptr.To(int64(1)), NodeSelector: l.on, Tolerations: l.tolerates,
					Containers: []corev1.Container{{
						Name: "load", Image: "example.invalid/load",
						Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
							corev1.ResourceCPU: *resource.NewMilliQuantity(l.cpu, resource.DecimalSI),
						}},
					}},
				},
			},
		},
	}
	err := d.Client.Create(ctx, work)
	if client.IgnoreAlreadyExists(err) == nil && err != nil {
		err = d.kubectl(ctx, "scale", "deployment", l.name, "--replicas="+strconv.Itoa(l.pods))
	}
	if err != nil {
		return fmt.Errorf("making pods %s: %w", l.name, err)
	}
	return nil
}

// runs returns a check that all pods of a load run.
func (d *Demo) runs(l load) check {
	return func(ctx context.Context) (string, error) {
		var pods corev1.PodList
		if err := d.Client.List(ctx, &pods, client.InNamespace(corev1.NamespaceDefault), client.MatchingLabels{"load": l.name}); err != nil {
			return "", fmt.Errorf("looking at pods: %w", err)
		}
		running := 0
		for i := range pods.Items {
			if pods.Items[i].Status.Phase == corev1.PodRunning && pods.Items[i].DeletionTimestamp == nil {
				running++
			}
		}
		if running != l.pods || len(pods.Items) != l.pods {
			return fmt.Sprintf("%d pods of %s to run: now %d of %d", l.pods, l.name, running, len(pods.Items)), nil
		}
		return "", nil
	}
}

// sizes holds a size per group.
type sizes map[string]int

func (s sizes) String() string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(s)) {
		out = append(out, fmt.Sprintf("%s %d", name, s[name]))
	}
	return strings.Join(out, ", ")
}

// wanted reads the groups' target sizes (spec.replicas).
func (d *Demo) wanted(ctx context.Context) (sizes, error) {
	var groups v1alpha1.MachineDeploymentList
	if err := d.Client.List(ctx, &groups); err != nil {
		return nil, fmt.Errorf("looking at groups: %w", err)
	}
	out := sizes{}
	for i := range groups.Items {
		out[groups.Items[i].Name] = int(ptr.Deref(groups.Items[i].Spec.Replicas, 0))
	}
	return out, nil
}

// are returns a check that the groups have exactly these sizes, and as many Machines, usable nodes and servers.
func (d *Demo) are(want sizes) check {
	return func(ctx context.Context) (string, error) {
		size, err := d.wanted(ctx)
		if err != nil {
			return "", err
		}
		machines, usable, err := d.standing(ctx)
		if err != nil {
			return "", err
		}
		all := 0
		for _, n := range want {
			all += n
		}
		servers := len(d.Cloud.Servers())
		for name, n := range want {
			if size[name] != n || machines[name] != n || usable[name] != n || servers != all {
				return fmt.Sprintf("sizes %s: now %s; Machines %s; usable nodes %s; %d servers", want, size, machines, usable, servers), nil
			}
		}
		return "", nil
	}
}

// standing returns, for each group, the number of its Machines and the number of its usable nodes.
func (d *Demo) standing(ctx context.Context) (machines, usable sizes, err error) {
	var list v1alpha1.MachineList
	var nodes corev1.NodeList
	if err := d.Client.List(ctx, &list); err != nil {
		return nil, nil, fmt.Errorf("looking at machines: %w", err)
	}
	if err := d.Client.List(ctx, &nodes); err != nil {
		return nil, nil, fmt.Errorf("looking at nodes: %w", err)
	}
	good := map[string]bool{}
	for i := range nodes.Items {
		good[nodes.Items[i].Name] = sandbox.UsableNode(&nodes.Items[i])
	}
	machines, usable = sizes{}, sizes{}
	for i := range list.Items {
		name := list.Items[i].Labels["group"]
		machines[name]++
		if good[list.Items[i].ServerName()] {
			usable[name]++
		}
	}
	return machines, usable, nil
}

// clear deletes everything of a trial, and waits until it is gone.
func (d *Demo) clear(ctx context.Context) error {
	if err := d.kubectl(ctx, "delete", "deployments", "--all", "--namespace=default", "--wait=false"); err != nil {
		return err
	}
	if err := d.kubectl(ctx, "--namespace="+d.Group.Namespace, "delete", "machinedeployments", "--all", "--wait=false"); err != nil {
		return err
	}
	return d.until(ctx, func(ctx context.Context) (string, error) {
		var machines v1alpha1.MachineList
		var pods corev1.PodList
		if err := d.Client.List(ctx, &machines); err != nil {
			return "", err
		}
		if err := d.Client.List(ctx, &pods, client.InNamespace(corev1.NamespaceDefault)); err != nil {
			return "", err
		}
		if n, p, s := len(machines.Items), len(pods.Items), len(d.Cloud.Servers()); n+p+s > 0 {
			return fmt.Sprintf("everything to be gone: %d Machines, %d pods, %d servers", n, p, s), nil
		}
		return "", nil
	})
}
