//go:build cluster

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/proto"
)

const (
	controlPlaneLabel = "node-role.kubernetes.io/control-plane"
	masterLabel       = "node-role.kubernetes.io/master"
	// longestProvision is the longest time for which a group may let the autoscaler wait: --join-timeout and ten minutes.
	longestProvision = 20 * time.Minute
	forever          = "20000h"
)

// labelAttempts returns the attacks that give an author's Nodes labels by which programs choose trusted Nodes.
func labelAttempts() []attempt {
	unlabelled := func(key string) func(*world, attempt) error {
		return func(w *world, _ attempt) error {
			var nodes corev1.NodeList
			if err := w.s.Client.List(w.Context(), &nodes, client.HasLabels{key}); err != nil {
				return err
			}
			for _, n := range nodes.Items {
				if n.Name != controlPlane && n.Name != w.node {
					return fmt.Errorf("Node %s has the label %s", n.Name, key)
				}
			}
			return nil
		}
	}
	onNode := func(key string) func(*world, attempt) error {
		return forge(func(_ *world, m *v1alpha1.Machine) { m.Spec.Metadata.Labels = map[string]string{key: ""} })
	}
	return []attempt{
		{by: theAuthor, to: "draw drover's pods to his Node: his Machine gives it the label of a control plane", finding: "F-89", stop: policies,
			try: onNode(controlPlaneLabel), after: unlabelled(controlPlaneLabel)},
		{by: theAuthor, to: "draw drover's pods to his Node: the template of his deployment has the label of a master", finding: "F-89", stop: policies,
			try: template(func(_ *world, t *v1alpha1.MachineTemplateSpec) {
				t.Spec.Metadata.Labels = map[string]string{masterLabel: ""}
			}), after: unlabelled(masterLabel)},
		{by: theAuthor, to: "draw pods that select a label of node-restriction.kubernetes.io to his Node: his Machine has the label", finding: "F-89", stop: policies,
			try: onNode("node-restriction.kubernetes.io/trusted"), after: unlabelled("node-restriction.kubernetes.io/trusted")},
		{by: aKubelet, to: "draw drover's pods to its Node: it sets the label of a control plane", finding: "F-89", stop: rights,
			try: func(w *world, _ attempt) error {
				return w.patchNode(w.node, `{"metadata":{"labels":{"`+controlPlaneLabel+`":""}}}`)
			}},
		{by: aKubelet, to: "pass for a Node of the control plane: it sets the taint of one", finding: "F-89", stop: rights,
			try: func(w *world, _ attempt) error {
				return w.patchNode(w.node, `{"spec":{"taints":[{"key":"`+controlPlaneLabel+`","effect":"NoSchedule"}]}}`)
			}},
	}
}

// lureGroup returns a function that makes an attempt by creating a deployment with bounds for the autoscaler, after change has changed it.
func lureGroup(replicas int32, change func(*v1alpha1.MachineDeployment)) func(*world, attempt) error {
	return func(w *world, a attempt) error {
		d := w.base.DeepCopy()
		d.Namespace, d.Name, d.Spec.Replicas = tenant, a.key(), ptr.To(replicas)
		d.Annotations[v1alpha1.AnnotationsMinSize[0]] = "0"
		d.Spec.Selector.MatchLabels = map[string]string{"group": a.key()}
		d.Spec.Template.Metadata.Labels = map[string]string{"group": a.key()}
		change(d)
		return w.author.Create(w.Context(), d)
	}
}

// groupID returns the ID of the group of the deployment that an attempt has created.
func (a attempt) groupID() string { return "MachineDeployment/" + tenant + "/" + a.key() }

// templateOf waits until a deployment has a node template, and returns the template.
func (w *world) templateOf(namespace, name string) *v1alpha1.NodeTemplate {
	var d v1alpha1.MachineDeployment
	eventually(w.T, func(ctx context.Context) (string, error) {
		if err := w.s.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &d); err != nil || d.Status.NodeTemplate != nil {
			return "", err
		}
		return "a node template of " + name, nil
	})
	return d.Status.NodeTemplate
}

// atMostItsFlavor returns an error when the template of an attempt's deployment has more than a server of the group's flavor.
func atMostItsFlavor(w *world, a attempt) error {
	got := w.templateOf(tenant, a.key()).Capacity
	for name, most := range map[corev1.ResourceName]string{corev1.ResourceCPU: "2", corev1.ResourceMemory: "8Gi", corev1.ResourceEphemeralStorage: "50Gi"} {
		if q := got[name]; q.Cmp(resource.MustParse(most)) > 0 {
			return fmt.Errorf("the template has %s=%s, and the flavor %s", name, q.String(), most)
		}
	}
	return nil
}

