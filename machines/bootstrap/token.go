package bootstrap

import (
	"context"
	"crypto/sha256"
	"fmt"
	"regexp"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

const (
	// Group is the group of all users of drover's bootstrap tokens. Its members may request a kubelet's client certificate, and only drover
	// approves such requests.
	Group = "system:bootstrappers:drover"
	// UserPrefix precedes the token ID in the user name of a bootstrap token.
	UserPrefix = "system:bootstrap:"
	// TokenLife is how long a token is valid. drover prolongs the token while it waits for the token's Machine to join.
	TokenLife = 30 * time.Minute

	namespace    = metav1.NamespaceSystem
	secretPrefix = "bootstrap-token-"
	secretType   = corev1.SecretType("bootstrap.kubernetes.io/token")
)

// Token is a bootstrap token: a public ID and a secret.
type Token struct{ ID, Secret string }

// String returns the token as a client presents it.
func (t Token) String() string { return t.ID + "." + t.Secret }

// secretFor returns the Secret of a token. The API server accepts the token because of this Secret. It has no usage-bootstrap-signing,
// because the token is for authentication only.
func secretFor(m *v1alpha1.Machine, token Token, expiry time.Time) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name: secretPrefix + token.ID, Namespace: namespace,
			Labels:      map[string]string{v1alpha1.LabelTokenMachine: string(m.UID)},
			Annotations: map[string]string{v1alpha1.AnnotationNodeMachine: m.Namespace + "/" + m.Name},
		},
		Type: secretType,
		Data: map[string][]byte{
			"token-id":                       []byte(token.ID),
			"token-secret":                   []byte(token.Secret),
			"expiration":                     []byte(expiry.UTC().Format(time.RFC3339)),
			"usage-bootstrap-authentication": []byte("true"),
			"auth-extra-groups":              []byte(Group),
			"description":                    []byte("drover: server of Machine " + m.Namespace + "/" + m.Name),
		},
	}
}

func tokenOf(s *corev1.Secret) Token {
	return Token{ID: string(s.Data["token-id"]), Secret: string(s.Data["token-secret"])}
}

// expiryOf returns when a token expires. It returns the zero time when the Secret has no readable expiry.
func expiryOf(s *corev1.Secret) time.Time {
	expiry, err := time.Parse(time.RFC3339, string(s.Data["expiration"]))
	if err != nil {
		return time.Time{}
	}
	return expiry
}

const (
	alphabet     = "abcdefghijklmnopqrstuvwxyz0123456789" // of IDs
	idLength     = 6
	secretLength = 16
)

// idOf returns the ID of the token of a Machine. The ID is public, and always the same for the same Machine.
func idOf(machine types.UID) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "drover bootstrap token %s 0", machine))
	out := make([]byte, idLength)
	for i := range out {
		out[i] = alphabet[int(sum[i])%len(alphabet)]
	}
	return string(out)
}

var tokenID = regexp.MustCompile(`^[a-z0-9]{6}$`)

// Holder describes for what a bootstrap token was made: a Machine of drover, or all Machines of a deployment that
// operating-system-manager manages. The zero value means neither.
type Holder struct {
	Machine types.NamespacedName
	UID     types.UID
	// Expiry is when the token expires; zero when it does not.
	Expiry time.Time
	// deployment is the value of the label with which operating-system-manager marks the tokens of a MachineDeployment.
	deployment string
}

// HolderOf returns the holder of the token with that ID. It returns a zero Holder and no error for a token that does not exist.
func HolderOf(ctx context.Context, reader client.Reader, id string) (Holder, error) {
	var h Holder
	if !tokenID.MatchString(id) {
		return h, nil
	}
	var s corev1.Secret
	if err := reader.Get(ctx, types.NamespacedName{Namespace: namespace, Name: secretPrefix + id}, &s); err != nil {
		return h, client.IgnoreNotFound(err)
	}
	if uid := s.Labels[v1alpha1.LabelTokenMachine]; uid != "" {
		return Holder{Machine: machineOf(&s), UID: types.UID(uid), Expiry: expiryOf(&s)}, nil
	}
	if s.Type == secretType {
		h.deployment, h.Expiry = s.Labels[labelTokenDeployment], expiryOf(&s)
	}
	return h, nil
}

// Serves reports whether operating-system-manager made the token for that deployment.
func (h Holder) Serves(d *v1alpha1.MachineDeployment) bool {
	return h.deployment != "" && ManagedByOSM(d) && tokenLabelOSM(d) == h.deployment
}

// Shared reports whether the token is for all Machines of a deployment.
func (h Holder) Shared() bool { return h.deployment != "" }

func machineOf(s *corev1.Secret) types.NamespacedName {
	var key types.NamespacedName
	key.Namespace, key.Name, _ = strings.Cut(s.Annotations[v1alpha1.AnnotationNodeMachine], "/")
	return key
}
