package v1alpha1

import "strings"

// Paused reports whether all controllers leave an object alone: it has one of the annotations AnnotationPaused and AnnotationPausedCAPI.
// Only their presence counts, as in Cluster API: the value "false" pauses too.
func Paused(annotations map[string]string) bool {
	_, ours := annotations[AnnotationPaused]
	_, capi := annotations[AnnotationPausedCAPI]
	return ours || capi
}

// SkipsHealth reports whether annotations of a Machine, its MachineDeployment, or its set without a deployment disable the replacement of
// unhealthy Machines and the start of servers that another client has shut down.
func SkipsHealth(annotations map[string]string) bool {
	_, capi := annotations[AnnotationSkipHealthCAPI]
	return capi || strings.EqualFold(annotations[AnnotationSkipHealth], "true")
}
