package v1alpha1

import "strings"

// Paused reports whether all controllers leave an object alone because it has one of the annotations AnnotationPaused and
// AnnotationPausedCAPI. As in Cluster API, only the presence of the annotation counts: even the value "false" pauses the object.
func Paused(annotations map[string]string) bool {
	_, ours := annotations[AnnotationPaused]
	_, capi := annotations[AnnotationPausedCAPI]
	return ours || capi
}

// SkipsHealth reports whether the annotations of an object disable two actions of drover: the replacement of unhealthy Machines, and the
// start of servers that another client has shut down. The object is a Machine, or its MachineDeployment or bare set.
func SkipsHealth(annotations map[string]string) bool {
	_, capi := annotations[AnnotationSkipHealthCAPI]
	return capi || strings.EqualFold(annotations[AnnotationSkipHealth], "true")
}
