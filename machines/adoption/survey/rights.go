package survey

import (
	"context"
	"fmt"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/adoption"
	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// rights reports which rights of the shipped roles drover's account lacks. It also reports each namespace with a Secret or ConfigMap that
// drover needs for a Machine, now or for the next Machine of a group, and may not read.
func (o *Options) rights(ctx context.Context) ([]adoption.Finding, error) {
	missing, asked, err := missingRights(ctx, o.Client, o.Account, o.Roles)
	if err != nil {
		return nil, err
	}
	inTarget, askedTarget, err := missingRights(ctx, o.Target, o.Account, o.TargetRoles)
	if err != nil {
		return nil, err
	}
	missing, asked = append(missing, inTarget...), asked+askedTarget
	var found []adoption.Finding
	if len(missing) > 0 {
		found = append(found, adoption.Finding{
			Subject: aboutRights, Message: fmt.Sprintf("%s lacks %d of %d rights, such as %s", o.Account, len(missing), asked, missing[0]),
			Remedy: "kubectl apply --server-side -k deploy",
		})
	}
	named := map[string]bool{}
	for _, n := range o.Reads.needs() {
		if named[n.namespace] || len(missing) > 0 && o.ships(n.namespace) {
			continue
		}
		may, err := allowed(ctx, o.Client, o.Account, authorizationv1.ResourceAttributes{Namespace: n.namespace, Verb: "get", Resource: n.resource, Name: n.name})
		if err != nil {
			return found, err
		}
		if may {
			continue
		}
		named[n.namespace] = true
		found = append(found, adoption.Finding{
			Subject: aboutRights, Message: fmt.Sprintf("%s may not get %s %s/%s, which %s needs", o.Account, n.resource, n.namespace, n.name, n.user),
			Remedy: v1alpha1.BindReferences(strings.TrimPrefix(o.Account, "system:serviceaccount:"), n.namespace),
		})
	}
	return found, nil
}

// ships reports whether the shipped roles give rights in a namespace.
func (o *Options) ships(namespace string) bool {
	return slices.ContainsFunc(o.Roles, func(r *unstructured.Unstructured) bool { return r.GetNamespace() == namespace })
}

// missingRights returns which of the rights in the given roles an account lacks, and how many rights the roles have. It skips a ClusterRole
// that no ClusterRoleBinding grants in the whole cluster.
func missingRights(ctx context.Context, c client.Client, account string, roles []*unstructured.Unstructured) (missing []string, asked int, err error) {
	everywhere := map[string]bool{}
	for _, o := range roles {
		if o.GetKind() == "ClusterRoleBinding" {
			name, _, _ := unstructured.NestedString(o.Object, "roleRef", "name")
			everywhere[name] = true
		}
	}
	for _, o := range roles {
		if o.GetKind() != "Role" && (o.GetKind() != "ClusterRole" || !everywhere[o.GetName()]) {
			continue
		}
		var role rbacv1.ClusterRole
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &role); err != nil {
			return nil, 0, fmt.Errorf("reading the shipped role %s: %w", o.GetName(), err)
		}
		for _, right := range rightsOf(role.Rules, o.GetNamespace()) {
			asked++
			may, err := allowed(ctx, c, account, right)
			if err != nil {
				return nil, 0, err
			}
			if !may {
				missing = append(missing, describe(right))
			}
		}
	}
	return missing, asked, nil
}

// rightsOf returns the single rights that rules grant: one for each combination of group, resource, verb and name.
func rightsOf(rules []rbacv1.PolicyRule, namespace string) (all []authorizationv1.ResourceAttributes) {
	for _, r := range rules {
		names := r.ResourceNames
		if len(names) == 0 {
			names = []string{""}
		}
		for _, group := range r.APIGroups {
			for _, resource := range r.Resources {
				for _, verb := range r.Verbs {
					for _, name := range names {
						all = append(all, right(namespace, group, resource, verb, name))
					}
				}
			}
		}
	}
	return all
}

func right(namespace, group, resource, verb, name string) authorizationv1.ResourceAttributes {
	resource, part, _ := strings.Cut(resource, "/")
	return authorizationv1.ResourceAttributes{Namespace: namespace, Group: group, Resource: resource, Subresource: part, Verb: verb, Name: name}
}

// describe returns a right as text.
func describe(r authorizationv1.ResourceAttributes) string {
	text := r.Verb + " " + r.Resource
	for _, part := range []struct{ before, value string }{{".", r.Group}, {"/", r.Subresource}, {" ", r.Name}, {" in namespace ", r.Namespace}} {
		if part.value != "" {
			text += part.before + part.value
		}
	}
	return text
}

// allowed asks the API server whether a user has a right.
func allowed(ctx context.Context, c client.Client, user string, what authorizationv1.ResourceAttributes) (bool, error) {
	groups := []string{"system:serviceaccounts", "system:authenticated"}
	if parts := strings.Split(user, ":"); len(parts) == 4 {
		groups = append(groups, "system:serviceaccounts:"+parts[2])
	}
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: user, Groups: groups, ResourceAttributes: &what}}
	if err := c.Create(ctx, review); err != nil {
		return false, fmt.Errorf("asking whether %s may %s: %w", user, describe(what), err)
	}
	return review.Status.Allowed, nil
}
