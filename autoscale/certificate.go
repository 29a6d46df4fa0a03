package autoscale

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"os"
	"sync"
	"time"

	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
)

// certificateEvery is how often the certificate's files are read.
const certificateEvery = 10 * time.Second

// certificate holds the server's certificate and key, which are read from their files again every certificateEvery. The files
// are not watched: a watch needs one of the host's few inotify instances, and drover must start even where none is left.
type certificate struct {
	certFile, keyFile string
	clock             clock.Clock

	mu      sync.Mutex
	current *tls.Certificate
	// read is the content of both files as last read.
	read [2][]byte
}

// newCertificate reads the files. Its errors name the flags.
func newCertificate(certFile, keyFile string, c clock.Clock) (*certificate, error) {
	cert := &certificate{certFile: certFile, keyFile: keyFile, clock: c}
	if _, err := cert.reread(); err != nil {
		return nil, fmt.Errorf("--grpc-cert %s, --grpc-key %s: %w", certFile, keyFile, err)
	}
	return cert, nil
}

// get returns the certificate that was read last.
func (c *certificate) get() *tls.Certificate {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.current
}

// reread reads the files and reports whether their certificate has changed. On an error, certificate keeps the last
// certificate; this happens, for example, when only one of the files has been replaced yet, so that they do not match. reread
// returns the error only once for the same content.
func (c *certificate) reread() (bool, error) {
	var content [2][]byte
	for n, name := range []string{c.certFile, c.keyFile} {
		var err error
		if content[n], err = os.ReadFile(name); err != nil {
			return false, err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if bytes.Equal(content[0], c.read[0]) && bytes.Equal(content[1], c.read[1]) {
		return false, nil
	}
	c.read = content
	pair, err := tls.X509KeyPair(content[0], content[1])
	if err != nil {
		return false, err
	}
	c.current = &pair
	return true, nil
}

// follow reads the files every certificateEvery until ctx ends.
func (c *certificate) follow(ctx context.Context) {
	timer := c.clock.NewTimer(certificateEvery)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C():
		}
		changed, err := c.reread()
		switch {
		case err != nil:
			ctrl.LoggerFrom(ctx).Error(err, "Failed to reload the certificate; the previous one is still served", "cert", c.certFile, "key", c.keyFile)
		case changed:
			ctrl.LoggerFrom(ctx).Info("Serving the changed certificate", "cert", c.certFile)
		}
		timer.Reset(certificateEvery)
	}
}
