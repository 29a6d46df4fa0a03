package autoscale

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
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

// files holds the certificates from the files that the options name. Another program renews the files. They are read again at the interval
// certificateEvery. A watch would need one of the host's few inotify instances, and drover must start even where none is left.
type files struct {
	certFile, keyFile, clientCA string
	clock                       clock.Clock

	current atomic.Pointer[tls.Certificate]
	// read holds the contents of the certificate file and of the key file as they were last read.
	read [2][]byte
}

// newFiles reads the certificate, the key and the authorities from the files in the options. Its errors name the flag that sets the files.
func newFiles(o Options) (*files, error) {
	f := &files{certFile: o.Cert, keyFile: o.Key, clientCA: o.ClientCA, clock: o.Clock}
	if _, err := f.Clients(); err != nil {
		return nil, err
	}
	if _, err := f.reread(); err != nil {
		return nil, fmt.Errorf("--grpc-cert-dir: %s, %s: %w", o.Cert, o.Key, err)
	}
	return f, nil
}

// Server returns the certificate that was read last.
func (f *files) Server() (*tls.Certificate, error) { return f.current.Load(), nil }

// Clients returns the authorities, which it reads from their file.
func (f *files) Clients() (*x509.CertPool, error) {
	raw, err := os.ReadFile(f.clientCA)
	if err != nil {
		return nil, fmt.Errorf("--grpc-cert-dir: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(raw) {
		return nil, fmt.Errorf("--grpc-cert-dir: %s holds no certificate", f.clientCA)
	}
	return pool, nil
}

// reread reads the files and reports whether the certificate has changed. After an error the last certificate stays in use. An
// error also occurs while only one of the two files has been replaced, because certificate and key do not match then. When
// reread is called again and the files have not changed, it does not repeat an error about their content. It is not safe for concurrent
// use.
func (f *files) reread() (bool, error) {
	var content [2][]byte
	for n, name := range []string{f.certFile, f.keyFile} {
		var err error
		if content[n], err = os.ReadFile(name); err != nil {
			return false, err
		}
	}
	if bytes.Equal(content[0], f.read[0]) && bytes.Equal(content[1], f.read[1]) {
		return false, nil
	}
	f.read = content
	pair, err := tls.X509KeyPair(content[0], content[1])
	if err != nil {
		return false, err
	}
	f.current.Store(&pair)
	return true, nil
}

// follow reads the certificate's files at the interval certificateEvery until ctx ends.
func (f *files) follow(ctx context.Context) {
	periodic.After(ctx, f.clock, certificateEvery, func(ctx context.Context) {
		changed, err := f.reread()
		switch {
		case err != nil:
			ctrl.LoggerFrom(ctx).Error(err, "Failed to reload the certificate; the previous one is still served", "cert", f.certFile, "key", f.keyFile)
		case changed:
			ctrl.LoggerFrom(ctx).Info("Serving the changed certificate", "cert", f.certFile)
		}
	})
}
