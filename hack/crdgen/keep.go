package main

import "maps"

// keepers are the annotations by which Helm, Argo CD and Flux leave an object in place when it is no longer among what
// they install, or when all of that is removed. A CustomResourceDefinition takes every object of its kind along.
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
