package bootstrap

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

const (
	// Group is the group of everybody who comes with a token of drover's. It may ask for a kubelet's client
	// certificate, and nothing approves for it but drover.
	Group = "system:bootstrappers:drover"
	// UserPrefix begins the name of who comes with a bootstrap token; the token's id follows.
	UserPrefix = "system:bootstrap:"
	// TokenLife is how long a token is good for; while its Machine is waited for it is prolonged.
	TokenLife = 30 * time.Minute

	namespace    = metav1.NamespaceSystem
	secretPrefix = "bootstrap-token-"
	secretType   = corev1.SecretType("bootstrap.kubernetes.io/token")
)

// Token is a bootstrap token: a public id and a secret.
type Token struct{ ID, Secret string }

// String is the token as a client presents it.
func (t Token) String() string { return t.ID + "." + t.Secret }

// Tokens keeps one bootstrap token per waiting Machine, as Secrets in kube-system. Its reader must not be a cache: a
// token that was just made would be made twice.
type Tokens struct {
	Client client.Client
	Reader client.Reader
	Clock  clock.PassiveClock
	// Rand is a cryptographic source.
	Rand io.Reader

	mu sync.Mutex
	// expiries are those of tokens seen, so that a look at a waiting Machine costs no call.
	expiries map[types.UID]time.Time
}

// Ensure gives the Machine's token and makes it when there is none. When less than half of its life is left, its expiry
// moves, and nothing else of it.
func (t *Tokens) Ensure(ctx context.Context, m *v1alpha1.Machine) (Token, error) {
	secrets, err := t.list(ctx, m.UID)
	if err != nil {
		return Token{}, err
	}
	if len(secrets) > 0 {
		s := &secrets[0]
		return tokenOf(s), t.prolong(ctx, s)
	}
	return t.create(ctx, m)
}

// Prolong moves the expiry of the Machine's token, if it has one, when less than half of its life is left.
func (t *Tokens) Prolong(ctx context.Context, m *v1alpha1.Machine) error {
	if t.expiry(m.UID).Sub(t.Clock.Now()) > TokenLife/2 {
		return nil
	}
	secrets, err := t.list(ctx, m.UID)
	if err != nil || len(secrets) == 0 {
		return err
	}
	return t.prolong(ctx, &secrets[0])
}

// Delete removes the Machine's tokens.
func (t *Tokens) Delete(ctx context.Context, m *v1alpha1.Machine) error {
	secrets, err := t.list(ctx, m.UID)
	if err != nil {
		return err
	}
	for i := range secrets {
		if err := client.IgnoreNotFound(t.Client.Delete(ctx, &secrets[i])); err != nil {
			return fmt.Errorf("deleting bootstrap token %s: %w", secrets[i].Name, err)
		}
	}
	t.forget(m.UID)
	return nil
}

func (t *Tokens) list(ctx context.Context, uid types.UID) ([]corev1.Secret, error) {
	var list corev1.SecretList
	err := t.Reader.List(ctx, &list, client.InNamespace(namespace), client.MatchingLabels{v1alpha1.LabelTokenMachine: string(uid)})
	if err != nil {
		return nil, fmt.Errorf("listing bootstrap tokens: %w", err)
	}
	return list.Items, nil
}

func (t *Tokens) prolong(ctx context.Context, s *corev1.Secret) error {
	uid := types.UID(s.Labels[v1alpha1.LabelTokenMachine])
	expiry, err := time.Parse(time.RFC3339, string(s.Data["expiration"]))
	if err == nil && expiry.Sub(t.Clock.Now()) > TokenLife/2 {
		t.remember(uid, expiry)
		return nil
	}
	base := s.DeepCopy()
	expiry = t.Clock.Now().Add(TokenLife)
	s.Data["expiration"] = []byte(expiry.UTC().Format(time.RFC3339))
	if err := t.Client.Patch(ctx, s, client.MergeFrom(base)); err != nil {
		return fmt.Errorf("prolonging bootstrap token %s: %w", s.Name, err)
	}
	t.remember(uid, expiry)
	return nil
}

func (t *Tokens) expiry(uid types.UID) time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.expiries[uid]
}

func (t *Tokens) remember(uid types.UID, expiry time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.expiries == nil {
		t.expiries = map[types.UID]time.Time{}
	}
	t.expiries[uid] = expiry
}

func (t *Tokens) forget(uid types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.expiries, uid)
}

// create makes a token. An id that is taken (one in two thousand million, per token there is) is drawn again.
func (t *Tokens) create(ctx context.Context, m *v1alpha1.Machine) (Token, error) {
	for range 3 {
		token, err := draw(t.Rand)
		if err != nil {
			return Token{}, err
		}
		expiry := t.Clock.Now().Add(TokenLife)
		err = t.Client.Create(ctx, secretFor(m, token, expiry))
		if err == nil {
			t.remember(m.UID, expiry)
			return token, nil
		}
		if !apierrors.IsAlreadyExists(err) {
			return Token{}, fmt.Errorf("creating bootstrap token: %w", err)
		}
	}
	return Token{}, fmt.Errorf("creating bootstrap token: three ids drawn were all taken")
}

// secretFor is the Secret that makes the API server know the token. usage-bootstrap-signing is left out: the token is
// for authentication alone.
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

const alphabet = "abcdefghijklmnopqrstuvwxyz0123456789"

// draw takes an id of 6 and a secret of 16 characters from the source, each character equally likely.
func draw(source io.Reader) (Token, error) {
	const idLength, length = 6, 6 + 16
	// Bytes beyond the largest multiple of the alphabet would make its first letters likelier.
	const limit = 256 / len(alphabet) * len(alphabet)
	out := make([]byte, 0, length)
	buffer := make([]byte, length)
	for len(out) < length {
		if _, err := io.ReadFull(source, buffer); err != nil {
			return Token{}, fmt.Errorf("drawing a bootstrap token: %w", err)
		}
		for _, b := range buffer {
			if int(b) < limit && len(out) < length {
				out = append(out, alphabet[int(b)%len(alphabet)])
			}
		}
	}
	return Token{ID: string(out[:idLength]), Secret: string(out[idLength:])}, nil
}

var tokenID = regexp.MustCompile(`^[a-z0-9]{6}$`)

// Holder is whom a bootstrap token was made for: a Machine of drover's, or all Machines of a deployment of
// operating-system-manager's. The zero value is neither.
type Holder struct {
	Machine types.NamespacedName
	UID     types.UID
	// deployment is operating-system-manager's mark.
	deployment string
}

// HolderOf says whose the token with that id is. A token that is not there gives a zero Holder and no error.
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
		return Holder{Machine: machineOf(&s), UID: types.UID(uid)}, nil
	}
	if s.Type == secretType {
		h.deployment = s.Labels[labelTokenDeployment]
	}
	return h, nil
}

// Serves tells whether the token is operating-system-manager's for that deployment.
func (h Holder) Serves(d *v1alpha1.MachineDeployment) bool {
	return h.deployment != "" && ManagedByOSM(d) && tokenLabelOSM(d) == h.deployment
}

// Shared tells whether the token is for all Machines of a deployment.
func (h Holder) Shared() bool { return h.deployment != "" }

func machineOf(s *corev1.Secret) types.NamespacedName {
	var key types.NamespacedName
	key.Namespace, key.Name, _ = strings.Cut(s.Annotations[v1alpha1.AnnotationNodeMachine], "/")
	return key
}
