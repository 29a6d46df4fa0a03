// Package v1alpha1 holds the kinds of cluster.k8s.io/v1alpha1: Machine, MachineSet, MachineDeployment, MachineClass and Cluster.
//
// Field names and JSON are those of machine-controller, so that objects of an existing cluster load unchanged. drover adds only optional
// fields, which older clients ignore. The CustomResourceDefinitions under deploy/crds are generated from this package.
//
// +kubebuilder:object:generate=true
// +groupName=cluster.k8s.io
package v1alpha1
