package guard

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// machines is the name of the CRD of Machines.
const machines = "machines.cluster.k8s.io"

// kept are the names of the CRDs with which Machines vanish: first their own, then those whose objects own them.
var kept = []string{machines, "machinedeployments.cluster.k8s.io", "machinesets.cluster.k8s.io"}

// CRDs are the names of drover's CustomResourceDefinitions, sorted.
var CRDs = []string{"clusters.cluster.k8s.io", "machineclasses.cluster.k8s.io", "machinedeployments.cluster.k8s.io", machines, "machinesets.cluster.k8s.io"}

// readGoodFor is how long the result of a read is reused for a deletion that has begun or that is blocked, and also how long a read of all
// CRDs may take.
const readGoodFor = 5 * time.Second

// Keeper decides from the state of drover's CRDs whether Machines may be drained and deleted.
type Keeper struct {
	reader client.Reader
	clock  clock.PassiveClock
	metric prometheus.Gauge
	// reading is a lock for reads and for the field last: send to lock, receive to unlock. It is a channel because testing/synctest
	// does not treat waiting for a mutex as durably blocked.
	reading chan struct{}
	last    defined
}

// defined is the result of one read of all CRDs.
type defined struct {
	// at is when the read started.
	at   time.Time
	crds definitions
	// withheld is why no Machine may be deleted; empty when Machines may be. err is why that is not known.
	withheld string
	err      error
}

// definitions are the metadata of drover's CRDs, by name. A CRD that does not exist is not among them.
type definitions map[string]*metav1.PartialObjectMetadata

// NewKeeper returns a Keeper. The reader must read from the API server and not from a cache; it needs only the verb get for the CRDs in
// [CRDs]. NewKeeper returns an error if the metric cannot be registered.
func NewKeeper(reader client.Reader, now clock.PassiveClock, registry prometheus.Registerer) (*Keeper, error) {
	k := &Keeper{reader: reader, clock: now, reading: make(chan struct{}, 1), metric: prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "drover_deletions_withheld",
		Help: "1 while no Machine is drained or deleted because a CustomResourceDefinition of drover is being deleted, missing or unreadable, else 0. As of the last check for a Machine that is being deleted.",
	})}
	return k, registry.Register(k.metric)
}

// Withheld returns why the deletion of a Machine must wait; empty when it may go on. While it returns an error, that is not known,
// and the deletion must wait, too. begun reports whether an earlier call has let the deletion begin.
//
// When a CRD is deleted, it gets its deletion timestamp before its Machines get theirs. So a read that starts after the
// Machine's deletion was seen also shows that the CRD is being deleted, and a deletion begins only after such a read. For a
// deletion that has begun, or that is blocked, Withheld may use a result that is up to 5 s old. Many simultaneous calls share
// one read.
func (k *Keeper) Withheld(ctx context.Context, m *v1alpha1.Machine, begun bool) (why string, err error) {
	seen := k.look(ctx, begun)
	owner := metav1.GetControllerOf(m)
	made := seen.crds.youngest(kept[1:])
	if seen.err != nil || seen.withheld != "" || seen.crds.allow(machines) || owner == nil || owner.Kind != v1alpha1.MachineSetKind.Kind || !m.CreationTimestamp.Time.Before(made) {
		return seen.withheld, seen.err
	}
	// The CRD of sets or deployments was created again after the Machine. If the Machine's set is gone, the garbage collector may
	// have requested the deletion only because the set was deleted with the former CRD.
	set := &metav1.PartialObjectMetadata{}
	set.SetGroupVersionKind(v1alpha1.MachineSetKind)
	if err = k.reader.Get(ctx, client.ObjectKey{Namespace: m.Namespace, Name: owner.Name}, set); client.IgnoreNotFound(err) != nil {
		return "", fmt.Errorf("reading MachineSet %s: %w", owner.Name, err)
	} else if err == nil && set.UID == owner.UID && set.DeletionTimestamp == nil {
		return "", nil
	}
	return withheld(machines, "MachineSet %s is gone, and the CustomResourceDefinition of sets or of deployments was created again (%s) after the Machine, so the Machine may have been deleted only because that definition was deleted",
		owner.Name, made.UTC().Format(time.RFC3339)), nil
}

