package autoscale

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/periodic"
)

const (
	// lookEvery is the time between two checks of the Secrets, and lookAgain the time after a failed check.
	lookEvery, lookAgain = time.Minute, 10 * time.Second
	// lookTimeout bounds one check.
	lookTimeout = 10 * time.Second
)

// ClientName is the common name of the autoscaler's client certificate.
const ClientName = "cluster-autoscaler"

// serverName is the common name of the server's certificate. It is not an address, because clients check the certificate's
// other names, and a common name has at most 64 bytes.
const serverName = "drover"

// KeeperOptions are the dependencies and settings of a [Keeper].
type KeeperOptions struct {
	// Client reads Secrets from the API server itself, never from a cache, and writes them.
	Client client.Client
	// Own is drover's Secret, with the authority, its key and the server's certificate.
	Own types.NamespacedName
	// Autoscaler is the Secret that the autoscaler mounts. It holds the autoscaler's certificate and key, and the authority's
	// certificate.
	Autoscaler types.NamespacedName
	// Names are the DNS names and IP addresses under which the autoscaler calls drover; at least one.
	Names []string
	Clock clock.Clock
	// Registry registers the metric. nil means that it is not registered.
	Registry prometheus.Registerer
}

// Keeper keeps the certificates in the Secrets up to date, and holds the server's certificate in memory. It is a runnable of a
// controller-runtime manager and runs on every replica: when several replicas create a certificate at the same time, the first
// write wins, and the other replicas read that certificate.
type Keeper struct {
	KeeperOptions
	expiry  *prometheus.GaugeVec
	current atomic.Pointer[served]
	// ready is closed when the Keeper has a certificate.
	ready chan struct{}
	once  sync.Once
	// complaint is the text of the last error; empty when the last check succeeded.
	complaint string
}

// served holds the certificate and the authority that the server uses for new TLS connections.
type served struct {
	certificate *tls.Certificate
	clients     *x509.CertPool
}

// NewKeeper returns a Keeper. It has no certificate until [Keeper.Start] has checked the Secrets.
func NewKeeper(o KeeperOptions) *Keeper {
	k := &Keeper{KeeperOptions: o, ready: make(chan struct{}), expiry: prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "drover_grpc_certificate_expiry_seconds",
		Help: "When a certificate that drover has made ends, in seconds since 1970: authority, server, autoscaler.",
	}, []string{"certificate"})}
	if o.Registry != nil {
		o.Registry.MustRegister(k.expiry)
	}
	return k
}

// NeedLeaderElection reports false: every replica serves the autoscaler, and every replica may create missing certificates.
func (k *Keeper) NeedLeaderElection() bool { return false }

var errNone = errors.New("there is no certificate yet")

// Server returns the server's certificate.
func (k *Keeper) Server() (*tls.Certificate, error) {
	if s := k.current.Load(); s != nil {
		return s.certificate, nil
	}
	return nil, errNone
}

// Clients returns a pool with the authority. The server accepts a client's certificate only if the authority has signed it.
func (k *Keeper) Clients() (*x509.CertPool, error) {
	if s := k.current.Load(); s != nil {
		return s.clients, nil
	}
	return nil, errNone
}

// Start checks the Secrets until ctx ends. It creates missing certificates and renews those that are due.
func (k *Keeper) Start(ctx context.Context) error {
	periodic.Run(ctx, k.Clock, func(ctx context.Context) time.Duration {
		if err := k.look(ctx); err != nil {
			return lookAgain
		}
		return lookEvery
	})
	return nil
}

// look brings drover's Secret and the autoscaler's Secret up to date. It logs an error unless the last check failed with the
// same error.
func (k *Keeper) look(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	err := retry.OnError(retry.DefaultRetry, simultaneous, func() error { return k.keepBoth(bounded) })
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != "" && text != k.complaint && ctx.Err() == nil {
		ctrl.LoggerFrom(ctx).Error(err, "Checking the certificates of gRPC failed", "serving", k.current.Load() != nil)
	}
	k.complaint = text
	return err
}

// keepBoth brings both Secrets up to date. When it fails because another replica writes one of them, both must be read again,
// because that replica may have made another authority.
func (k *Keeper) keepBoth(ctx context.Context) error {
	authority, err := k.keepOwn(ctx)
	if err != nil {
		return err
	}
	return k.keepAutoscalers(ctx, authority)
}

// keepOwn brings drover's own Secret up to date, serves its certificate, and returns the authority.
func (k *Keeper) keepOwn(ctx context.Context) (authority *tls.Certificate, err error) {
	server := wanted{usage: x509.ExtKeyUsageServerAuth, commonName: serverName, names: k.Names, life: serverLife}
	var certificate *tls.Certificate
	err = k.keep(ctx, k.Own, func(data map[string][]byte) (changes []string, err error) {
		if authority, changes, err = keepAuthority(data, k.Clock.Now()); err != nil {
			return nil, err
		}
		var more []string
		certificate, more, err = server.keep(data, authority, k.Clock.Now())
		return append(changes, more...), err
	})
	if err == nil {
		k.serve(authority, certificate)
	}
	return authority, err
}

// keepAutoscalers brings the Secret of the autoscaler up to date.
func (k *Keeper) keepAutoscalers(ctx context.Context, authority *tls.Certificate) error {
	autoscaler := wanted{usage: x509.ExtKeyUsageClientAuth, commonName: ClientName, life: clientLife}
	return k.keep(ctx, k.Autoscaler, func(data map[string][]byte) ([]string, error) {
		certificate, changes, err := autoscaler.keep(data, authority, k.Clock.Now())
		if err != nil {
			return nil, err
		}
		if trusted := encoded(authority); !bytes.Equal(data[authorityCert], trusted) {
			data[authorityCert], changes = trusted, append(changes, "the authority's certificate")
		}
		k.expires("autoscaler", certificate)
		return changes, nil
	})
}

// serve makes the server use the certificate, and trust the authority, for new connections.
func (k *Keeper) serve(authority, certificate *tls.Certificate) {
	s := &served{certificate, x509.NewCertPool()}
	s.clients.AddCert(authority.Leaf)
	k.current.Store(s)
	k.expires("server", certificate)
	k.expires("authority", authority)
	k.once.Do(func() { close(k.ready) })
}

func (k *Keeper) expires(which string, pair *tls.Certificate) {
	k.expiry.WithLabelValues(which).Set(float64(pair.Leaf.NotAfter.Unix()))
}
