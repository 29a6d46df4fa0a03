package bench

import (
	"encoding/json"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// sample holds a Machine and its Node as drover left them. The bare client writes the same content.
type sample struct {
	machine v1alpha1.Machine
	node    corev1.Node
}

func (p *plant) sample() sample {
	p.Helper()
	var s sample
	var machines v1alpha1.MachineList
	p.must(p.client.List(p.Context(), &machines, client.Limit(1)))
	s.machine = machines.Items[0]
	p.must(p.client.Get(p.Context(), client.ObjectKey{Name: s.machine.Status.NodeRef.Name}, &s.node))
	return s
}

// bare returns how long a client without decisions needs for as many writes of the same content as drover made. It creates and
// patches Machines, creates and deletes join tokens, and registers and patches Nodes. It watches nothing and calls no cloud.
func (p *plant) bare(counts tally, like sample) time.Duration {
	n := *scale
	patches := max(0, (counts["machines"]+n/2)/n-1)
	work := make(chan int)
	var all sync.WaitGroup
	began := time.Now()
	for range writers {
		all.Go(func() {
			for i := range work {
				if err := p.bareMachine(fmt.Sprintf("bare-%d", i), patches, like); err != nil {
					p.Errorf("the bare client: %v", err)
				}
			}
		})
	}
	for i := range n {
		work <- i
	}
	close(work)
	all.Wait()
	return time.Since(began)
}

// bareMachine makes the writes of one Machine.
func (p *plant) bareMachine(name string, patches int, like sample) error {
	ctx := p.Context()
	m := like.machine.DeepCopy()
	m.ObjectMeta = metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name, Labels: m.Labels, Annotations: m.Annotations, Finalizers: m.Finalizers}
	m.Spec.ProviderID, m.Status = nil, v1alpha1.MachineStatus{}
	token := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name, Labels: map[string]string{v1alpha1.LabelTokenMachine: name}},
		StringData: map[string]string{"token-id": "abcdef", "token-secret": "0123456789abcdef", "expiration": "2026-01-02T03:04:05Z", "description": name},
	}
	node := registered(name, ptr.Deref(like.machine.Spec.ProviderID, ""))
	for _, o := range []client.Object{m, token, node} {
		if err := p.client.Create(ctx, o); err != nil {
			return err
		}
	}
	base, bare := m.DeepCopy(), m.DeepCopy()
	like.machine.Status.DeepCopyInto(&m.Status)
	m.Spec.ProviderID = like.machine.Spec.ProviderID
	body, err := client.MergeFrom(base).Data(m)
	if err != nil {
		return err
	}
	for i := range patches {
		// Each patch must change a field, because the API server does not store an unchanged object.
		var fields map[string]any
		if err := json.Unmarshal(body, &fields); err != nil {
			return err
		}
		fields["metadata"] = map[string]any{"annotations": map[string]string{"bare": fmt.Sprint(i)}}
		again, err := json.Marshal(fields)
		if err != nil {
			return err
		}
		if err := p.client.Patch(ctx, bare, client.RawPatch(types.MergePatchType, again)); err != nil {
			return err
		}
	}
	synced := node.DeepCopy()
	synced.Labels, synced.Annotations, synced.Spec.Taints = like.node.Labels, like.node.Annotations, like.node.Spec.Taints
	if err := p.client.Patch(ctx, synced, client.MergeFrom(node)); err != nil {
		return err
	}
	return p.client.Delete(ctx, token)
}