// lureAttempts returns the attacks in which a group takes the autoscaler's orders for pods of other users.
func lureAttempts() []attempt {
	annotated := func(annotations map[string]string) func(*v1alpha1.MachineDeployment) {
		return func(d *v1alpha1.MachineDeployment) {
			for key, value := range annotations {
				d.Annotations[key] = value
			}
		}
	}
	return []attempt{
		{by: theAuthor, to: "take the autoscaler's orders for large pods: annotations give his Nodes 64 CPUs and 1 TiB", finding: "F-92", stop: product, after: atMostItsFlavor,
			try: lureGroup(0, annotated(map[string]string{
				v1alpha1.AnnotationCapacity + "cpu": "64", v1alpha1.AnnotationCapacity + "memory": "1Ti", v1alpha1.AnnotationCapacity + "ephemeral-disk": "10Ti",
			}))},
		{by: theAuthor, to: "take the autoscaler's orders for large pods: his MachineClass gives Nodes 64 CPUs and 1 TiB", finding: "F-92", stop: product, after: atMostItsFlavor,
			try: func(w *world, a attempt) error {
				class := &v1alpha1.MachineClass{
					ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: a.key()}, ProviderSpec: &runtime.RawExtension{Raw: w.base.Spec.Template.Spec.ProviderSpec.Value.Raw},
					NodeTemplate: &v1alpha1.ClassNodeTemplate{Capacity: corev1.ResourceList{
						corev1.ResourceCPU: resource.MustParse("64"), corev1.ResourceMemory: resource.MustParse("1Ti"), corev1.ResourceEphemeralStorage: resource.MustParse("10Ti"),
					}},
				}
				if err := w.author.Create(w.Context(), class); err != nil {
					return err
				}
				return lureGroup(0, func(d *v1alpha1.MachineDeployment) {
					m := &v1alpha1.Machine{}
					useClass(m, tenant, a.key())
					d.Spec.Template.Spec.ProviderSpec = m.Spec.ProviderSpec
				})(w, a)
			}},
		{by: theAuthor, to: "keep the autoscaler's orders for two years: maxnodeprovisiontime of his group is " + forever, finding: "F-92", stop: product,
			after: waitsNotForEver, try: lureGroup(0, annotated(map[string]string{v1alpha1.AnnotationOptions + "maxnodeprovisiontime": forever}))},
		{by: theAuthor, to: "keep the autoscaler's orders for two years: his group also has that time as its join timeout", finding: "F-92", stop: product,
			after: waitsNotForEver, try: lureGroup(0, annotated(map[string]string{v1alpha1.AnnotationOptionsCAPI + "maxnodeprovisiontime": forever, v1alpha1.AnnotationJoinTimeout: forever}))},
		{by: theAuthor, to: "take the autoscaler's orders at no cost: the Machines of his group wait for initializers", finding: "F-92", stop: product, after: hasNoServer,
			try: lureGroup(2, func(d *v1alpha1.MachineDeployment) {
				d.Spec.Template.Metadata.Annotations = map[string]string{v1alpha1.AnnotationInitializers: "never"}
			})},
		{by: theAuthor, to: "take the autoscaler's orders at no cost: the Machines of his group are paused", finding: "F-92", stop: product, after: hasNoServer,
			try: lureGroup(2, func(d *v1alpha1.MachineDeployment) {
				d.Spec.Template.Metadata.Annotations = map[string]string{v1alpha1.AnnotationPaused: ""}
			})},
		{by: theAuthor, to: "stop the autoscaler for all groups: his group has bounds that cannot be read", finding: "F-92", stop: product, after: othersAreListed,
			try: lureGroup(0, annotated(map[string]string{v1alpha1.AnnotationsMaxSize[0]: "99999999999999999999"}))},
		{by: theAuthor, to: "end the autoscaler: his group has a Node template without resources", finding: "F-92", stop: product, after: othersAreListed,
			try: lureGroup(0, annotated(map[string]string{v1alpha1.AnnotationCapacity + "cpu": "0", v1alpha1.AnnotationCapacity + "memory": "-1"}))},
		{by: theAuthor, to: "have the autoscaler scale his group up to its maximum and never down: all or nothing", finding: "F-92", stop: product, after: waitsNotForEver,
			try: lureGroup(0, annotated(map[string]string{v1alpha1.AnnotationOptions + "zeroormaxnodescaling": "true", v1alpha1.AnnotationOptions + "scaledownunneededtime": "10m"}))},
	}
}

// waitsNotForEver returns an error when the options of an attempt's group let the autoscaler wait too long, or scale all or nothing.
func waitsNotForEver(w *world, a attempt) error {
	minutes := func(n int) *durationpb.Duration { return durationpb.New(time.Duration(n) * time.Minute) }
	got, err := w.grpc().NodeGroupGetOptions(w.Context(), &proto.NodeGroupAutoscalingOptionsRequest{Id: a.groupID(), Defaults: &proto.NodeGroupAutoscalingOptions{
		ScaleDownUnneededDuration: minutes(10), ScaleDownUnreadyDuration: minutes(20), MaxNodeProvisionDuration: minutes(15),
	}})
	if err != nil {
		return fmt.Errorf("the group has no options: %w", err)
	}
	o := got.GetNodeGroupAutoscalingOptions()
	if longest := o.GetMaxNodeProvisionDuration().AsDuration(); longest > longestProvision || longest == 0 || o.GetZeroOrMaxNodeScaling() {
		return fmt.Errorf("its options are %v", o)
	}
	return nil
}

