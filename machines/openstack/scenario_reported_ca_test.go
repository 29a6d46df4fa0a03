package openstack

import (
	"bytes"
	"crypto/tls"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/util/cert"

	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/client"
	sim "github.com/drover-project/drover/test/openstack"
)

// secured serves the simulated cloud over TLS, with a certificate that the test replaces.
type secured struct {
	*httptest.Server
	mu      sync.Mutex
	current *tls.Config
}

// newSecured returns a server that answers as the cloud of the bench. The cloud's URLs name the host to which a request went, without TLS.
func newSecured(t *testing.T, b *bench) *secured {
	t.Helper()
	s := &secured{}
	inner := b.sim.Handler()
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := httptest.NewRecorder()
		inner.ServeHTTP(answer, r)
		maps.Copy(w.Header(), answer.Header())
		w.Header().Del("Content-Length")
		w.WriteHeader(answer.Code)
		_, _ = w.Write(bytes.ReplaceAll(answer.Body.Bytes(), []byte("http://"+r.Host), []byte(s.URL)))
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.TLS = &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.current, nil
	}}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// authority is the certificate of a server with its key, and the CA that has signed it.
type authority struct {
	pair tls.Certificate
	ca   []byte
}

func newAuthority(t *testing.T) authority {
	t.Helper()
	chain, key, err := cert.GenerateSelfSignedCertKey("127.0.0.1", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(chain, key)
	if err != nil {
		t.Fatal(err)
	}
	return authority{pair, chain}
}

// shows makes the server show the certificate of an authority, also to clients with an open connection.
func (s *secured) shows(a authority) {
	s.mu.Lock()
	s.current = &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{a.pair}}
	s.mu.Unlock()
	s.CloseClientConnections()
}

func TestTheCAOfTheCloudIsReplaced(t *testing.T) {
	t.Parallel()
	first, second := newAuthority(t), newAuthority(t)
	both := append(bytes.Clone(first.ca), second.ca...)
	for name, own := range map[string]bool{
		"Machines with the configured credentials": false,
		"Machines with credentials of their own":   true,
	} {
		setUp := func(t *testing.T) (*bench, *keyring, client.Credentials, *secured, func(name string) fields) {
			b := newDirectBench(t)
			s := newSecured(t, b)
			s.shows(first)
			creds := b.credentials()
			creds.IdentityEndpoint, creds.CACert = s.URL+"/identity/v3", first.ca
			k := &keyring{creds: creds}
			b.options.Configured, b.options.Reread = creds, k.read
			b.restart()
			return b, k, creds, s, func(string) fields {
				if !own {
					return seedFields()
				}
				return seedFields().with("identityEndpoint", creds.IdentityEndpoint).with("applicationCredentialID", sim.MetaKubeAppCredentialID).
					with("applicationCredentialSecret", sim.MetaKubeAppCredentialSecret)
			}
		}
		t.Run("no call of "+name+" fails when the file has both CAs before the cloud changes its certificate (report 68)", func(t *testing.T) {
			b, k, creds, s, spec := setUp(t)
			b.active(newMachine(t, "a", spec("a")))
			creds.CACert = both
			k.set(creds, nil)
			k.seen(b)
			s.shows(second)
			b.sim.RevokeTokens()
			b.active(newMachine(t, "b", spec("b")))
			creds.CACert = second.ca
			k.set(creds, nil)
			k.seen(b)
			b.active(newMachine(t, "c", spec("c")))
			for _, name := range []string{"a", "b", "c"} {
				if f := b.observe(b.synced(newMachine(t, name, spec(name)))); f.Server == nil || f.Server.State != cloud.ServerActive || f.Outdated != "" {
					t.Errorf("%s: %+v", name, f)
				}
			}
		})
		t.Run(name+" lose nothing and get servers again, without a restart, when the file gets the new CA after the cloud (report 68)", func(t *testing.T) {
			b, k, creds, s, spec := setUp(t)
			b.active(newMachine(t, "a", spec("a")))
			s.shows(second)
			b.sim.RevokeTokens()
			b.sim.ForgetCalls()
			m := newMachine(t, "b", spec("b"))
			b.eventually("the certificate is refused", func() bool {
				i, err := b.cloud.Instance(b.ctx, m)
				if err == nil {
					_, err = b.make(i.(*instance))
				}
				return err != nil && strings.Contains(err.Error(), "certificate") && fault.Is(err, fault.Transient)
			})
			b.pass(20 * time.Minute)
			if f, err := b.instance(newMachine(t, "a", spec("a"))).Observe(b.ctx); f.Gone || err == nil && f.Server == nil {
				t.Errorf("while the certificate is refused: %+v, %v", f, err)
			}
			creds.CACert = second.ca
			k.set(creds, nil)
			k.seen(b)
			b.eventually("calls succeed again", func() bool {
				i, err := b.cloud.Instance(b.ctx, m)
				if err == nil {
					_, err = b.make(i.(*instance))
				}
				return err == nil
			})
			if f := b.observe(b.synced(newMachine(t, "a", spec("a")))); f.Server == nil || f.Server.State != cloud.ServerActive {
				t.Errorf("the server of before: %+v", f)
			}
			if left := b.sim.Leftovers(); len(left.Servers) != 2 || b.calls("DELETE /servers/{id}") != 0 {
				t.Errorf("%d servers exist, want two", len(left.Servers))
			}
		})
	}
}
