//go:build boot

package guests

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path"
	"strings"
	"time"

	"k8s.io/client-go/util/cert"
)

// downloadHosts holds the hosts from which the setup in the user data downloads.
var downloadHosts = []string{"github.com", "release-assets.githubusercontent.com", "dl.k8s.io"}

// Download is a file that guests can download.
type Download struct {
	// Path is the path of the file on this machine.
	Path string
	// WrongSum is true when the published checksum does not match the file.
	WrongSum bool
}

// Internet represents the hosts from which the setup downloads. Guests reach no other host outside of the cloud.
type Internet struct {
	files map[string]Download
	ca    []byte
	pair  tls.Certificate
	log   func(format string, values ...any)
}

// NewInternet returns an Internet with these files; the keys are the ends of the URLs' paths. Its certificate is signed
// by its own CA. It returns an error if keys or certificates cannot be created.
func NewInternet(files map[string]Download) (*Internet, error) {
	chain, key, err := cert.GenerateSelfSignedCertKey(downloadHosts[0], nil, downloadHosts)
	if err != nil {
		return nil, fmt.Errorf("making a certificate: %w", err)
	}
	pair, err := tls.X509KeyPair(chain, key)
	if err != nil {
		return nil, fmt.Errorf("reading the certificate just made: %w", err)
	}
	// The server's certificate comes first in chain, then the CA's. So the CA's certificate begins at the last of these lines.
	const begin = "-----BEGIN CERTIFICATE-----"
	return &Internet{files: files, ca: chain[bytes.LastIndex(chain, []byte(begin)):], pair: pair}, nil
}

// CA returns the CA certificate, in PEM, that guests must trust in order to download.
func (i *Internet) CA() []byte { return i.ca }

// serve answers HTTPS requests until the listener is closed.
func (i *Internet) serve(l net.Listener) {
	server := &http.Server{
		Handler: http.HandlerFunc(i.download), ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0),
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{i.pair}, MinVersion: tls.VersionTLS12},
	}
	_ = server.ServeTLS(l, "", "")
}

// download answers like the real download hosts: it redirects requests for github.com to another host, and serves all other
// files directly.
func (i *Internet) download(w http.ResponseWriter, r *http.Request) {
	if r.Host == "github.com" {
		http.Redirect(w, r, "https://"+downloadHosts[1]+r.URL.Path, http.StatusFound)
		return
	}
	status := i.answer(w, r)
	i.log("download of https://%s%s: %d", r.Host, r.URL.Path, status)
}

func (i *Internet) answer(w http.ResponseWriter, r *http.Request) int {
	wanted := strings.TrimSuffix(strings.TrimSuffix(r.URL.Path, "sum"), ".sha256")
	for end, d := range i.files {
		switch {
		case strings.HasSuffix(r.URL.Path, end):
			http.ServeFile(w, r, d.Path)
		case wanted != r.URL.Path && (strings.HasSuffix(wanted, end) || strings.HasSuffix(wanted+".amd64", end)):
			if err := d.writeSum(w, path.Base(end)); err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return http.StatusInternalServerError
			}
		default:
			continue
		}
		return http.StatusOK
	}
	http.Error(w, "404 Not Found", http.StatusNotFound)
	return http.StatusNotFound
}

// writeSum writes the SHA-256 checksum of the file. The file's name follows, except for a kubelet, as in the published checksums.
func (d Download) writeSum(w io.Writer, name string) error {
	file, err := os.Open(d.Path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	sum := sha256.New()
	_, err = io.Copy(sum, file)
	if d.WrongSum {
		sum.Write([]byte("more"))
	}
	text := hex.EncodeToString(sum.Sum(nil))
	if name != "kubelet" {
		text += "  " + name
	}
	_, err2 := fmt.Fprintln(w, text)
	return errors.Join(err, err2)
}
