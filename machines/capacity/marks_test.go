package capacity

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// marked returns a pool as pool does, with a node that has the given labels and huge pages of size 0.
func marked(name string, labels map[string]string, change func(*v1alpha1.MachineDeployment)) []client.Object {
	objects := pool(name, "3500Mi", change)
	mark(objects[3].(*corev1.Node), labels)
	return objects
}

func mark(n *corev1.Node, labels map[string]string) {
	n.Labels = labels
	n.Status.Capacity["hugepages-2Mi"], n.Status.Allocatable["hugepages-2Mi"] = resource.Quantity{}, resource.Quantity{}
}

// second returns another Machine of a pool with its node, which has the given labels.
func second(objects []client.Object, labels map[string]string) []client.Object {
	m, n := objects[2].DeepCopyObject().(*v1alpha1.Machine), objects[3].DeepCopyObject().(*corev1.Node)
	m.Name, m.UID, n.Name = m.Name+"-2", m.UID+"-2", n.Name+"-2"
	m.Status.NodeRef = &corev1.ObjectReference{Name: n.Name}
	mark(n, labels)
	return []client.Object{m, n}
}

func TestANodeTemplateHasWhatAllNodesOfItsGroupHave(t *testing.T) {
	c := &catalog{shape: shape()}
	of := func(extra map[string]string) map[string]string {
		labels := map[string]string{
			corev1.LabelHostname: "a-m", v1alpha1.LabelOwnedBy: "x", v1alpha1.LabelPhysicalHost: "h", "team": "other", "cni.example/mode": "bgp",
			"topology.openstack.org/host-id": "h", "node-role.kubernetes.io/control-plane": "",
		}
		for key, value := range extra {
			labels[key] = value
		}
		return labels
	}
	t.Run("labels of other programs and resources of size 0 are added; labels of the template and of a single node are not (F-124)", func(t *testing.T) {
		got, err := ask(t, c, "a", marked("a", of(nil), nil)...)
		if err != nil {
			t.Fatal(err)
		}
		want := resolve(t, deployment(), shape()).Labels
		want["cni.example/mode"] = "bgp"
		if diff := cmp.Diff(want, got.Labels); diff != "" {
			t.Errorf("labels (-want +got):\n%s", diff)
		}
		pages, there := got.Capacity["hugepages-2Mi"]
		if _, free := got.Allocatable["hugepages-2Mi"]; !there || !free || !pages.IsZero() || len(got.unlike) > 0 {
			t.Errorf("capacity %v, said %q", got.Capacity, got.unlike)
		}
	})
	t.Run("a label that is not the same on all nodes is left out and named, and so is a resource above 0 (F-124)", func(t *testing.T) {
		objects := marked("a", of(map[string]string{"rack": "1"}), nil)
		objects[3].(*corev1.Node).Status.Capacity["example.com/fpga"] = resource.MustParse("1")
		got, err := ask(t, c, "a", append(objects, second(objects, of(map[string]string{"rack": "2", corev1.LabelTopologyZone: "other"}))...)...)
		_, there := got.Labels["rack"]
		if said := strings.Join(got.unlike, "\n"); err != nil || there || said != "the nodes differ in label rack\nnode a-m has example.com/fpga" {
			t.Errorf("labels %v, said %q, error %v", got.Labels, got.unlike, err)
		}
		if v := judge(&subject{Object: &v1alpha1.MachineDeployment{}}, got, nil); !strings.Contains(v.condition.Message, "label rack") || v.warning != "" {
			t.Errorf("the verdict is %+v", v)
		}
	})
	t.Run("a label that a new node does not have yet stays (F-124)", func(t *testing.T) {
		objects := marked("a", of(map[string]string{"rack": "1"}), nil)
		young := second(objects, of(nil))
		young[1].(*corev1.Node).Status.Conditions[0].LastTransitionTime = metav1.Now()
		got, err := ask(t, c, "a", append(objects, young...)...)
		if err != nil || got.Labels["rack"] != "1" || len(got.unlike) > 0 {
			t.Errorf("labels %v, said %q, error %v", got.Labels, got.unlike, err)
		}
	})
	t.Run("many labels on a node are not all learned (F-124)", func(t *testing.T) {
		many := map[string]string{}
		for n := range 1000 {
			many[fmt.Sprintf("x-%d", n)] = ""
		}
		if got, err := ask(t, c, "a", marked("a", many, nil)...); err != nil || len(got.Labels) != mostLabels {
			t.Errorf("%d labels, error %v", len(got.Labels), err)
		}
	})
	t.Run("a group without nodes has the labels and resources of nodes of the same kind in its namespace, but not where they are and what their own template says (F-124)", func(t *testing.T) {
		place := map[string]string{corev1.LabelTopologyZone: "one", "topology.example.com/rack": "1", "blue": "yes", "noted": "yes", "cni.example/mode": "bgp"}
		teacher := marked("a", place, func(d *v1alpha1.MachineDeployment) {
			d.Spec.Template.Spec.Metadata.Labels["blue"] = "yes"
			d.Annotations = map[string]string{v1alpha1.AnnotationCapacity + "labels": "noted=yes"}
		})
		learned, err := ask(t, c, "a", teacher...)
		if err != nil {
			t.Fatal(err)
		}
		teacher[0].(*v1alpha1.MachineDeployment).Status.NodeTemplate = learned.NodeTemplate
		got, err := ask(t, c, "b", append(pool("b", "", nil), teacher...)...)
		want := resolve(t, deployment(), shape()).Labels
		want["cni.example/mode"] = "bgp"
		if diff := cmp.Diff(want, got.Labels); err != nil || diff != "" {
			t.Errorf("error %v, labels (-want +got):\n%s", err, diff)
		}
		if _, there := got.Capacity["hugepages-2Mi"]; !there {
			t.Errorf("capacity %v", got.Capacity)
		}
	})
}