// look returns the last result if it may be used, and otherwise reads the CRDs. The end of ctx does not end a read, because other calls
// wait for it, too.
func (k *Keeper) look(ctx context.Context, begun bool) defined {
	asked := k.clock.Now()
	k.reading <- struct{}{}
	defer func() { <-k.reading }()
	recent := k.clock.Since(k.last.at) < readGoodFor
	if k.last.at.After(asked) || recent && (begun || k.last.withheld != "" || k.last.err != nil) {
		return k.last
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readGoodFor)
	defer cancel()
	next := defined{at: k.clock.Now()}
	if next.crds, next.err = read(ctx, k.reader); next.err == nil {
		next.withheld = judge(next.crds)
	}
	k.metric.Set(map[bool]float64{true: 1}[next.withheld != "" || next.err != nil])
	k.last = next
	return next
}

// DefinedSince reads the CRDs from the API server, and returns when the youngest of those of Machines, sets and deployments was created. It
// returns an error while one of the five is missing, is being deleted or cannot be read, because Machines may vanish with it.
func DefinedSince(ctx context.Context, reader client.Reader) (time.Time, error) {
	crds, err := read(ctx, reader)
	for _, name := range CRDs {
		if d := crds[name]; err == nil && (d == nil || d.DeletionTimestamp != nil) {
			err = fmt.Errorf("CustomResourceDefinition %s is missing or being deleted, and Machines with it", name)
		}
	}
	return crds.youngest(kept), err
}

// read reads the CRDs one by one.
func read(ctx context.Context, reader client.Reader) (definitions, error) {
	all := definitions{}
	for _, name := range CRDs {
		crd := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition"}}
		if err := reader.Get(ctx, client.ObjectKey{Name: name}, crd); err == nil {
			all[name] = crd
		} else if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("reading CustomResourceDefinition %s: %w; drover's role (kubectl apply --server-side -k deploy) allows it; until it succeeds, no Machine is drained or deleted", name, err)
		}
	}
	return all, nil
}

// youngest returns the creation time of the youngest of the CRDs with the given names.
func (all definitions) youngest(names []string) (made time.Time) {
	for _, name := range names {
		if d := all[name]; d != nil && d.CreationTimestamp.After(made) {
			made = d.CreationTimestamp.Time
		}
	}
	return made
}

// allow reports whether the CRD with the given name has the annotation that allows its deletion.
func (all definitions) allow(name string) bool {
	return all[name] != nil && all[name].Annotations[v1alpha1.AnnotationAllowDeletion] == "true"
}

// judge returns why no Machine may be drained or deleted; empty when Machines may be. A CRD that is being deleted must have
// the annotation that allows its deletion. A missing CRD cannot have the annotation, and the garbage collector may still be
// deleting the Machines that objects of that CRD owned. When a CRD is missing, the CRD of Machines must therefore have the
// annotation.
func judge(all definitions) string {
	var found, ask []string
	for _, name := range CRDs {
		switch d := all[name]; {
		case d == nil && !all.allow(machines):
			found, ask = append(found, name+" is missing"), append(ask, machines)
		case d != nil && d.DeletionTimestamp != nil && !all.allow(name):
			found, ask = append(found, name+" is being deleted"), append(ask, name)
		}
	}
	if len(found) == 0 {
		return ""
	}
	slices.Sort(ask)
	return withheld(strings.Join(slices.Compact(ask), " "), "of the CustomResourceDefinitions of drover, %s", strings.Join(found, ", "))
}

// withheld returns a message that explains why a deletion is blocked, and how to allow it or to keep the servers. ask are the names
// of the CRDs whose annotation allows it.
func withheld(ask, why string, values ...any) string {
	return fmt.Sprintf(why, values...) + `. Deleting a CustomResourceDefinition also deletes Machines, so drover keeps the servers and Nodes for now. To delete the servers and Nodes: kubectl annotate crd ` +
		ask + " " + v1alpha1.AnnotationAllowDeletion + `=true. To keep the servers and Nodes, see "When a definition was deleted by mistake" in docs/operations.md`
}
