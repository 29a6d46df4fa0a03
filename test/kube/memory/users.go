package memory

import (
	"crypto/subtle"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/drover-project/drover/test/kube/memory/internal/catalog"
	"github.com/drover-project/drover/test/kube/memory/internal/registry"
	"github.com/drover-project/drover/test/kube/memory/internal/store"
)

const bearer = "Bearer "

// authenticate returns the user of a request: the connection's user if it has one, otherwise the user of the request's
// bootstrap token.
func (s *Server) authenticate(given registry.User, authorization string) (registry.User, error) {
	if given.Name != "" {
		given.Groups = append(slices.Clone(given.Groups), "system:authenticated")
		return given, nil
	}
	id, secret, ok := strings.Cut(strings.TrimPrefix(authorization, bearer), ".")
	if !strings.HasPrefix(authorization, bearer) || !ok {
		return registry.User{}, apierrors.NewUnauthorized("Unauthorized")
	}
	var r *store.Record
	s.store.Do(func() {
		r, _ = s.store.At(s.catalog.ByKind[catalog.Core("Secret").GroupKind()], metav1.NamespaceSystem, "bootstrap-token-"+id)
	})
	if r == nil {
		return registry.User{}, apierrors.NewUnauthorized("Unauthorized")
	}
	var token corev1.Secret
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(r.Object.Object, &token); err != nil {
		return registry.User{}, apierrors.NewInternalError(err)
	}
	expires, err := time.Parse(time.RFC3339, string(token.Data["expiration"]))
	good := token.Type == "bootstrap.kubernetes.io/token" && token.DeletionTimestamp == nil &&
		subtle.ConstantTimeCompare(token.Data["token-secret"], []byte(secret)) == 1 &&
		string(token.Data["usage-bootstrap-authentication"]) == "true" &&
		(len(token.Data["expiration"]) == 0 || err == nil && time.Now().Before(expires))
	if !good {
		return registry.User{}, apierrors.NewUnauthorized("Unauthorized")
	}
	groups := []string{"system:bootstrappers"}
	if extra := string(token.Data["auth-extra-groups"]); extra != "" {
		groups = append(groups, strings.Split(extra, ",")...)
	}
	groups = append(groups, "system:authenticated")
	return registry.User{Name: "system:bootstrap:" + id, Groups: groups}, nil
}
