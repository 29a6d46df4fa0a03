package v1alpha1

// Paused reports whether all controllers leave an object alone: it has one of the annotations AnnotationPaused and
// AnnotationPausedCAPI. Only their presence counts, as in Cluster API: the value "false" pauses too.
func Paused(annotations map[string]string) bool {
	_, ours := annotations[AnnotationPaused]
	_, capi := annotations[AnnotationPausedCAPI]
	return ours || capi
}
