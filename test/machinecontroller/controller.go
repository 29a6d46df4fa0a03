package machinecontroller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/rand"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// passEvery is the interval between two passes over all objects.
	passEvery = 100 * time.Millisecond

	hashLabel    = "machine-template-hash"
	deleteFirst  = "cluster.k8s.io/delete-machine"
	revisionText = "machinedeployment.clusters.k8s.io/revision"
	sizeNote     = "machinedeployment.clusters.k8s.io/desired-replicas"
	surgeNote    = "machinedeployment.clusters.k8s.io/max-replicas"
)

// Controller simulates machine-controller in one namespace.
type Controller struct {
	client    client.Client
	namespace string

	mu      sync.Mutex
	refused []error
}

// New returns a simulated machine-controller that acts in a namespace as the client's user.
func New(c client.Client, namespace string) *Controller {
	return &Controller{client: c, namespace: namespace}
}

// Run makes passes until ctx ends. It completes a pass that has begun.
func (c *Controller) Run(ctx context.Context) {
	ticker := time.NewTicker(passEvery)
	defer ticker.Stop()
	for ctx.Err() == nil {
		if err := c.pass(context.WithoutCancel(ctx)); err != nil {
			c.note(err)
		}
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
}

// note records an error unless it is transient: a conflict, or an object that is gone.
func (c *Controller) note(err error) {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, each := range joined.Unwrap() {
			c.note(each)
		}
		return
	}
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refused = append(c.refused, err)
}

// Errors returns the errors with which the API server or the cloud has refused requests, without conflicts.
func (c *Controller) Errors() []error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.refused)
}

// pass handles every deployment, set and Machine once.
func (c *Controller) pass(ctx context.Context) error {
	deployments, err := list[MachineDeployment](ctx, c.client, "MachineDeployment", c.namespace)
	if err != nil {
		return err
	}
	sets, err := list[MachineSet](ctx, c.client, "MachineSet", c.namespace)
	if err != nil {
		return err
	}
	machines, err := list[Machine](ctx, c.client, "Machine", c.namespace)
	if err != nil {
		return err
	}
	var all []error
	for _, d := range deployments {
		all = append(all, c.deployment(ctx, d, sets))
	}
	for _, s := range sets {
		all = append(all, c.set(ctx, s, machines))
	}
	for _, m := range machines {
		all = append(all, c.machine(ctx, m, sets))
	}
	return errors.Join(all...)
}

// held adds the finalizer foregroundDeletion to an object, so that the garbage collector deletes the object only after
// its dependents. added reports whether the finalizer was missing.
func (c *Controller) held(ctx context.Context, o metav1.Object) (added bool, err error) {
	if slices.Contains(o.GetFinalizers(), metav1.FinalizerDeleteDependents) {
		return false, nil
	}
	o.SetFinalizers(append(o.GetFinalizers(), metav1.FinalizerDeleteDependents))
	return true, update(ctx, c.client, o)
}

// deployment scales the deployment's current set to the deployment's size.
func (c *Controller) deployment(ctx context.Context, d *MachineDeployment, sets []*MachineSet) error {
	if d.DeletionTimestamp != nil {
		return nil
	}
	if added, err := c.held(ctx, d); added || err != nil {
		return err
	}
	var own *MachineSet
	for _, s := range sets {
		if metav1.IsControlledBy(s, d) && sameTemplate(&s.Spec.Template, &d.Spec.Template) {
			own = s
		}
	}
	if own == nil {
		return c.newSet(ctx, d)
	}
	if d.Annotations[revisionText] == "" {
		metav1.SetMetaDataAnnotation(&d.ObjectMeta, revisionText, own.Annotations[revisionText])
		if err := update(ctx, c.client, d); err != nil {
			return err
		}
	}
	// A paused deployment is not scaled, because no test needs that.
	if d.Spec.Replicas != nil && *own.Spec.Replicas != *d.Spec.Replicas && !d.Spec.Paused {
		own.Spec.Replicas = d.Spec.Replicas
		noteSize(own)
		if err := update(ctx, c.client, own); err != nil {
			return err
		}
	}
	was := d.Status
	d.Status.ObservedGeneration, d.Status.Replicas, d.Status.UpdatedReplicas = d.Generation, own.Status.Replicas, own.Status.Replicas
	d.Status.ReadyReplicas, d.Status.AvailableReplicas = own.Status.ReadyReplicas, own.Status.AvailableReplicas
	d.Status.UnavailableReplicas = max(0, *own.Spec.Replicas-own.Status.AvailableReplicas)
	if d.Status == was {
		return nil
	}
	return updateStatus(ctx, c.client, d)
}

