package membership

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// Object is a Kubernetes object of any kind.
type Object interface {
	metav1.Object
	runtime.Object
}

// Newer reports whether a is a later version than b of the same object.
func Newer(a, b Object) bool {
	return a.GetUID() == b.GetUID() && Later(a, b)
}

// Later reports whether a was written after b. b may be another object that had the same name.
func Later(a, b Object) bool {
	order, err := resourceversion.CompareResourceVersion(a.GetResourceVersion(), b.GetResourceVersion())
	return err == nil && order > 0
}
