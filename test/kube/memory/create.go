package memory

import (
	"errors"
	"net/http"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// create makes an object from a request's body.
func (s *Server) create(q *request) (*record, error) {
	o, err := q.kind.read(q.body)
	if err != nil {
		return nil, err
	}
	return s.born(q, o, false)
}

// born stores a new object; owned: its fields' owners are on it already.
func (s *Server) born(q *request, o *object, owned bool) (*record, error) {
	if err := s.mayBeBorn(q, o); err != nil {
		return nil, err
	}
	k := q.kind
	if !k.bornWithStatus {
		delete(o.Object, "status")
	}
	if err := s.startKind(q, o); err != nil {
		return nil, err
	}
	// Names come last, as in the real server: a refusal uses none up.
	if o.GetName() == "" {
		o.SetName(s.freeName(q, o.GetGenerateName()))
	}
	if _, there := s.stores[k].records[key(o.GetNamespace(), o.GetName())]; there {
		return nil, apierrors.NewAlreadyExists(k.resource(), o.GetName())
	}
	o, err := k.settle(o)
	if err != nil {
		return nil, err
	}
	if !owned {
		blank, err := k.blank()
		if err != nil {
			return nil, err
		}
		o = k.managers[q.subresource].UpdateNoErrors(blank, o, q.manager).(*object)
	}
	if k.GroupKind() == core("Node").GroupKind() {
		// This is admission's work, which owns nothing.
		if err := s.startNode(o); err != nil {
			return nil, err
		}
	}
	o.SetUID(s.nextUID())
	o.SetCreationTimestamp(now())
	o.SetDeletionTimestamp(nil)
	o.SetDeletionGracePeriodSeconds(nil)
	o.SetGeneration(0)
	if k.counts {
		o.SetGeneration(1)
	}
	r, err := s.keep(k, o)
	if err == nil {
		s.collectLater(o)
	}
	return r, err
}

func (s *Server) mayBeBorn(q *request, o *object) error {
	k := q.kind
	if o.GetResourceVersion() != "" {
		return errors.New("resourceVersion should not be set on objects to be created")
	}
	if q.namespace != "" && o.GetNamespace() != "" && q.namespace != o.GetNamespace() {
		return apierrors.NewBadRequest("the namespace of the provided object does not match the namespace sent on the request")
	}
	if !k.namespaced {
		o.SetNamespace("")
	} else {
		o.SetNamespace(q.namespace)
		namespaces := s.catalog.byKind[core("Namespace").GroupKind()]
		if _, there := s.stores[namespaces].records[key("", q.namespace)]; !there {
			return apierrors.NewNotFound(namespaces.resource(), q.namespace)
		}
	}
	if o.GetName() == "" && o.GetGenerateName() == "" {
		return apierrors.NewInvalid(k.GroupKind(), "", field.ErrorList{
			field.Required(field.NewPath("metadata", "name"), "name or generateName is required"),
		})
	}
	return nil
}

func (s *Server) freeName(q *request, prefix string) string {
	for {
		name := s.nextName(prefix)
		if _, taken := s.stores[q.kind].records[key(q.namespace, name)]; !taken {
			return name
		}
	}
}

// startKind does what the server does to new objects of some kinds.
func (s *Server) startKind(q *request, o *object) error {
	switch q.kind.GroupKind() {
	case of("certificates.k8s.io", "CertificateSigningRequest").GroupKind():
		return signedBy(q.user, o)
	case core("Secret").GroupKind():
		return startSecret(o)
	case core("Pod").GroupKind():
		return set(o, "Pending", "status", "phase")
	case core("Namespace").GroupKind():
		return set(o, "Active", "status", "phase")
	}
	return nil
}

// startNode taints a Node as not ready, which a controller takes back, and lets all of it be allocated.
func (s *Server) startNode(o *object) error {
	if !s.options.NodesUntainted {
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
func taintNode(o *object) error {
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

// set writes one value into an object.
func set(o *object, value any, path ...string) error {
	at := o.Object
	for _, part := range path[:len(path)-1] {
		next, ok := at[part].(map[string]any)
		if at[part] != nil && !ok {
			return apierrors.NewBadRequest("the field " + part + " is no object")
		}
		if !ok {
			next = map[string]any{}
			at[part] = next
		}
		at = next
	}
	at[path[len(path)-1]] = value
	return nil
}

// success is the answer to a deletion that is done.
func success(q *request, o *object) metav1.Status {
	return metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess, Code: http.StatusOK,
		Details: &metav1.StatusDetails{Name: o.GetName(), Group: q.kind.Group, Kind: q.kind.plural, UID: o.GetUID()},
	}
}
