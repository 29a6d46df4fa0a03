// Package spec reads provider specs: which resources a Machine or a template asks OpenStack for, and with which credentials.
//
// A provider spec is merged from several sources, in this order: the Machine's own document, its MachineClass (Secrets, then
// document), its Cluster's document, and the configured cloud. A field that is empty in one source is read from the next (sources.go).
// A value may be a reference to a key of a Secret or ConfigMap; messages never show such a value. Machines that have, or had, a server are
// read leniently: a field that has become invalid does not block the deletion of their resources.
//
// [Reader.Read] decodes all documents, follows all references, and merges them into one document, in which each value knows its source.
// [Sources.Spec] and [Sources.Access] only look at this document, and make no call.
//
// The package reads objects of the Kubernetes API. It makes no call to OpenStack, and has nothing to do with flavors, images and
// servers themselves.
package spec
