package deploy_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// placement is the part of a pod spec, and of a chart's values, that says on which nodes pods run.
type placement struct {
	NodeSelector map[string]string `json:"nodeSelector"`
	Affinity     *corev1.Affinity  `json:"affinity"`
}

// preference returns the value of a node for the scheduler; -1 when pods may not run there.
func (p placement) preference(t *testing.T, node *corev1.Node) int64 {
	t.Helper()
	if may, err := nodeaffinity.NewRequiredNodeAffinity(p.NodeSelector, p.Affinity).Match(node); err != nil || !may {
		return -1
	}
	preferred, err := nodeaffinity.NewPreferredSchedulingTerms(p.terms())
	if err != nil {
		t.Fatal(err)
	}
	return preferred.Score(node)
}

func (p placement) terms() []corev1.PreferredSchedulingTerm {
	return p.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution
}

// authorsNode returns a Node of an author with every label that the placement names, as the author would choose it, and with the label that
// drover puts on each Node of a Machine.
func (p placement) authorsNode() *corev1.Node {
	node := &corev1.Node{}
	node.Labels = map[string]string{"node-role.kubernetes.io/control-plane": "", "node-role.kubernetes.io/master": ""}
	for _, term := range p.terms() {
		for _, e := range term.Preference.MatchExpressions {
			node.Labels[e.Key] = append(e.Values, "")[0]
		}
	}
	node.Labels[v1alpha1.LabelManaged] = "true"
	return node
}

func TestNoLabelOfAnAuthorAttractsThePodsOfDroverOrOfTheAutoscaler(t *testing.T) {
	deployed := func(file string, document int) placement {
		var d appsv1.Deployment
		decode(t, file, document, &d)
		return placement{d.Spec.Template.Spec.NodeSelector, d.Spec.Template.Spec.Affinity}
	}
	valued := func(file string) (p placement) {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(read(t, file).Object, &p); err != nil {
			t.Fatal(err)
		}
		return p
	}
	bare := &corev1.Node{}
	for name, p := range map[string]placement{
		"deploy/deployment.yaml":                    deployed("deployment.yaml", 0),
		"deploy/control/deployment.yaml":            deployed("control/deployment.yaml", 0),
		"deploy/cluster-autoscaler/deployment.yaml": deployed("cluster-autoscaler/deployment.yaml", 1),
		"deploy/cluster-autoscaler/values.yaml":     valued("cluster-autoscaler/values.yaml"),
		"deploy/chart/drover/values.yaml":           valued("chart/drover/values.yaml"),
	} {
		t.Run(name+": the pods prefer a Node without labels to a Node of a Machine that has every label which attracts them (F-89)", func(t *testing.T) {
			if author, other := p.preference(t, p.authorsNode()), p.preference(t, bare); author >= other {
				t.Errorf("the author's Node has the score %d, the other one %d", author, other)
			}
		})
		t.Run(name+": the pods may run where every Node belongs to a Machine (F-89)", func(t *testing.T) {
			if score := p.preference(t, p.authorsNode()); score < 0 {
				t.Errorf("the score is %d", score)
			}
		})
	}
}
