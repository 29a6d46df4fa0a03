package bench

import (
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// bare is the time that a client with nothing to decide needs for as many writes: Machines and Secrets as they are made
// and patched, Nodes as they are registered and patched.
func (p *plant) bare(counts tally) time.Duration {
	n := *scale
	each := map[string]int{}
	for resource, count := range counts {
		each[resource] = (count + n/2) / n
	}
	work := make(chan int)
	var all sync.WaitGroup
	began := time.Now()
	for range writers {
		all.Go(func() {
			for i := range work {
				p.bareMachine(i, each)
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

func (p *plant) bareMachine(i int, each map[string]int) {
	ctx, name := p.Context(), fmt.Sprintf("bare-%d", i)
	m := machine(p, i)
	m.Namespace, m.Name, m.UID = metav1.NamespaceDefault, name, ""
	m.Spec.Versions.Kubelet = "1.37.1"
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name}, StringData: map[string]string{"a": "b"}}
	for _, o := range []struct {
		object  client.Object
		writes  int
		present bool
	}{{m, each["machines"], true}, {node, each["nodes"] + 1, true}, {secret, each["secrets"], each["secrets"] > 0}} {
		if !o.present {
			continue
		}
		if err := p.client.Create(ctx, o.object); err != nil {
			p.Errorf("the bare client: %v", err)
			return
		}
		for w := range o.writes - 1 {
			patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"bare":"%d"}}}`, w)
			if err := p.client.Patch(ctx, o.object, client.RawPatch(types.MergePatchType, patch)); err != nil {
				p.Errorf("the bare client: %v", err)
				return
			}
		}
	}
}
