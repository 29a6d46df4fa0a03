package autoscale

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

var (
	own         = types.NamespacedName{Namespace: "drover", Name: "drover-grpc"}
	autoscalers = types.NamespacedName{Namespace: "kube-system", Name: "cluster-autoscaler-drover"}
)

// world holds a Keeper, the API server with its Secrets, and its clock.
type world struct {
	*testing.T
	client client.Client
	clock  *clocktesting.FakeClock
	keeper *Keeper
}

func newWorld(t *testing.T, c client.Client) *world {
	w := &world{T: t, client: c, clock: clocktesting.NewFakeClock(origin)}
	w.keeper = w.another()
	return w
}

// another returns another replica's Keeper for the same Secrets.
func (w *world) another() *Keeper {
	return NewKeeper(KeeperOptions{Client: w.client, Own: own, Autoscaler: autoscalers, Names: []string{"drover.drover.svc", "drover.drover"}, Clock: w.clock})
}

func (w *world) look() {
	w.Helper()
	if err := w.keeper.look(w.Context()); err != nil {
		w.Fatal(err)
	}
}

func (w *world) secret(name types.NamespacedName) *corev1.Secret {
	w.Helper()
	s := &corev1.Secret{}
	if err := w.client.Get(w.Context(), name, s); err != nil {
		w.Fatal(err)
	}
	return s
}

// mounted holds the files that an autoscaler read at its start.
type mounted struct {
	cert  *x509.Certificate
	roots *x509.CertPool
}

func (w *world) mounted() mounted {
	w.Helper()
	data := w.secret(autoscalers).Data
	block, _ := pem.Decode(data["tls.crt"])
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		w.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(data["ca.crt"]) {
		w.Fatal("the autoscaler's Secret has no authority")
	}
	return mounted{cert, roots}
}

