package v1alpha1

// FirstToDelete reports whether a Machine is annotated to be deleted first when its group shrinks. The value of the annotation does not
// matter: machine-controller's own tools write a text, the autoscaler's Cluster API provider a time, and people often nothing.
func FirstToDelete(m *Machine) bool {
	_, ours := m.Annotations[AnnotationDeleteMachine]
	_, capi := m.Annotations[AnnotationDeleteMachineCAPI]
	return ours || capi
}
