package machinecontroller

import (
	"context"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	cleanupFinalizer = "kubermatic.io/cleanup-operating-system-configs"
	writeNote        = "example.com/writes"
	// writeEvery is the interval between writes. It is long enough for other programs to write without a conflict.
	writeEvery = 300 * time.Millisecond
)

// RunManager updates all MachineDeployments of a namespace again and again until ctx ends, as operating-system-manager
// does. It writes whole objects, with the finalizer of operating-system-manager and an annotation that changes each
// time. It returns how many writes the API server accepted.
func RunManager(ctx context.Context, c client.Client, namespace string) (writes int) {
	return rewrite(ctx, c, "MachineDeployment", namespace, func(d *MachineDeployment) {
		d.Finalizers = slices.DeleteFunc(d.Finalizers, func(each string) bool { return each == cleanupFinalizer })
		if d.DeletionTimestamp == nil {
			d.Finalizers = append(d.Finalizers, cleanupFinalizer)
		}
	})
}

// RunSetWriter updates all MachineSets of a namespace again and again until ctx ends, and writes whole objects. It
// returns how many writes the API server accepted.
func RunSetWriter(ctx context.Context, c client.Client, namespace string) (writes int) {
	return rewrite(ctx, c, "MachineSet", namespace, func(*MachineSet) {})
}

// object is the type constraint for a pointer to the Go type of one of machine-controller's kinds.
type object[T any] interface {
	*T
	metav1.Object
}

// rewrite updates all objects of a kind again and again until ctx ends: it sets an annotation to a new value, calls the
// function change, and writes the whole object. It returns how many writes the API server accepted.
func rewrite[T any, P object[T]](ctx context.Context, c client.Client, kind, namespace string, change func(P)) (writes int) {
	ticker := time.NewTicker(writeEvery)
	defer ticker.Stop()
	for ctx.Err() == nil {
		all, err := list[T](ctx, c, kind, namespace)
		for i := 0; err == nil && i < len(all); i++ {
			o := P(all[i])
			annotations := o.GetAnnotations()
			if annotations == nil {
				annotations = map[string]string{}
			}
			annotations[writeNote] = strconv.Itoa(writes)
			o.SetAnnotations(annotations)
			change(o)
			if update(ctx, c, o) == nil {
				writes++
			}
		}
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
	return writes
}

// RunMachineWriter updates all Machines of a namespace again and again until ctx ends, and writes whole objects. It
// returns how many writes the API server accepted.
func RunMachineWriter(ctx context.Context, c client.Client, namespace string) (writes int) {
	return rewrite(ctx, c, "Machine", namespace, func(*Machine) {})
}