// noteSize records two sizes of the deployment in annotations of its set: the wanted size, and the maximum during an
// update, which is one more.
func noteSize(s *MachineSet) {
	metav1.SetMetaDataAnnotation(&s.ObjectMeta, sizeNote, strconv.Itoa(int(*s.Spec.Replicas)))
	metav1.SetMetaDataAnnotation(&s.ObjectMeta, surgeNote, strconv.Itoa(int(*s.Spec.Replicas)+1))
}

// sameTemplate reports whether two templates are equal except for the label that holds the template's hash.
func sameTemplate(a, b *MachineTemplate) bool {
	text := func(t *MachineTemplate) string {
		labels := map[string]string{}
		for key, value := range t.Labels {
			if key != hashLabel {
				labels[key] = value
			}
		}
		copied := *t
		copied.Labels = labels
		raw, _ := json.Marshal(copied)
		return string(raw)
	}
	return text(a) == text(b)
}

// newSet creates the set of a deployment's template.
func (c *Controller) newSet(ctx context.Context, d *MachineDeployment) error {
	raw, err := json.Marshal(d.Spec.Template)
	if err != nil {
		return err
	}
	sum := fnv.New32a()
	_, _ = sum.Write(raw)
	hash := rand.SafeEncodeString(fmt.Sprint(sum.Sum32()))
	with := func(labels map[string]string) map[string]string {
		out := map[string]string{hashLabel: hash}
		for key, value := range labels {
			out[key] = value
		}
		return out
	}
	s := &MachineSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: d.Namespace, Name: d.Name + "-" + hash, Labels: with(d.Spec.Template.Labels),
		Annotations:     map[string]string{revisionText: "1"},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(d, kind("MachineDeployment"))},
	}}
	s.Spec.Replicas, s.Spec.Template = d.Spec.Replicas, d.Spec.Template
	s.Spec.Selector.MatchLabels, s.Spec.Template.Labels = with(d.Spec.Selector.MatchLabels), with(d.Spec.Template.Labels)
	noteSize(s)
	return create(ctx, c.client, "MachineSet", s)
}

func kind(name string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: group, Version: "v1alpha1", Kind: name}
}

// set creates or deletes Machines until their number is the set's size.
func (c *Controller) set(ctx context.Context, s *MachineSet, machines []*Machine) error {
	if s.DeletionTimestamp != nil {
		return nil
	}
	if added, err := c.held(ctx, s); added || err != nil {
		return err
	}
	var own []*Machine
	for _, m := range machines {
		if m.DeletionTimestamp == nil && metav1.IsControlledBy(m, s) {
			own = append(own, m)
		}
	}
	for range int(*s.Spec.Replicas) - len(own) {
		m := &Machine{ObjectMeta: s.Spec.Template.ObjectMeta, Spec: s.Spec.Template.Spec}
		m.Namespace, m.GenerateName = s.Namespace, s.Name+"-"
		admitted(m)
		m.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(s, kind("MachineSet"))}
		if err := create(ctx, c.client, "Machine", m); err != nil {
			return err
		}
	}
	slices.SortStableFunc(own, func(a, b *Machine) int { return rank(a) - rank(b) })
	for i := range len(own) - int(*s.Spec.Replicas) {
		if err := remove(ctx, c.client, "Machine", own[i]); err != nil {
			return err
		}
	}
	return c.setStatus(ctx, s, own)
}

// rank returns a Machine's place in the order of deletion. Machines with a lower rank are deleted first.
func rank(m *Machine) int {
	if m.Annotations[deleteFirst] != "" {
		return 0
	}
	return 1
}

// setStatus writes the numbers of a set's Machines into the set's status.
func (c *Controller) setStatus(ctx context.Context, s *MachineSet, own []*Machine) error {
	was := s.Status
	s.Status.ObservedGeneration, s.Status.Replicas, s.Status.ReadyReplicas = s.Generation, int32(len(own)), 0
	s.Status.FullyLabeledReplicas = 0
	for _, m := range own {
		if labels.SelectorFromSet(s.Spec.Template.Labels).Matches(labels.Set(m.Labels)) {
			s.Status.FullyLabeledReplicas++
		}
		if m.Status.NodeRef != nil {
			s.Status.ReadyReplicas++
		}
	}
	s.Status.AvailableReplicas = s.Status.ReadyReplicas
	if s.Status == was {
		return nil
	}
	return updateStatus(ctx, c.client, s)
}
