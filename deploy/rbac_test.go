package deploy_test

import (
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
)

const account = "system:serviceaccount:drover:drover"

// Each row is a question that the test sends to the API server: VERB
// RESOURCE[.GROUP][/SUBRESOURCE][:NAME] in NAMESPACE.
func TestWhatTheRolesAllow(t *testing.T) {
	who := map[string]string{
		account: "drover's ServiceAccount", "group:system:bootstrappers:drover": "a server with a bootstrap token",
		"system:serviceaccount:kube-system:machine-controller": "machine-controller's ServiceAccount",
	}
	for _, row := range []struct {
		may            bool
		what, in, user string
	}{
		{true, "patch machines.cluster.k8s.io", "anywhere", account},
		{true, "create machines.cluster.k8s.io", "anywhere", account},
		{true, "delete machinesets.cluster.k8s.io", "anywhere", account},
		{true, "patch machinedeployments.cluster.k8s.io", "anywhere", account},
		{true, "patch machinedeployments.cluster.k8s.io/status", "anywhere", account},
		{true, "patch machinesets.cluster.k8s.io/status", "anywhere", account},
		{true, "watch machineclasses.cluster.k8s.io", "anywhere", account},
		{true, "patch machineclasses.cluster.k8s.io", "anywhere", account},
		{true, "delete nodes", "", account},
		{true, "patch nodes", "", account},
		{true, "create pods/eviction", "anywhere", account},
		{true, "list volumeattachments.storage.k8s.io", "", account},
		{true, "update certificatesigningrequests.certificates.k8s.io/approval", "", account},
		{true, "approve signers.certificates.k8s.io:kubernetes.io/kubelet-serving", "", account},
		{true, "approve signers.certificates.k8s.io:kubernetes.io/kube-apiserver-client-kubelet", "", account},
		{true, "create subjectaccessreviews.authorization.k8s.io", "", account},
		{true, "create secrets", "kube-system", account},
		{true, "patch secrets", "kube-system", account},
		{true, "get configmaps:cluster-info", "kube-public", account},
		{true, "list services", "kube-system", account},
		{true, "list servicecidrs.networking.k8s.io", "", account},
		{true, "get services:kubernetes", "default", account},
		{true, "list endpointslices.discovery.k8s.io", "default", account},
		{true, "get namespaces:kube-system", "kube-system", account},
		{true, "update leases.coordination.k8s.io", "drover", account},
		{true, "update leases.coordination.k8s.io:machine-controller", "kube-system", account},
		{true, "create leases.coordination.k8s.io", "kube-system", account},
		{true, "list mutatingwebhookconfigurations.admissionregistration.k8s.io", "", account},
		{true, "list endpointslices.discovery.k8s.io", "kube-system", account},
		{true, "create configmaps", "drover", account},
		{true, "create secrets", "drover", account},
		{true, "get secrets:drover-grpc", "drover", account},
		{true, "update secrets:drover-grpc", "drover", account},
		{true, "get secrets:cluster-autoscaler-drover", "kube-system", account},
		{true, "update secrets:cluster-autoscaler-drover", "kube-system", account},
		{true, "create events.events.k8s.io", "anywhere", account},
		{true, "create events", "anywhere", account},
		{true, "get customresourcedefinitions.apiextensions.k8s.io:machines.cluster.k8s.io", "", account},
		{true, "get customresourcedefinitions.apiextensions.k8s.io:machinedeployments.cluster.k8s.io", "", account},
		{true, "update machines.cluster.k8s.io/status", "anywhere", account},
		{true, "get validatingadmissionpolicies.admissionregistration.k8s.io:drover-guard-machines", "", account},
		{true, "get validatingadmissionpolicybindings.admissionregistration.k8s.io:drover-guard-groups", "", account},

		{false, "get validatingadmissionpolicies.admissionregistration.k8s.io:foreign", "", account},
		{false, "list validatingadmissionpolicies.admissionregistration.k8s.io", "", account},
		{false, "update validatingadmissionpolicies.admissionregistration.k8s.io:drover-guard-machines", "", account},
		{false, "delete validatingadmissionpolicybindings.admissionregistration.k8s.io:drover-guard-machines", "", account},
		{false, "update machines.cluster.k8s.io/status", "kube-system", "system:serviceaccount:kube-system:machine-controller"},
		{false, "update leases.coordination.k8s.io:kube-scheduler", "kube-system", account},
		{false, "update mutatingwebhookconfigurations.admissionregistration.k8s.io", "", account},
		{false, "update machines.cluster.k8s.io", "anywhere", account},
		{false, "update machinesets.cluster.k8s.io", "anywhere", account},
		{false, "update machinedeployments.cluster.k8s.io", "anywhere", account},
		{false, "create machinedeployments.cluster.k8s.io", "anywhere", account},
		{false, "delete machinedeployments.cluster.k8s.io", "anywhere", account},
		{false, "update machinesets.cluster.k8s.io/status", "anywhere", account},
		{false, "update machinedeployments.cluster.k8s.io/status", "anywhere", account},
		{false, "patch certificatesigningrequests.certificates.k8s.io/approval", "", account},
		{false, "update secrets", "kube-system", account},
		{false, "list leases.coordination.k8s.io", "drover", account},
		{false, "watch leases.coordination.k8s.io", "drover", account},
		{false, "patch leases.coordination.k8s.io", "drover", account},
		{false, "create nodes", "", account},
		{false, "get services:kubernetes", "anywhere", account},
		{false, "get services:other", "default", account},
		{false, "list endpointslices.discovery.k8s.io", "anywhere", account},
		{false, "update servicecidrs.networking.k8s.io", "", account},
		{false, "delete pods", "anywhere", account},
		{false, "create pods", "anywhere", account},
		{false, "get secrets", "anywhere", account},
		{false, "get secrets:drover-cloud", "drover", account},
		{false, "update secrets:drover-cloud", "drover", account},
		{false, "list secrets", "drover", account},
		{false, "delete secrets:drover-grpc", "drover", account},
		{false, "list secrets", "", account},
		{false, "list configmaps", "", account},
		{false, "create certificatesigningrequests.certificates.k8s.io", "", account},
		{false, "sign signers.certificates.k8s.io:kubernetes.io/kubelet-serving", "", account},
		{false, "approve signers.certificates.k8s.io:kubernetes.io/kube-apiserver-client", "", account},
		{false, "delete machineclasses.cluster.k8s.io", "anywhere", account},
		{false, "patch secrets", "anywhere", account},
		{false, "list clusterrolebindings.rbac.authorization.k8s.io", "", account},
		{false, "create clusterrolebindings.rbac.authorization.k8s.io", "", account},
		{false, "get customresourcedefinitions.apiextensions.k8s.io:foreign.example.com", "", account},
		{false, "list customresourcedefinitions.apiextensions.k8s.io", "", account},
		{false, "update customresourcedefinitions.apiextensions.k8s.io", "", account},

		{true, "create certificatesigningrequests.certificates.k8s.io", "", "group:system:bootstrappers:drover"},
		{false, "create certificatesigningrequests.certificates.k8s.io/nodeclient", "", "group:system:bootstrappers:drover"},
		{false, "get nodes", "", "group:system:bootstrappers:drover"},
	} {
		t.Run(who[row.user]+" is "+map[bool]string{true: "allowed", false: "not allowed"}[row.may]+" to "+strings.Replace(row.what, ":", " named ", 1)+where(row.what, row.in, row.may), func(t *testing.T) {
			if got := allowed(t, row.user, row.what, row.in); got != row.may {
				t.Errorf("%s may %s in %q: %v, want %v", row.user, row.what, row.in, got, row.may)
			}
		})
	}
}

