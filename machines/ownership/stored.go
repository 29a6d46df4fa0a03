package ownership

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ReasonStoredDifferently is the reason of the Events about objects that the API server has stored otherwise than drover wrote them.
const ReasonStoredDifferently = "StoredDifferently"

// mostDifferences limits how many differences [StoredDifferently] names.
const mostDifferences = 5

// WhyNotOwned returns why an object does not belong to the owner that has created it. The list is empty when it does.
func WhyNotOwned(owner, object client.Object, selector labels.Selector) (why []string) {
	if !selector.Matches(labels.Set(object.GetLabels())) {
		why = append(why, fmt.Sprintf("metadata.labels: spec.selector (%s) does not match them", selector))
	}
	if !metav1.IsControlledBy(object, owner) {
		why = append(why, "metadata.ownerReferences: "+owner.GetName()+" is not the controller")
	}
	return why
}

// StoredDifferently returns an error which says that the API server has stored an object of the given kind otherwise than drover wrote it.
// differences must not be empty.
func StoredDifferently(kind string, differences []string) error {
	text := strings.Join(differences[:min(len(differences), mostDifferences)], "; ")
	if more := len(differences) - mostDifferences; more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return fmt.Errorf("the API server has stored a %s otherwise than drover wrote it, because an admission policy, a webhook or an older CRD changed it: %s", kind, text)
}
