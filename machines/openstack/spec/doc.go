// Package spec reads provider specs: what a Machine or a template asks of OpenStack, and with which credentials.
//
// A provider spec is put together from several sources, in this order: the Machine's own document, its MachineClass (Secrets, then
// document), its Cluster's document, and the configured cloud. A field that one source leaves empty is taken from the next
// (layers.go). A value may be a
// reference to a key of a Secret or ConfigMap; such a value is never shown (provenance.go). Machines that have, or had, a server
// are read leniently: a field that is wrong by now does not keep their resources from being deleted.
//
// The package reads objects of the Kubernetes API. It makes no call to OpenStack, and knows neither flavors and images nor servers.
package spec
