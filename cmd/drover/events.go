package main

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/recorder"

	"github.com/drover-project/drover/machines/fault"
)

// mostNote bounds the note of an Event, in bytes. The API server refuses an Event with a longer note, and the Event
// would be lost.
const mostNote = 1024

// boundedEvents is a manager whose event recorders make the notes of Events one line, and truncate them to mostNote.
type boundedEvents struct{ manager.Manager }

// GetEventRecorder returns an event recorder for a controller's name.
func (m boundedEvents) GetEventRecorder(name string) recorder.EventRecorder {
	return boundedRecorder{m.Manager.GetEventRecorder(name)}
}

// boundedTarget is the target cluster, whose event recorders also truncate the notes of Events.
type boundedTarget struct{ cluster.Cluster }

// GetEventRecorder returns an event recorder for a controller's name.
func (c boundedTarget) GetEventRecorder(name string) recorder.EventRecorder {
	return boundedRecorder{c.Cluster.GetEventRecorder(name)}
}

type boundedRecorder struct{ recorder.EventRecorder }

// shown returns a note as one line that the API server stores.
func shown(note string, args []any) string {
	return fault.Cut(fault.Line(fmt.Sprintf(note, args...)), mostNote)
}

// Eventf records an Event.
func (r boundedRecorder) Eventf(regarding, related runtime.Object, eventtype, reason, action, note string, args ...any) {
	r.EventRecorder.Eventf(regarding, related, eventtype, reason, action, "%s", shown(note, args))
}

// AnnotatedEventf records an Event with annotations.
func (r boundedRecorder) AnnotatedEventf(regarding, related runtime.Object, annotations map[string]string, eventtype, reason, action, note string, args ...any) {
	r.EventRecorder.AnnotatedEventf(regarding, related, annotations, eventtype, reason, action, "%s", shown(note, args))
}
