package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupName is the API group of all kinds of this package.
const GroupName = "cluster.k8s.io"

// GroupVersion is the group and version of all kinds of this package.
var GroupVersion = schema.GroupVersion{Group: GroupName, Version: "v1alpha1"}

// The kinds of this package, each with its group and version.
var (
	MachineKind           = GroupVersion.WithKind("Machine")
	MachineSetKind        = GroupVersion.WithKind("MachineSet")
	MachineDeploymentKind = GroupVersion.WithKind("MachineDeployment")
)

// AddToScheme registers the kinds of this package.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&Machine{}, &MachineList{},
		&MachineSet{}, &MachineSetList{},
		&MachineDeployment{}, &MachineDeploymentList{},
		&MachineClass{}, &MachineClassList{},
		&Cluster{}, &ClusterList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
