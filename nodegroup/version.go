package nodegroup

import (
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// newer reports whether a is a later version than b of the same object.
func newer(a, b client.Object) bool {
	return a.GetUID() == b.GetUID() && later(a, b)
}

// later reports whether a was written after b, which may be another object that had the same name.
func later(a, b client.Object) bool {
	order, err := resourceversion.CompareResourceVersion(a.GetResourceVersion(), b.GetResourceVersion())
	return err == nil && order > 0
}
