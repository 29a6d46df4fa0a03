package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// pipes is a network in memory. A connection that is dead takes all that is written to it, and delivers nothing any more.
type pipes struct {
	accepted chan net.Conn
	dials    atomic.Int32
	dead     atomic.Bool
	closing  sync.Once
}

func (p *pipes) dial(context.Context, string, string) (net.Conn, error) {
	near, far := net.Pipe()
	p.accepted <- far
	return &mortal{Conn: near, dead: &p.dead, first: p.dials.Add(1) == 1}, nil
}

func (p *pipes) Accept() (net.Conn, error) {
	c, open := <-p.accepted
	if !open {
		return nil, net.ErrClosed
	}
	return c, nil
}
func (p *pipes) Close() error   { p.closing.Do(func() { close(p.accepted) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

// mortal is a connection whose packets are lost while dead is true, if it is the first one.
type mortal struct {
	net.Conn
	dead  *atomic.Bool
	first bool
}

func (m *mortal) Write(data []byte) (int, error) {
	if m.first && m.dead.Load() {
		return len(data), nil
	}
	return m.Conn.Write(data)
}

func TestAConnectionWhoseOtherEndIsGoneWithoutAWord(t *testing.T) {
	issuer := httptest.NewUnstartedServer(nil)
	issuer.StartTLS()
	certificates, trusted := issuer.TLS.Certificates, x509.NewCertPool()
	trusted.AddCert(issuer.Certificate())
	issuer.Close()
	t.Run("is given up, and the next call opens another one", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			network := &pipes{accepted: make(chan net.Conn)}
			server := &http.Server{TLSConfig: &tls.Config{Certificates: certificates, NextProtos: []string{"h2"}}, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.ProtoMajor != 2 {
					t.Errorf("the request has HTTP/%d", r.ProtoMajor)
				}
				_, _ = io.WriteString(w, "fine")
			})}
			served := make(chan error, 1)
			go func() { served <- server.ServeTLS(network, "", "") }()
			transport := newDialer("", Endpoints{}).transport()
			transport.DialContext, transport.Proxy, transport.TLSClientConfig.RootCAs = network.dial, nil, trusted
			call := func() error {
				ctx, cancel := context.WithTimeout(t.Context(), callTimeout)
				defer cancel()
				req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://example.com/", nil)
				if err != nil {
					t.Fatal(err)
				}
				resp, err := transport.RoundTrip(req)
				if err != nil {
					return err
				}
				_, err = io.Copy(io.Discard, resp.Body)
				return errors.Join(err, resp.Body.Close())
			}
			if err := call(); err != nil {
				t.Fatal(err)
			}
			network.dead.Store(true)
			if err := call(); err == nil {
				t.Fatal("the connection is not dead")
			}
			if err := call(); err != nil {
				t.Errorf("the call after the next one: %v", err)
			}
			transport.CloseIdleConnections()
			_ = server.Close()
			if err := <-served; !errors.Is(err, http.ErrServerClosed) {
				t.Error(err)
			}
		})
	})
}
