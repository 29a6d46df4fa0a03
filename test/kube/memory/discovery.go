package memory

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
)

// discover answers requests about the server itself. It returns false for any other path.
func (s *Server) discover(path string) (any, bool) {
	path = strings.Trim(path, "/")
	switch path {
	case "healthz", "livez", "readyz":
		return []byte("ok"), true
	case "version":
		return version.Info{GitVersion: s.options.Version, Platform: "memory"}, true
	case "api":
		return metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions", APIVersion: "v1"}, Versions: []string{"v1"}}, true
	case "apis":
		return s.groups(), true
	}
	for _, gv := range s.catalog.GroupVersions() {
		if gv.Group == "" && path == "api/"+gv.Version || gv.Group != "" && path == "apis/"+gv.String() {
			return s.catalog.Resources(gv), true
		}
		if gv.Group != "" && path == "apis/"+gv.Group {
			return group(gv), true
		}
	}
	return nil, false
}

func (s *Server) groups() metav1.APIGroupList {
	list := metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}}
	for _, gv := range s.catalog.GroupVersions() {
		known := slices.ContainsFunc(list.Groups, func(g metav1.APIGroup) bool { return g.Name == gv.Group })
		if gv.Group != "" && !known {
			list.Groups = append(list.Groups, group(gv))
		}
	}
	return list
}

func group(gv schema.GroupVersion) metav1.APIGroup {
	v := metav1.GroupVersionForDiscovery{GroupVersion: gv.String(), Version: gv.Version}
	return metav1.APIGroup{
		TypeMeta: metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"},
		Name:     gv.Group, Versions: []metav1.GroupVersionForDiscovery{v}, PreferredVersion: v,
	}
}
