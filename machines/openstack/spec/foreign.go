package spec

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
)

// Name is the cloudProvider of the provider specs of this package.
const Name = "openstack"

// comingFrom is the page that maps the fields of other programs' documents to drover's.
const comingFrom = "docs/coming-from.md"

// foreignDocuments are the API groups of other programs' provider specs, each with the owner of its documents. machine-controller's
// documents have no apiVersion.
var foreignDocuments = map[string]string{
	"infrastructure.cluster.x-k8s.io":              "Cluster API's provider for OpenStack",
	"openstackproviderconfig.k8s.io":               "Cluster API's provider for OpenStack (v1alpha1)",
	"openstackproviderconfig.openshift.io":         "OpenShift",
	"machine.openshift.io":                         "OpenShift",
	"openstack.machine.gardener.cloud":             "Gardener",
	"openstack.provider.extensions.gardener.cloud": "Gardener",
}

// typed is what a document says about its kind.
type typed struct{ APIVersion, Kind string }

// foreign returns a message that says to which other program a document belongs; empty when the document has no apiVersion and kind.
func (d typed) foreign() string {
	if d.APIVersion == "" || d.Kind == "" {
		return ""
	}
	group, _, _ := strings.Cut(d.APIVersion, "/")
	return fmt.Sprintf("is a document of %s (apiVersion %.100s, kind %.100s), which drover cannot read; write a providerSpec of machine-controller's form: %s maps the fields",
		cmp.Or(foreignDocuments[group], "another program"), d.APIVersion, d.Kind, comingFrom)
}

// foreign reads whose a document is. text names another program; it is empty when the document is drover's. provider is its cloudProvider.
func foreign(raw []byte) (text, provider string) {
	var d struct {
		typed
		CloudProvider     string
		CloudProviderSpec typed
	}
	_ = json.Unmarshal(raw, &d) // a field that cannot be decoded stays empty, and is refused elsewhere
	return cmp.Or(d.foreign(), d.CloudProviderSpec.foreign()), d.CloudProvider
}

// isForeignCluster reports whether the document of a Cluster belongs to another program or cloud.
func isForeignCluster(document *runtime.RawExtension) bool {
	if document == nil {
		return false
	}
	text, provider := foreign(document.Raw)
	return text != "" || provider != "" && provider != Name
}

// checkProvider returns an error when cloudProvider names another cloud than OpenStack, or when the document is another program's. It is
// called before the keys of the document are read: otherwise the error would be about keys that drover does not know. A cloudProvider in
// a source of higher precedence replaces that of the document; for example, a Machine has precedence over its MachineClass.
//
// In two cases checkProvider adds a warning instead. A Machine with an OpenStack server must still be deletable with all its resources.
// And a Cluster object may belong to another program, and must not stop the Machines of its namespace. ignored reports whether the
// document must be treated as empty.
func (s *Sources) checkProvider(path string, raw []byte) (ignored bool, err error) {
	text, own := foreign(raw)
	isCluster := strings.HasPrefix(path, "Cluster ")
	ignored = text != "" || isCluster && own != "" && own != Name
	if provider := cmp.Or(s.Config.CloudProvider, own, Name); text == "" && provider != Name {
		text = fmt.Sprintf("cloudProvider %s is not supported by drover; supported: %s", provider, Name)
	}
	switch {
	case text == "":
	case isCluster:
		s.note(path + ": " + text + "; the Cluster is ignored")
	case s.object.HasServer:
		s.note(path + ": " + text)
	default:
		return false, invalid(path, "%s", text)
	}
	return ignored, nil
}
