package neighbours

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	nodeutil "k8s.io/component-helpers/node/util"
)

// Program is a program that writes Nodes.
type Program struct {
	// Name is a part of the user agent with which the program writes.
	Name string
	// Change changes a copy of a Node to what the program wants: its labels, annotations, taints and status. It is called again and again
	// for every Node, from one goroutine.
	Change func(n *corev1.Node)
}

// interval is the interval at which programs read the Nodes.
const interval = 100 * time.Millisecond

// Run runs programs until ctx ends, each with its own client. A write that meets a newer version of the Node is repeated. failed is called
// with each other error.
func Run(ctx context.Context, config *rest.Config, failed func(error), programs ...Program) {
	var work sync.WaitGroup
	for _, p := range programs {
		work.Go(func() {
			if err := p.run(ctx, config, failed); err != nil {
				failed(err)
			}
		})
	}
	work.Wait()
}

func (p Program) run(ctx context.Context, config *rest.Config, failed func(error)) error {
	own := rest.CopyConfig(config)
	own.UserAgent = p.Name + " (simulated)"
	client, err := kubernetes.NewForConfig(own)
	if err != nil {
		return fmt.Errorf("making the client of %s: %w", p.Name, err)
	}
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		if err := p.pass(ctx, client); err != nil && ctx.Err() == nil {
			failed(fmt.Errorf("%s: %w", p.Name, err))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// pass reads all Nodes once, and writes those that the program changes.
func (p Program) pass(ctx context.Context, client kubernetes.Interface) error {
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return fmt.Errorf("listing nodes: %w", err)
	}
	for i := range nodes.Items {
		n := &nodes.Items[i]
		if err := p.write(ctx, client, n); err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			return fmt.Errorf("writing node %s: %w", n.Name, err)
		}
	}
	return nil
}

func (p Program) write(ctx context.Context, client kubernetes.Interface, n *corev1.Node) error {
	changed := n.DeepCopy()
	p.Change(changed)
	if !equality.Semantic.DeepEqual(n.Status, changed.Status) {
		if _, _, err := nodeutil.PatchNodeStatus(client.CoreV1(), types.NodeName(n.Name), n, changed); err != nil {
			return err
		}
	}
	changed.Status = n.Status
	if equality.Semantic.DeepEqual(n, changed) {
		return nil
	}
	_, err := client.CoreV1().Nodes().Update(ctx, changed, metav1.UpdateOptions{})
	return err
}