// connects returns an error unless an autoscaler with these files and a drover with this Keeper accept each
// other's certificates.
func (w *world) connects(a mounted, k *Keeper) error {
	clients, err := k.Clients()
	if err != nil {
		return err
	}
	server, err := k.Server()
	if err != nil {
		return err
	}
	_, client := a.cert.Verify(x509.VerifyOptions{Roots: clients, CurrentTime: w.clock.Now(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	_, of := server.Leaf.Verify(x509.VerifyOptions{Roots: a.roots, CurrentTime: w.clock.Now(), DNSName: "drover.drover.svc"})
	return errors.Join(client, of)
}

func TestDroverCreatesItsOwnSecretAndTheAutoscalersSecret(t *testing.T) {
	w := newWorld(t, fake.NewFakeClient())
	registry := prometheus.NewRegistry()
	registry.MustRegister(w.keeper.expiry)
	if _, err := w.keeper.Server(); err == nil {
		t.Error("a certificate exists before the first check")
	}
	w.look()
	t.Run("drover's own Secret has the certificate authority and drover's server certificate, with their keys", func(t *testing.T) {
		s := w.secret(own)
		if got := slices.Sorted(maps.Keys(s.Data)); !slices.Equal(got, []string{"ca.crt", "ca.key", "tls.crt", "tls.key"}) || s.Type != corev1.SecretTypeTLS {
			t.Errorf("the Secret holds %v and is of type %s", got, s.Type)
		}
	})
	t.Run("the autoscaler's Secret has the autoscaler's certificate and key, and no key of the certificate authority", func(t *testing.T) {
		s := w.secret(autoscalers)
		if got := slices.Sorted(maps.Keys(s.Data)); !slices.Equal(got, []string{"ca.crt", "tls.crt", "tls.key"}) {
			t.Errorf("the Secret holds %v", got)
		}
		if cn := w.mounted().cert.Subject.CommonName; cn != "cluster-autoscaler" {
			t.Errorf("the autoscaler's name is %q", cn)
		}
	})
	t.Run("the autoscaler and drover accept each other's certificates", func(t *testing.T) {
		if err := w.connects(w.mounted(), w.keeper); err != nil {
			t.Error(err)
		}
	})
	t.Run("no Secret is written while no certificate is due for renewal", func(t *testing.T) {
		before, theirs := w.secret(own), w.secret(autoscalers)
		w.clock.Step(100 * day)
		w.look()
		if w.secret(own).ResourceVersion != before.ResourceVersion || w.secret(autoscalers).ResourceVersion != theirs.ResourceVersion {
			t.Error("a Secret was written")
		}
	})
	t.Run("a second replica of drover serves the same server certificate", func(t *testing.T) {
		k := w.another()
		if err := k.look(t.Context()); err != nil {
			t.Fatal(err)
		}
		ours, _ := w.keeper.Server()
		if theirs, _ := k.Server(); !theirs.Leaf.Equal(ours.Leaf) {
			t.Error("it serves another certificate")
		}
	})
	t.Run("a metric shows when the certificate authority and each certificate expire", func(t *testing.T) {
		for which, end := range map[string]time.Time{"server": origin.Add(serverLife), "autoscaler": origin.Add(clientLife), "authority": origin.Add(authorityLife)} {
			if got := testutil.ToFloat64(w.keeper.expiry.WithLabelValues(which)); got != float64(end.Unix()) {
				t.Errorf("%s ends at %v, want %v", which, got, end.Unix())
			}
		}
	})
}

// otherKey puts the server's key in the place of the authority's.
func otherKey(change func(types.NamespacedName, string, string) func(*world)) func(*world) {
	return func(w *world) { change(own, "ca.key", string(w.secret(own).Data["tls.key"]))(w) }
}

func TestHowDroverHandlesCertificateSecretsThatOthersHaveChanged(t *testing.T) {
	holding := func(name types.NamespacedName, data map[string][]byte) func(*world) {
		return func(w *world) {
			s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name}, Data: data}
			if err := errors.Join(client.IgnoreNotFound(w.client.Delete(w.Context(), s)), w.client.Create(w.Context(), s)); err != nil {
				w.Fatal(err)
			}
		}
	}
	change := func(name types.NamespacedName, key, value string) func(*world) {
		return func(w *world) {
			s := w.secret(name)
			s.Data[key] = []byte(value)
			if value == "" {
				delete(s.Data, key)
			}
			if err := w.client.Update(w.Context(), s); err != nil {
				w.Fatal(err)
			}
		}
	}
	remove := func(names ...types.NamespacedName) func(*world) {
		return func(w *world) {
			for _, name := range names {
				if err := w.client.Delete(w.Context(), w.secret(name)); err != nil {
					w.Fatal(err)
				}
			}
		}
	}
	for _, tc := range []struct {
		name string
		do   func(*world)
		// refused is a part of the expected error. It is empty when drover restores the Secrets.
		refused string
		// keeps is true when an autoscaler that started before the change of the Secrets can still connect.
		keeps bool
	}{
		{"the autoscaler's Secret is created again after its deletion", remove(autoscalers), "", true},
		{"all certificates are created again after drover's own Secret was deleted", remove(own), "", false},
		{"both Secrets are created again after their deletion", remove(own, autoscalers), "", false},
		{"drover's server certificate is created again when it is missing from drover's own Secret", change(own, "tls.crt", ""), "", true},
		{"drover's server certificate is replaced when its key is not in PEM format", change(own, "tls.key", "garbage"), "", true},
		{"the CA certificate is restored when it is missing from the autoscaler's Secret", change(autoscalers, "ca.crt", ""), "", true},
		{"the certificate in the autoscaler's Secret is replaced when it is not in PEM format", change(autoscalers, "tls.crt", "garbage"), "", true},
		{"drover's own Secret is refused when the CA's private key is missing", change(own, "ca.key", ""), "drover/drover-grpc: ca.crt and ca.key: tls: failed to find any PEM data in key input; delete the Secret", true},
		{"drover's own Secret is refused when the CA's certificate is not in PEM format", change(own, "ca.crt", "garbage"), "drover/drover-grpc: ca.crt and ca.key: tls: failed to find any PEM data in certificate input", true},
		{"drover's own Secret is refused when the PEM block of the CA's private key contains no key", change(own, "ca.key", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte("x")}))), "ca.crt and ca.key: tls: failed to parse private key", true},
		{"drover's own Secret is refused when the PEM block of the CA's certificate contains no certificate", change(own, "ca.crt", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")}))), "ca.crt and ca.key: x509", true},
		{"drover's own Secret is refused when the CA's private key belongs to another certificate", otherKey(change), "ca.crt and ca.key: tls: private key does not match public key", true},
		{"another program's Secret that has the name of drover's own Secret is refused", holding(own, map[string][]byte{"tls.crt": []byte("theirs")}), "drover/drover-grpc was not made by drover", true},
		{"another program's Secret that has the name of the autoscaler's Secret is refused", holding(autoscalers, map[string][]byte{"password": []byte("theirs")}), "kube-system/cluster-autoscaler-drover was not made by drover", true},
		{"an empty Secret that has the name of the autoscaler's Secret is filled", holding(autoscalers, nil), "", true},
		{"an empty Secret that has the name of drover's own Secret is filled", holding(own, nil), "", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, fake.NewFakeClient())
			w.look()
			running := w.mounted()
			tc.do(w)
			touched := map[types.NamespacedName]string{}
			for _, name := range []types.NamespacedName{own, autoscalers} {
				s := &corev1.Secret{}
				if w.client.Get(t.Context(), name, s) == nil {
					touched[name] = s.ResourceVersion
				}
			}
			err := w.keeper.look(t.Context())
			if tc.refused == "" && err != nil || tc.refused != "" && (err == nil || !strings.Contains(err.Error(), tc.refused)) {
				t.Fatalf("the error is %v, want something with %q", err, tc.refused)
			}
			if connected := w.connects(running, w.keeper) == nil; connected != tc.keeps {
				t.Errorf("an autoscaler that started before: connected %v, want %v", connected, tc.keeps)
			}
			if tc.refused == "" {
				if err := w.connects(w.mounted(), w.keeper); err != nil {
					t.Errorf("an autoscaler that starts now: %v", err)
				}
				return
			}
			for name, version := range touched {
				if strings.Contains(tc.refused, name.String()) && w.secret(name).ResourceVersion != version {
					t.Errorf("Secret %s was written", name)
				}
			}
		})
	}
}