func TestTheRightsThatADrainAndTheEndOfANodeNeed(t *testing.T) {
	for _, what := range []string{
		"patch nodes", "get pods", "list pods", "create pods/eviction", "get persistentvolumeclaims", "list poddisruptionbudgets.policy",
		"watch poddisruptionbudgets.policy", "list volumeattachments.storage.k8s.io", "watch volumeattachments.storage.k8s.io", "delete nodes",
		"patch machines.cluster.k8s.io", "delete machines.cluster.k8s.io",
	} {
		t.Run("the shipped roles allow drover to "+what+" (report 107, report 118)", func(t *testing.T) {
			if !allowed(t, account, what, "") {
				t.Error("it is not allowed")
			}
		})
	}
}

// where returns the end of the name of a subtest: the namespace of the question. It leaves out the namespace of a question about a
// Namespace object, because such an object is in no namespace.
func where(what, in string, may bool) string {
	switch {
	case what == "list secrets" && in == "", what == "list configmaps" && in == "":
		return " in all namespaces"
	case in == "", strings.HasPrefix(what, "get namespaces:"):
		return ""
	case in == "anywhere" && may:
		return " in every namespace"
	case in == "anywhere":
		return " in a namespace without a RoleBinding for drover"
	}
	return " in namespace " + in
}

func allowed(t *testing.T, user, what, in string) bool {
	t.Helper()
	verb, rest, _ := strings.Cut(what, " ")
	rest, name, _ := strings.Cut(rest, ":")
	rest, sub, _ := strings.Cut(rest, "/")
	resource, group, _ := strings.Cut(rest, ".")
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user, Groups: []string{"system:authenticated"},
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: verb, Group: group, Resource: resource, Subresource: sub, Name: name, Namespace: in},
	}}
	if g, is := strings.CutPrefix(user, "group:"); is {
		review.Spec.User, review.Spec.Groups = "system:bootstrap:abcdef", []string{"system:authenticated", "system:bootstrappers", g}
	}
	if err := admin.Create(t.Context(), review); err != nil {
		t.Fatal(err)
	}
	return review.Status.Allowed
}