func TestWhereTheCloudPutsAGroupIsLearnedFromItsNodes(t *testing.T) {
	unplaced := shape()
	unplaced.Zone, unplaced.Region, unplaced.Architecture = "", "", ""
	c := &catalog{shape: unplaced}
	at := func(zone string) map[string]string {
		return map[string]string{
			corev1.LabelTopologyZone: zone, zoneLabel: zone, corev1.LabelTopologyRegion: "RegionOne", corev1.LabelArchStable: "arm64", "beta.kubernetes.io/arch": "arm64",
		}
	}
	keys := []string{corev1.LabelTopologyZone, zoneLabel, corev1.LabelTopologyRegion, corev1.LabelArchStable, "beta.kubernetes.io/arch"}
	placed := func(t *testing.T, objects ...client.Object) map[string]string {
		t.Helper()
		got, err := ask(t, c, "a", objects...)
		if err != nil {
			t.Fatal(err)
		}
		for key := range got.Labels {
			if !slices.Contains(keys, key) {
				delete(got.Labels, key)
			}
		}
		return got.Labels
	}
	t.Run("a group without a zone in its spec has the zone, region and architecture that all of its nodes have (F-127)", func(t *testing.T) {
		if diff := cmp.Diff(at("one"), placed(t, marked("a", at("one"), nil)...)); diff != "" {
			t.Errorf("labels (-want +got):\n%s", diff)
		}
	})
	t.Run("a group whose nodes are in two zones has no zone (F-127)", func(t *testing.T) {
		objects := marked("a", at("one"), nil)
		want := at("one")
		delete(want, corev1.LabelTopologyZone)
		delete(want, zoneLabel)
		if diff := cmp.Diff(want, placed(t, append(objects, second(objects, at("two"))...)...)); diff != "" {
			t.Errorf("labels (-want +got):\n%s", diff)
		}
	})
	t.Run("a group without nodes has the architecture that images have as a rule (F-127)", func(t *testing.T) {
		if diff := cmp.Diff(map[string]string{corev1.LabelArchStable: "amd64", "beta.kubernetes.io/arch": "amd64"}, placed(t, pool("a", "", nil)...)); diff != "" {
			t.Errorf("labels (-want +got):\n%s", diff)
		}
	})
}