// othersAreListed returns an error when the group of other users is not listed, or when the group of the attempt has an empty template.
func othersAreListed(w *world, a attempt) error {
	calls := w.grpc()
	list, err := calls.NodeGroups(w.Context(), &proto.NodeGroupsRequest{})
	if err != nil {
		return err
	}
	listed := false
	for _, g := range list.GetNodeGroups() {
		listed = listed || g.GetId() == "MachineDeployment/"+metav1.NamespaceSystem+"/"+w.herd.group
	}
	if !listed {
		return fmt.Errorf("the group of other users is not listed: %v", list)
	}
	if node, err := calls.NodeGroupTemplateNodeInfo(w.Context(), &proto.NodeGroupTemplateNodeInfoRequest{Id: a.groupID()}); err == nil && len(node.GetNodeBytes()) == 0 {
		return fmt.Errorf("the template of %s is empty", a.groupID())
	}
	return nil
}

// reportAttempts returns the attacks in which a kubelet reports wrong facts about its own Node.
func reportAttempts() []attempt {
	reports := func(values string) func(*world, attempt) error {
		return func(w *world, a attempt) error {
			return w.reportsCapacity(`{"status":{"capacity":`+values+`,"allocatable":`+values+`}}`, a.key())
		}
	}
	return []attempt{
		{by: aKubelet, to: "have groups of others never grow: it reports 1m of CPU", finding: "F-91", stop: product, after: othersKeepTheirTemplate,
			try: reports(`{"cpu":"1m","memory":"1Mi"}`)},
		{by: aKubelet, to: "have groups of others take orders that do not fit: it reports 64 CPUs", finding: "F-91", stop: product, after: othersKeepTheirTemplate,
			try: reports(`{"cpu":"64","memory":"1Ti"}`)},
		{by: aKubelet, to: "appear in another zone: it changes the label of its Node", finding: "F-94", stop: product,
			try: func(w *world, _ attempt) error {
				return w.patchNode(w.node, `{"metadata":{"labels":{"topology.kubernetes.io/zone":"elsewhere"}}}`)
			}},
		{by: aKubelet, to: "fill the memory of drover: its Node has 250 kB of annotations", finding: "F-96", stop: product,
			try: func(w *world, _ attempt) error {
				return w.patchNode(w.node, `{"metadata":{"annotations":{"fat":"`+strings.Repeat("x", 250_000)+`"}}}`)
			}},
		{by: aKubelet, to: "fill the memory of drover: its Node has an annotation of 1 MiB", finding: "F-96", stop: validation,
			try: func(w *world, _ attempt) error {
				return w.patchNode(w.node, `{"metadata":{"annotations":{"fat":"`+strings.Repeat("x", 1<<20)+`"}}}`)
			}},
	}
}

// reportsCapacity patches the status of the author's Node and has drover look at the author's group, until the condition of the group
// names what the Node reports.
func (w *world) reportsCapacity(body, round string) error {
	n := 0
	eventually(w.T, func(ctx context.Context) (string, error) {
		n++
		if err := w.patchNode(w.node, body, "status"); err != nil {
			return "", err
		}
		if err := w.patch(w.group(), fmt.Sprintf(`{"metadata":{"annotations":{"look":"%s-%d"}}}`, round, n)); err != nil {
			return "", err
		}
		var d v1alpha1.MachineDeployment
		if err := w.s.Client.Get(ctx, client.ObjectKey{Namespace: tenant, Name: ownGroup}, &d); err != nil {
			return "", err
		}
		for _, c := range d.Status.Conditions {
			if c.Type == v1alpha1.ConditionTemplateResolved && strings.Contains(c.Message, "node "+w.node+" reports") {
				return "", nil
			}
		}
		return "the condition that names the report", nil
	})
	return nil
}

// othersKeepTheirTemplate returns an error when the template of other users' group, or that of the attacker's, is not near the flavor.
func othersKeepTheirTemplate(w *world, _ attempt) error {
	for namespace, name := range map[string]string{metav1.NamespaceSystem: w.herd.group, tenant: ownGroup} {
		got := w.templateOf(namespace, name).Allocatable
		if cpu, memory := got.Cpu(), got.Memory(); cpu.MilliValue() < 1280 || cpu.MilliValue() > 2000 || memory.Value() < 5<<30 || memory.Value() > 8<<30 {
			raw, err := json.Marshal(got)
			if err != nil {
				return err
			}
			return fmt.Errorf("the template of %s/%s is %s", namespace, name, raw)
		}
	}
	return nil
}
