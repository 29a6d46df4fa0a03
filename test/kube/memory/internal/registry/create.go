package registry

import (
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/drover-project/drover/test/kube/memory/internal/catalog"
	"github.com/drover-project/drover/test/kube/memory/internal/store"
)

// create creates an object from a request's body.
func (s *Registry) create(q *Request) (*store.Record, error) {
	o, err := q.Kind.Read(q.Body)
	if err != nil {
		return nil, err
	}
	return s.born(q, o, false)
}

// born stores a new object. owned reports whether managedFields are already set.
func (s *Registry) born(q *Request, o *catalog.Object, owned bool) (*store.Record, error) {
	if err := s.mayBeBorn(q, o); err != nil {
		return nil, err
	}
	k := q.Kind
	if !k.BornWithStatus {
		delete(o.Object, "status")
	}
	if err := s.startKind(q, o); err != nil {
		return nil, err
	}
	// The name is generated last, as in the real server, so that a refused request uses up no name.
	if o.GetName() == "" {
		o.SetName(s.freeName(q, o.GetGenerateName()))
	}
	if _, there := s.store.At(k, o.GetNamespace(), o.GetName()); there {
		return nil, apierrors.NewAlreadyExists(k.Resource(), o.GetName())
	}
	o, err := k.Settle(o)
	if err != nil {
		return nil, err
	}
	if !owned {
		blank, err := k.Blank()
		if err != nil {
			return nil, err
		}
		o = k.Managers[q.Subresource].UpdateNoErrors(blank, o, q.Manager).(*catalog.Object)
	}
	if k.GroupKind() == catalog.Core("Node").GroupKind() {
		// The taint of a new Node gets no entry in managedFields, because in the real server an admission plug-in adds
		// the taint.
		if err := s.startNode(o); err != nil {
			return nil, err
		}
	}
	o.SetUID(s.store.NextUID())
	o.SetCreationTimestamp(store.Now())
	o.SetDeletionTimestamp(nil)
	o.SetDeletionGracePeriodSeconds(nil)
	o.SetGeneration(0)
	if k.Counts {
		o.SetGeneration(1)
	}
	r, err := s.store.Put(k, o)
	if err == nil {
		s.collectLater(o)
	}
	return r, err
}

func (s *Registry) mayBeBorn(q *Request, o *catalog.Object) error {
	k := q.Kind
	if o.GetResourceVersion() != "" {
		return errors.New("resourceVersion should not be set on objects to be created")
	}
	if q.Namespace != "" && o.GetNamespace() != "" && q.Namespace != o.GetNamespace() {
		return apierrors.NewBadRequest("the namespace of the provided object does not match the namespace sent on the request")
	}
	if !k.Namespaced {
		o.SetNamespace("")
	} else {
		o.SetNamespace(q.Namespace)
		namespaces := s.catalog.ByKind[catalog.Core("Namespace").GroupKind()]
		if _, there := s.store.At(namespaces, "", q.Namespace); !there {
			return apierrors.NewNotFound(namespaces.Resource(), q.Namespace)
		}
	}
	if o.GetName() == "" && o.GetGenerateName() == "" {
		return apierrors.NewInvalid(k.GroupKind(), "", field.ErrorList{
			field.Required(field.NewPath("metadata", "name"), "name or generateName is required"),
		})
	}
	return nil
}

func (s *Registry) freeName(q *Request, prefix string) string {
	for {
		name := s.store.NextName(prefix)
		if _, taken := s.store.At(q.Kind, q.Namespace, name); !taken {
			return name
		}
	}
}

// startKind sets the fields that the server itself sets in new objects of some kinds.
func (s *Registry) startKind(q *Request, o *catalog.Object) error {
	switch q.Kind.GroupKind() {
	case catalog.V1("certificates.k8s.io", "CertificateSigningRequest").GroupKind():
		return signedBy(q.User, o)
	case catalog.Core("Secret").GroupKind():
		return startSecret(o)
	case catalog.Core("Pod").GroupKind():
		return set(o, "Pending", "status", "phase")
	case catalog.Core("Namespace").GroupKind():
		return set(o, "Active", "status", "phase")
	}
	return nil
}

// startNode makes all of a Node's capacity allocatable, and adds the taint not-ready, which a controller removes
// later.
func (s *Registry) startNode(o *catalog.Object) error {
	if !s.rules.NodesUntainted {
		if err := taintNode(o); err != nil {
			return err
		}
	}
	capacity, _, _ := unstructured.NestedMap(o.Object, "status", "capacity")
	if _, given, _ := unstructured.NestedMap(o.Object, "status", "allocatable"); given || capacity == nil {
		return nil
	}
	return set(o, capacity, "status", "allocatable")
}

// taintNode adds the taint not-ready to a Node that has none.
func taintNode(o *catalog.Object) error {
	const notReady = "node.kubernetes.io/not-ready"
	taints, _, _ := unstructured.NestedSlice(o.Object, "spec", "taints")
	tainted := slices.ContainsFunc(taints, func(taint any) bool {
		fields, ok := taint.(map[string]any)
		return ok && fields["key"] == notReady && fields["effect"] == string(corev1.TaintEffectNoSchedule)
	})
	if !tainted {
		taints = append(taints, map[string]any{"key": notReady, "effect": string(corev1.TaintEffectNoSchedule)})
	}
	return set(o, taints, "spec", "taints")
}
