package main

import "maps"

// keepers are annotations that make Helm, Argo CD and Flux keep an object when it is no longer part of an
// installation, or when the installation is removed. The deletion of a CRD would delete every object of its kind.
var keepers = object{
	"helm.sh/resource-policy":           "keep",
	"argocd.argoproj.io/sync-options":   "Prune=false,Delete=false",
	"kustomize.toolkit.fluxcd.io/prune": "disabled",
}

// keep puts the annotations of keepers on a CustomResourceDefinition.
func keep(crd object) {
	annotations := object{}
	if had, ok := dig(crd, "metadata", "annotations"); ok {
		maps.Copy(annotations, had)
	}
	maps.Copy(annotations, keepers)
	metadata, ok := dig(crd, "metadata")
	if !ok {
		metadata = object{}
		crd["metadata"] = metadata
	}
	metadata["annotations"] = annotations
}
