package memory

import (
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// user is who makes a request.
type user struct {
	name   string
	groups []string
}

const bearer = "Bearer "

// authenticate says who asks: whom the connection was made for, else whose bootstrap token the request bears.
func (s *Server) authenticate(given user, authorization string) (user, error) {
	if given.name != "" {
		given.groups = append(slices.Clone(given.groups), "system:authenticated")
		return given, nil
	}
	id, secret, ok := strings.Cut(strings.TrimPrefix(authorization, bearer), ".")
	if !strings.HasPrefix(authorization, bearer) || !ok {
		return user{}, apierrors.NewUnauthorized("Unauthorized")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r, there := s.stores[s.catalog.byKind[core("Secret").GroupKind()]].records[key(metav1.NamespaceSystem, "bootstrap-token-"+id)]
	if !there {
		return user{}, apierrors.NewUnauthorized("Unauthorized")
	}
	var token corev1.Secret
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(r.object.Object, &token); err != nil {
		return user{}, apierrors.NewInternalError(err)
	}
	expires, err := time.Parse(time.RFC3339, string(token.Data["expiration"]))
	good := token.Type == "bootstrap.kubernetes.io/token" && token.DeletionTimestamp == nil &&
		subtle.ConstantTimeCompare(token.Data["token-secret"], []byte(secret)) == 1 &&
		string(token.Data["usage-bootstrap-authentication"]) == "true" &&
		(len(token.Data["expiration"]) == 0 || err == nil && time.Now().Before(expires))
	if !good {
		return user{}, apierrors.NewUnauthorized("Unauthorized")
	}
	groups := []string{"system:bootstrappers"}
	if extra := string(token.Data["auth-extra-groups"]); extra != "" {
		groups = append(groups, strings.Split(extra, ",")...)
	}
	groups = append(groups, "system:authenticated")
	return user{name: "system:bootstrap:" + id, groups: groups}, nil
}

// signedBy writes into a certificate request who makes it.
func signedBy(who user, o *object) error {
	var groups []any
	for _, group := range who.groups {
		groups = append(groups, group)
	}
	if err := set(o, who.name, "spec", "username"); err != nil {
		return err
	}
	return set(o, groups, "spec", "groups")
}

// startSecret gives a Secret its type, and puts what came as plain text among the data.
func startSecret(o *object) error {
	if kind, _ := o.Object["type"].(string); kind == "" {
		o.Object["type"] = string(corev1.SecretTypeOpaque)
	}
	return plainData(o)
}

func plainData(o *object) error {
	plain, _ := o.Object["stringData"].(map[string]any)
	for name, value := range plain {
		text, ok := value.(string)
		if !ok {
			return apierrors.NewBadRequest("stringData." + name + " is no string")
		}
		if err := set(o, base64.StdEncoding.EncodeToString([]byte(text)), "data", name); err != nil {
			return err
		}
	}
	delete(o.Object, "stringData")
	return nil
}

// mayChangeSecret: its type never, and nothing of its data once it is immutable.
func mayChangeSecret(old, o *object) error {
	if kind, _ := o.Object["type"].(string); kind == "" {
		o.Object["type"] = old.Object["type"]
	}
	if err := plainData(o); err != nil {
		return err
	}
	var errs field.ErrorList
	if o.Object["type"] != old.Object["type"] {
		errs = append(errs, field.Invalid(field.NewPath("type"), o.Object["type"], "field is immutable"))
	}
	if old.Object["immutable"] == true && (o.Object["immutable"] != true || !equality.Semantic.DeepEqual(old.Object["data"], o.Object["data"])) {
		errs = append(errs, field.Forbidden(field.NewPath("data"), "field is immutable when `immutable` is set"))
	}
	if len(errs) > 0 {
		return apierrors.NewInvalid(core("Secret").GroupKind(), o.GetName(), errs)
	}
	return nil
}

// evict deletes a pod when the one budget that covers it allows that, and counts it there.
func (s *Server) evict(q *request) (any, error) {
	var eviction policyv1.Eviction
	if err := decode(q, &eviction); err != nil {
		return nil, err
	}
	old, err := s.find(q)
	if err != nil {
		return nil, err
	}
	options := eviction.DeleteOptions
	if options == nil {
		options = &metav1.DeleteOptions{}
	}
	var pod corev1.Pod
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(old.object.Object, &pod); err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	ends := pod.DeletionTimestamp != nil || pod.Status.Phase != corev1.PodRunning
	if !ends {
		// As in the real server the budget is spent before anybody asks whether it is the right pod.
		if err := s.spend(&pod); err != nil {
			return nil, err
		}
	}
	if _, _, err := s.end(q, old, options); err != nil {
		return nil, err
	}
	return metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess, Code: 201}, nil
}

// stillProcessed is how many seconds later an eviction may be tried again whose budget nobody has counted yet.
const stillProcessed = 10

// tooMany is the answer to an eviction that a budget forbids.
func tooMany(message, budget string, retryAfter int) error {
	err := apierrors.NewTooManyRequests(message, retryAfter)
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{
		Type: policyv1.DisruptionBudgetCause, Message: budget,
	})
	return err
}

// twoBudgets is the answer to an eviction of a pod that several budgets select. As the real server's it has no reason.
func twoBudgets() error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: http.StatusInternalServerError,
		Message: "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."}}
}

// spend takes one disruption from the pod's budget.
func (s *Server) spend(pod *corev1.Pod) error {
	k := s.catalog.byKind[of("policy", "PodDisruptionBudget").GroupKind()]
	var found []*record
	var budget policyv1.PodDisruptionBudget
	for _, id := range s.stores[k].sortedKeys() {
		r := s.stores[k].records[id]
		var b policyv1.PodDisruptionBudget
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(r.object.Object, &b); err != nil {
			return apierrors.NewInternalError(err)
		}
		selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err == nil && b.Namespace == pod.Namespace && selector.Matches(labels.Set(pod.Labels)) {
			found, budget = append(found, r), b
		}
	}
	switch {
	case len(found) == 0:
		return nil
	case len(found) > 1:
		return twoBudgets()
	case budget.Status.ObservedGeneration < budget.Generation:
		return tooMany("Cannot evict pod as it would violate the pod's disruption budget.",
			fmt.Sprintf("The disruption budget %s is still being processed by the server.", budget.Name), stillProcessed)
	case budget.Status.DisruptionsAllowed <= 0:
		return tooMany("Cannot evict pod as it would violate the pod's disruption budget.", fmt.Sprintf(
			"The disruption budget %s needs %d healthy pods and has %d currently", budget.Name, budget.Status.DesiredHealthy, budget.Status.CurrentHealthy), 0)
	}
	changed := found[0].object.DeepCopy()
	if err := set(changed, int64(budget.Status.DisruptionsAllowed-1), "status", "disruptionsAllowed"); err != nil {
		return err
	}
	if err := set(changed, now().Format(time.RFC3339), "status", "disruptedPods", pod.Name); err != nil {
		return err
	}
	_, err := s.finish(k, found[0], changed)
	return err
}
