package bootstrap

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// Tokens stores one bootstrap token, as a Secret in kube-system, for each Machine that has yet to join. The ID of a token is public and
// is computed from its Machine's UID. Therefore drover, even the next leader, finds, creates and deletes the token by name: it lists no
// Secrets, and creates no token twice. The secret of a token is random. The reader must not be a cache, which would miss new tokens.
type Tokens struct {
	Client client.Client
	Reader client.Reader
	Clock  clock.PassiveClock

	// known holds the tokens that this process has created or read, by the UIDs of their Machines. An expired token is not used any more. While a Machine with a
	// token in known waits to join, its reconciles make no call for the token, and the token's deletion needs only one call.
	known *cache.LRUExpireCache
	// began returns when this process stored its first token. Machines that were created before may have a token that another process
	// created.
	began func() time.Time
}

// mostKnown is the number of tokens that are remembered. When there are more, the one that was used longest ago is read again at its next
// use.
const mostKnown = 10_000

// NewTokens returns Tokens that know no token. reader must not be a cache.
func NewTokens(c client.Client, reader client.Reader, now clock.PassiveClock) *Tokens {
	return &Tokens{Client: c, Reader: reader, Clock: now,
		known: cache.NewLRUExpireCacheWithClock(mostKnown, now), began: sync.OnceValue(now.Now)}
}

// knownToken holds a token, the UID of its Secret, and when the token expires.
type knownToken struct {
	token  Token
	uid    types.UID
	expiry time.Time
}

// Ensure returns the Machine's token, and creates it when there is none.
func (t *Tokens) Ensure(ctx context.Context, m *v1alpha1.Machine) (Token, error) {
	return t.Keep(ctx, m, t.Draw(m))
}

// Draw returns the known token of the Machine, or else a new one that [Tokens.Keep] may store. A new token is not valid before it is
// stored.
func (t *Tokens) Draw(m *v1alpha1.Machine) Token {
	if known, ok := t.recall(m.UID); ok {
		return known.token
	}
	return Token{ID: idOf(m.UID), Secret: strings.ToLower(rand.Text()[:secretLength])}
}

// Keep stores a drawn token for the Machine, or returns the token that the Machine already has. When less than half of the life of an
// existing token is left, Keep prolongs the token, and changes nothing else.
//
// For a token that this process knows and that need not be prolonged, Keep makes no call. For a Machine whose token an earlier process may
// have created, Keep reads before it writes, because the API server would refuse to create the token again.
func (t *Tokens) Keep(ctx context.Context, m *v1alpha1.Machine, drawn Token) (Token, error) {
	known, ok := t.recall(m.UID)
	if ok && known.expiry.Sub(t.Clock.Now()) > TokenLife/2 {
		return known.token, nil
	}
	if ok || m.CreationTimestamp.Time.Before(t.began()) {
		if token, err := t.prolonged(ctx, m); err != nil || token.ID != "" {
			return token, err
		}
	}
	s := secretFor(m, drawn, t.Clock.Now().Add(TokenLife))
	err := t.Client.Create(ctx, s)
	if apierrors.IsAlreadyExists(err) {
		if token, err := t.prolonged(ctx, m); err != nil || token.ID != "" {
			return token, err
		}
	}
	if err != nil {
		// Another token may have the same ID, with a chance of one in two thousand million. The Machine then waits until that token is deleted.
		return Token{}, fmt.Errorf("creating bootstrap token: %w", err)
	}
	t.remember(s)
	return drawn, nil
}

// Prolong moves the expiry of the Machine's token, if the Machine has one, when less than half of the token's life is left.
func (t *Tokens) Prolong(ctx context.Context, m *v1alpha1.Machine) error {
	if known, ok := t.recall(m.UID); ok && known.expiry.Sub(t.Clock.Now()) > TokenLife/2 {
		return nil
	}
	_, err := t.prolonged(ctx, m)
	return err
}

// prolonged reads the token of the Machine, and prolongs it if necessary. The token has no ID when there is none.
func (t *Tokens) prolonged(ctx context.Context, m *v1alpha1.Machine) (Token, error) {
	s, err := t.find(ctx, m.UID)
	if err != nil || s == nil {
		return Token{}, err
	}
	return tokenOf(s), t.prolong(ctx, s)
}

// Delete deletes the Machine's token.
func (t *Tokens) Delete(ctx context.Context, m *v1alpha1.Machine) error {
	known, ok := t.recall(m.UID)
	if !ok {
		s, err := t.find(ctx, m.UID)
		if err != nil || s == nil {
			return err
		}
		known.uid = s.UID
	}
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: secretPrefix + idOf(m.UID)}}
	err := t.Client.Delete(ctx, s, client.Preconditions{UID: &known.uid})
	if apierrors.IsConflict(err) {
		// Another Secret may have this name now. The next call searches for the Secret of the Machine's token.
		t.known.Remove(m.UID)
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting bootstrap token %s: %w", s.Name, err)
	}
	t.known.Remove(m.UID)
	return nil
}

// find reads the Secret of the Machine's token. It returns nil when there is none.
func (t *Tokens) find(ctx context.Context, uid types.UID) (*corev1.Secret, error) {
	s := &corev1.Secret{}
	err := t.Reader.Get(ctx, types.NamespacedName{Namespace: namespace, Name: secretPrefix + idOf(uid)}, s)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading bootstrap token: %w", err)
	}
	if err != nil || s.Labels[v1alpha1.LabelTokenMachine] != string(uid) {
		return nil, nil
	}
	return s, nil
}

func (t *Tokens) prolong(ctx context.Context, s *corev1.Secret) error {
	if expiryOf(s).Sub(t.Clock.Now()) > TokenLife/2 {
		t.remember(s)
		return nil
	}
	base := s.DeepCopy()
	s.Data["expiration"] = []byte(t.Clock.Now().Add(TokenLife).UTC().Format(time.RFC3339))
	if err := t.Client.Patch(ctx, s, client.MergeFrom(base)); err != nil {
		return fmt.Errorf("prolonging bootstrap token %s: %w", s.Name, err)
	}
	t.remember(s)
	return nil
}

func (t *Tokens) recall(uid types.UID) (knownToken, bool) {
	known, ok := t.known.Get(uid)
	if !ok {
		return knownToken{}, false
	}
	return known.(knownToken), true
}

func (t *Tokens) remember(s *corev1.Secret) {
	expiry := expiryOf(s)
	t.known.Add(types.UID(s.Labels[v1alpha1.LabelTokenMachine]), knownToken{tokenOf(s), s.UID, expiry}, expiry.Sub(t.Clock.Now()))
}
