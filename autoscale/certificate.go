package autoscale

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/drover-project/drover/machines/periodic"
)

// certificateEvery is how often the certificate's files are read.
const certificateEvery = 10 * time.Second

// certificate holds the server's certificate and key. It reads their files again at the interval certificateEvery. It does not
// watch the files: a watch needs one of the host's few inotify instances, and drover must start even where none is left.
type certificate struct {
	certFile, keyFile string
	clock             clock.Clock

	current atomic.Pointer[tls.Certificate]
	// read holds the contents of the certificate file and of the key file as they were last read.
	read [2][]byte
}

// newCertificate reads a certificate and its key from their files. Its errors name the flag.
func newCertificate(certFile, keyFile string, c clock.Clock) (*certificate, error) {
	cert := &certificate{certFile: certFile, keyFile: keyFile, clock: c}
	if _, err := cert.reread(); err != nil {
		return nil, fmt.Errorf("--grpc-cert-dir: %s, %s: %w", certFile, keyFile, err)
	}
	return cert, nil
}

// get returns the certificate that was read last.
func (c *certificate) get() *tls.Certificate { return c.current.Load() }

// reread reads the files and reports whether the certificate has changed. After an error the last certificate stays in use. An
// error also occurs while only one of the two files has been replaced, because certificate and key do not match then. When
// reread is called again and the files have not changed, it does not repeat an error about their content. It is not safe for concurrent
// use.
func (c *certificate) reread() (bool, error) {
	var content [2][]byte
	for n, name := range []string{c.certFile, c.keyFile} {
		var err error
		if content[n], err = os.ReadFile(name); err != nil {
			return false, err
		}
	}
	if bytes.Equal(content[0], c.read[0]) && bytes.Equal(content[1], c.read[1]) {
		return false, nil
	}
	c.read = content
	pair, err := tls.X509KeyPair(content[0], content[1])
	if err != nil {
		return false, err
	}
	c.current.Store(&pair)
	return true, nil
}

// follow reads the certificate's files at the interval certificateEvery until ctx ends.
func (c *certificate) follow(ctx context.Context) {
	periodic.After(ctx, c.clock, certificateEvery, func(ctx context.Context) {
		changed, err := c.reread()
		switch {
		case err != nil:
			ctrl.LoggerFrom(ctx).Error(err, "Failed to reload the certificate; the previous one is still served", "cert", c.certFile, "key", c.keyFile)
		case changed:
			ctrl.LoggerFrom(ctx).Info("Serving the changed certificate", "cert", c.certFile)
		}
	})
}
