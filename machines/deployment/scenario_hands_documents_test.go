package deployment_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/openstack/spec"
)

// The documents of a random world: the flavor of the deployment's Machines comes from a class, and the image of all Machines from the only
// Cluster of the namespace.
const (
	smallClass, largeClass     = "small", "large"
	onlyCluster, secondCluster = "only", "second"
)

func classNamed(name string) *v1alpha1.MachineClass {
	return &v1alpha1.MachineClass{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		ProviderSpec: &runtime.RawExtension{Raw: fmt.Appendf(nil, `{"cloudProvider":"openstack","cloudProviderSpec":{"flavor":%q}}`, name)}}
}

func clusterNamed(name, document string) *v1alpha1.Cluster {
	c := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}}
	if document != "" {
		c.Spec.ProviderSpec.Value = &runtime.RawExtension{Raw: []byte(document)}
	}
	return c
}

const (
	ubuntu  = `{"cloudProvider":"openstack","cloudProviderSpec":{"image":"ubuntu"}}`
	debian  = `{"cloudProvider":"openstack","cloudProviderSpec":{"image":"debian"}}`
	noImage = `{"cloudProvider":"openstack","cloudProviderSpec":{"image":null}}`
	foreign = `{"cloudProvider":"aws","cloudProviderSpec":{"region":"eu"}}`
)

// write creates the documents of the world. From then on, Machines without a Node wait until their provider spec can be read.
func (p *hands) write() {
	for _, o := range []client.Object{clusterNamed(onlyCluster, ubuntu), classNamed(smallClass), classNamed(largeClass)} {
		p.must(p.client.Create(p.t.Context(), o))
	}
	p.useClass(smallClass)
	reader := spec.NewReader(spec.Options{Reader: p.client})
	p.actor.waitFor(func(ctx context.Context, m *v1alpha1.Machine) error {
		sources, err := reader.Read(ctx, spec.Object{Name: "Machine " + m.Name, Namespace: m.Namespace, Spec: &m.Spec, Labels: m.Labels})
		if err == nil {
			_, err = sources.Spec()
		}
		return err
	})
}

// useClass makes the deployment's template name a class, which replaces all Machines of the deployment.
func (p *hands) useClass(name string) {
	if d := p.deployment(); d != nil {
		p.class, p.rolled = name, time.Now()
		p.patch(d, fmt.Sprintf(`{"spec":{"template":{"spec":{"providerSpec":{"value":{"cloudProvider":"openstack","cloudProviderSpec":null},"valueFrom":{"machineClass":{"name":%q}}}}}}}`, name))
	}
}

// classOf returns the name of the class in the spec of a Machine or template; empty when it names none.
func classOf(s *v1alpha1.MachineSpec) string {
	if s.ProviderSpec.ValueFrom == nil || s.ProviderSpec.ValueFrom.MachineClass == nil {
		return ""
	}
	return s.ProviderSpec.ValueFrom.MachineClass.Name
}

func (p *hands) exists(o client.Object) bool {
	err := p.client.Get(p.t.Context(), client.ObjectKeyFromObject(o), o.DeepCopyObject().(client.Object))
	p.must(err)
	return !apierrors.IsNotFound(err)
}

// editDocument makes one random change of a Cluster or a MachineClass. Only a template that names another class replaces Machines.
func (p *hands) editDocument() {
	class := pick(p, smallClass, largeClass)
	switch p.IntN(7) {
	case 0:
		p.toggle(clusterNamed(secondCluster, pick(p, ubuntu, debian, foreign)))
	case 1:
		p.toggle(clusterNamed(onlyCluster, ubuntu))
	case 2:
		p.patch(clusterNamed(pick(p, onlyCluster, secondCluster), ""), `{"spec":{"providerSpec":{"value":`+pick(p, ubuntu, debian, noImage, foreign)+`}}}`)
	case 3:
		p.patch(classNamed(class), fmt.Sprintf(`{"provider":%q,"providerSpec":{"cloudProviderSpec":{"flavor":%q}}}`, pick(p, "openstack", "openstack", "aws"), pick(p, "m1.small", "m1.large")))
	case 4:
		time.Sleep(time.Second) // the finalizer of a class follows its use after 200 ms
		p.toggle(classNamed(class))
	case 5:
		p.unprotect(classNamed(class))
	default:
		p.useClass(class)
	}
}

// unprotect removes the finalizers of a class. The class goes if it is being deleted. Otherwise its finalizer comes back.
func (p *hands) unprotect(class *v1alpha1.MachineClass) {
	p.must(p.client.Get(p.t.Context(), client.ObjectKeyFromObject(class), class))
	p.forced[class.Name] = !class.DeletionTimestamp.IsZero()
	p.patch(class, `{"metadata":{"finalizers":null}}`)
	time.Sleep(time.Second)
}

// toggle creates an object that does not exist, and deletes one that does, with any propagation.
func (p *hands) toggle(o client.Object) {
	if !p.exists(o) {
		p.did("create %T %s", o, o.GetName())
		p.forced[o.GetName()] = false
		p.must(p.client.Create(p.t.Context(), o))
		return
	}
	policy := pick(p, metav1.DeletePropagationOrphan, metav1.DeletePropagationBackground, metav1.DeletePropagationForeground)
	p.did("delete %T %s %s", o, o.GetName(), policy)
	p.must(p.client.Delete(p.t.Context(), o, client.PropagationPolicy(policy)))
}

// checkClasses checks that no class went while an object used it, unless somebody removed its finalizers.
func (p *hands) checkClasses() {
	p.t.Helper()
	sets, machines := p.objects()
	for _, name := range []string{smallClass, largeClass} {
		used := slices.ContainsFunc(sets, func(s v1alpha1.MachineSet) bool { return classOf(&s.Spec.Template.Spec) == name }) ||
			slices.ContainsFunc(machines, func(m v1alpha1.Machine) bool { return classOf(&m.Spec) == name })
		there := p.exists(classNamed(name))
		if p.there[name] && !there && used && !p.forced[name] {
			p.fail("MachineClass %s went while it was in use", name)
		}
		p.there[name] = there
	}
}

// machineSaysSo checks that a Machine without a Node shows which part of its provider spec it waits for.
func (p *hands) machineSaysSo(m *v1alpha1.Machine) {
	p.t.Helper()
	if !m.DeletionTimestamp.IsZero() || m.Status.NodeRef != nil {
		return
	}
	message := m.Status.ErrorMessage
	if message == nil || !strings.Contains(*message, "MachineClass") && !strings.Contains(*message, "Cluster") && !strings.Contains(*message, ".image") {
		p.fail("Machine %s waits, and its status is %+v", m.Name, m.Status)
	}
}

// mendDocuments restores the documents of the world.
func (p *hands) mendDocuments() {
	if second := clusterNamed(secondCluster, ""); p.exists(second) {
		p.toggle(second)
	}
	if only := clusterNamed(onlyCluster, ubuntu); !p.exists(only) {
		p.toggle(only)
	}
	p.patch(clusterNamed(onlyCluster, ""), `{"spec":{"providerSpec":{"value":`+ubuntu+`}}}`)
	for _, name := range []string{smallClass, largeClass} {
		if class := classNamed(name); !p.exists(class) {
			p.toggle(class)
		}
		p.patch(classNamed(name), `{"provider":"openstack"}`)
	}
}
