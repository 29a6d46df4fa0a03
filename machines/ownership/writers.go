package ownership

import (
	"encoding/json"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// Fields of the spec of a set or deployment, as managed fields name them.
const (
	FieldReplicas = "f:replicas"
	FieldTemplate = "f:template"
)

// written is what the managed fields of one writer say about the fields above.
var written = map[[2]bool]*metav1.FieldsV1{
	{true, false}: metav1.NewFieldsV1(`{"f:spec":{"f:replicas":{}}}`),
	{false, true}: metav1.NewFieldsV1(`{"f:spec":{"f:template":{}}}`),
	{true, true}:  metav1.NewFieldsV1(`{"f:spec":{"f:replicas":{},"f:template":{}}}`),
}

// Writers reduces managed fields to who wrote the size and the template. The result needs little memory.
func Writers(fields []metav1.ManagedFieldsEntry) (writers []metav1.ManagedFieldsEntry) {
	for _, e := range fields {
		spec := specOf(e)
		_, replicas := spec[FieldReplicas]
		_, template := spec[FieldTemplate]
		if replicas || template {
			writers = append(writers, metav1.ManagedFieldsEntry{Manager: e.Manager, Time: e.Time, FieldsV1: written[[2]bool{replicas, template}]})
		}
	}
	return writers
}

func specOf(e metav1.ManagedFieldsEntry) map[string]json.RawMessage {
	var fields struct {
		Spec map[string]json.RawMessage `json:"f:spec"`
	}
	if e.FieldsV1 == nil || json.Unmarshal(e.FieldsV1.GetRawBytes(), &fields) != nil {
		return nil
	}
	return fields.Spec
}

// WriterOf returns the field manager that wrote a field last, apart from the given ones; "" when the object does not show it.
func WriterOf(o client.Object, field string, except ...string) (manager string) {
	var last metav1.Time
	for _, e := range o.GetManagedFields() {
		if _, owns := specOf(e)[field]; !owns || slices.Contains(except, e.Manager) {
			continue
		}
		if at := ptr.Deref(e.Time, metav1.Time{}); manager == "" || !at.Before(&last) {
			manager, last = e.Manager, at
		}
	}
	return manager
}

// ReasonSizeWriters is the reason of the Event about two clients that write the same size.
const ReasonSizeWriters = "SizeWriters"

// ReportingWriters returns a predicate that reports by an Event when another client than the last one changes an object's size, and keeps no
// event from the handler. Clients that change it in turn have such an Event each time. replicas returns the size of an object; nil for an
// object that is not to be reported.
func ReportingWriters[T client.Object](recorder events.EventRecorder, replicas func(T) *int32) predicate.TypedPredicate[T] {
	return predicate.TypedFuncs[T]{UpdateFunc: func(e event.TypedUpdateEvent[T]) bool {
		from, to := replicas(e.ObjectOld), replicas(e.ObjectNew)
		if from == nil || to == nil || *from == *to || e.ObjectOld.GetUID() != e.ObjectNew.GetUID() {
			return true
		}
		before, after := WriterOf(e.ObjectOld, FieldReplicas), WriterOf(e.ObjectNew, FieldReplicas)
		if before != "" && after != "" && before != after {
			recorder.Eventf(e.ObjectNew, nil, "Normal", ReasonSizeWriters, "Scale", "field manager %s changed spec.replicas from %d, which field manager %s had written, to %d; if both go on to write it, let one of them leave spec.replicas out",
				after, *from, before, *to)
		}
		return true
	}}
}
