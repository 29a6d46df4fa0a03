package main

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// checkNamespaces returns an error for each name that is not a valid name of a namespace. The error names the flag.
func checkNamespaces(flag string, names ...string) error {
	var errs []error
	for _, name := range names {
		if wrong := validation.IsDNS1123Label(name); len(wrong) > 0 {
			errs = append(errs, fmt.Errorf("%s %q is not the name of a namespace: %s", flag, name, wrong[0]))
		}
	}
	return errors.Join(errs...)
}

// checkKey returns an error when text is not a qualified name. Keys of labels and taints, types of conditions and names of
// resources are such names. The error names the flag and states what the text should be.
func checkKey(flag, what, text string) error {
	if wrong := validation.IsQualifiedName(text); len(wrong) > 0 {
		return fmt.Errorf("%s %q is not %s: %s", flag, text, what, strings.Join(wrong, "; "))
	}
	return nil
}

// checkListen returns an error when address is neither "0", which turns the listener off, nor host:port.
func checkListen(flag, address string) error {
	if address == "0" {
		return nil
	}
	_, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return fmt.Errorf("%s %q is neither host:port nor 0, which turns it off", flag, address)
	}
	return nil
}

// checkServerURL returns an error when text is not the URL of an API server: https and a host, without a path or anything
// else.
func checkServerURL(flag, text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" || u.Hostname() == "" || u.User != nil || strings.Trim(u.Path, "/")+u.RawQuery+u.Fragment != "" {
		return fmt.Errorf("%s %q is not the URL of an API server, such as https://api.example.com:6443", flag, text)
	}
	return nil
}

// readCertificates returns the content of a PEM file that holds at least one certificate. The error names the flag.
func readCertificates(flag, path string) ([]byte, error) {
	pem, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", flag, err)
	}
	if !x509.NewCertPool().AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s %s: the file holds no certificate in PEM form", flag, path)
	}
	return pem, nil
}
