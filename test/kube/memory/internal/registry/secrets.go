package registry

import (
	"encoding/base64"

	corev1 "k8s.io/api/core/v1"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/drover-project/drover/test/kube/memory/internal/catalog"
)

// signedBy records the user of the request in a CertificateSigningRequest.
func signedBy(who User, o *catalog.Object) error {
	var groups []any
	for _, group := range who.Groups {
		groups = append(groups, group)
	}
	if err := set(o, who.Name, "spec", "username"); err != nil {
		return err
	}
	return set(o, groups, "spec", "groups")
}

// startSecret sets the default type of a Secret, and moves its stringData into data.
func startSecret(o *catalog.Object) error {
	if kind, _ := o.Object["type"].(string); kind == "" {
		o.Object["type"] = string(corev1.SecretTypeOpaque)
	}
	return plainData(o)
}

func plainData(o *catalog.Object) error {
	plain, _ := o.Object["stringData"].(map[string]any)
	for name, value := range plain {
		text, ok := value.(string)
		if !ok {
			return apierrors.NewBadRequest("stringData." + name + " is not a string")
		}
		if err := set(o, base64.StdEncoding.EncodeToString([]byte(text)), "data", name); err != nil {
			return err
		}
	}
	delete(o.Object, "stringData")
	return nil
}

// mayChangeSecret returns an error for a change of a Secret's type, and for a change of the data of an immutable Secret.
func mayChangeSecret(old, o *catalog.Object) error {
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
		return apierrors.NewInvalid(catalog.Core("Secret").GroupKind(), o.GetName(), errs)
	}
	return nil
}