func TestConflictsWhenAReplicaWritesTheCertificateSecrets(t *testing.T) {
	for _, tc := range []struct {
		name string
		// there reports whether the Secrets exist before the test.
		there bool
	}{
		{"a replica serves the stored certificate when another replica creates the Secrets first", false},
		{"a replica serves the stored certificate when another replica changes the Secrets first", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var w *world
			meddle := true
			other := func() {
				if !meddle {
					return
				}
				meddle = false
				if err := w.another().look(t.Context()); err != nil {
					t.Error(err)
				}
			}
			w = newWorld(t, interceptor.NewClient(fake.NewFakeClient(), interceptor.Funcs{
				Create: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
					other()
					return c.Create(ctx, o, options...)
				},
				Update: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.UpdateOption) error {
					other()
					return c.Update(ctx, o, options...)
				},
			}))
			if tc.there {
				meddle = false
				w.look()
				meddle = true
				w.clock.Step(300 * day)
			}
			w.look()
			if meddle {
				t.Fatal("nobody has written in between")
			}
			server, _ := w.keeper.Server()
			if stored, err := pairIn(w.secret(own).Data, "tls.crt", "tls.key"); err != nil || !stored.Leaf.Equal(server.Leaf) {
				t.Error("it serves another certificate than the stored one")
			}
			if err := w.connects(w.mounted(), w.keeper); err != nil {
				t.Error(err)
			}
		})
	}
	t.Run("a replica does not write back an authority that was replaced between its two writes", func(t *testing.T) {
		var w *world
		replaced := false
		w = newWorld(t, interceptor.NewClient(fake.NewFakeClient(), interceptor.Funcs{
			Create: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
				if o.GetName() == w.keeper.Autoscaler.Name && !replaced {
					replaced = true
					if err := c.Delete(ctx, w.secret(own)); err != nil {
						t.Error(err)
					}
					if err := w.another().look(ctx); err != nil {
						t.Error(err)
					}
				}
				return c.Create(ctx, o, options...)
			},
		}))
		w.look()
		if stored := w.secret(own).Data["ca.crt"]; !replaced || !bytes.Equal(stored, w.secret(w.keeper.Autoscaler).Data["ca.crt"]) {
			t.Errorf("replaced: %v; the autoscaler's Secret has another authority than drover's own", replaced)
		}
		if err := w.connects(w.mounted(), w.keeper); err != nil {
			t.Error(err)
		}
	})
	t.Run("a replica gives up after five writes that conflict, and returns the error with the Secret's name", func(t *testing.T) {
		writes := 0
		w := newWorld(t, interceptor.NewClient(fake.NewFakeClient(), interceptor.Funcs{
			Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
				writes++
				return apierrors.NewAlreadyExists(corev1.Resource("secrets"), own.Name)
			},
		}))
		if err := w.keeper.look(t.Context()); writes != 5 || err == nil || !strings.Contains(err.Error(), "writing the Secret "+own.String()) {
			t.Errorf("after %d writes the error is %v", writes, err)
		}
	})
}

func TestDroverServesItsLastKnownCertificateWhileTheAPIServerDoesNotAnswer(t *testing.T) {
	refused := errors.New("refused")
	var away error
	w := newWorld(t, interceptor.NewClient(fake.NewFakeClient(), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
			if away != nil {
				return away
			}
			return c.Get(ctx, key, o, options...)
		},
	}))
	away = refused
	if err := w.keeper.look(t.Context()); !errors.Is(err, refused) {
		t.Errorf("the error is %v", err)
	}
	select {
	case <-w.keeper.ready:
		t.Fatal("it is ready without a certificate")
	default:
	}
	away = nil
	w.look()
	<-w.keeper.ready
	away = refused
	if err := w.keeper.look(t.Context()); err == nil || w.connects(mountedBefore(t, w, &away), w.keeper) != nil {
		t.Errorf("what was read before is not served any more; error %v", err)
	}
}

func mountedBefore(t *testing.T, w *world, away *error) mounted {
	t.Helper()
	held := *away
	*away = nil
	defer func() { *away = held }()
	return w.mounted()
}
