package client

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"

	"github.com/drover-project/drover/machines/fault"
)

const (
	// mostObject is the maximum size of a response body, in bytes, decompressed. A token with the catalog of a large cloud has
	// about 100 KiB, and no single object is larger.
	mostObject = 4 << 20
	// mostList is the maximum size of all pages of a list together, in bytes: 20 000 servers of 3 KiB each.
	mostList = 64 << 20
	// mostValues is the maximum number of values of a list, counted by the characters that begin one: a comma, a bracket, a brace. A
	// server of Nova's has about 70. In memory, a value of two characters may take 32 bytes.
	mostValues = 2_000_000
)

// rest is what may still be read of a list. Without a limit, a list whose pages never end would exhaust the memory. The pages must be read
// one after the other.
type rest struct{ bytes, values int }

type restKey struct{}

// withRest returns a context for a request whose response is a page of a list.
func withRest(ctx context.Context, of *rest) context.Context {
	return context.WithValue(ctx, restKey{}, of)
}

// bound limits the size of a response body: a Read beyond the limit returns an error.
func bound(req *http.Request, resp *http.Response) error {
	body := &boundedBody{ReadCloser: resp.Body, url: req.URL, limit: mostObject, left: mostObject}
	if list, _ := req.Context().Value(restKey{}).(*rest); list != nil && serviceOf(req) != Identity && resp.StatusCode == http.StatusOK {
		body.list, body.limit, body.left = list, mostList, list.bytes
	}
	if resp.ContentLength > int64(body.left) {
		_ = resp.Body.Close()
		return body.tooLarge()
	}
	resp.Body = body
	return nil
}

type boundedBody struct {
	io.ReadCloser
	url         *url.URL
	limit, left int
	// list is what may still be read of the list to which this page belongs; nil for a body that is not a page of a list.
	list *rest
}

// Read reads at most the remaining size. It returns an error if the body has more.
func (b *boundedBody) Read(into []byte) (int, error) {
	if b.left < 0 {
		return 0, b.tooLarge()
	}
	if len(into) > b.left+1 {
		into = into[:b.left+1]
	}
	n, err := b.ReadCloser.Read(into)
	b.left -= n
	if b.list != nil {
		b.list.bytes = b.left
		for _, begin := range []string{",", "[", "{"} {
			b.list.values -= bytes.Count(into[:n], []byte(begin))
		}
		if b.list.values < 0 {
			return 0, foreign("%s sent a list of more than %d values, which drover does not read to its end", b.url.Host, mostValues)
		}
	}
	if b.left < 0 {
		return n - 1, b.tooLarge()
	}
	if err != nil && !errors.Is(err, io.EOF) {
		err = &url.Error{Op: "reading", URL: b.url.String(), Err: err}
	}
	return n, err
}

func (b *boundedBody) tooLarge() error {
	return foreign("%s sent an answer of more than %d MiB, which drover does not read to its end", b.url.Host, b.limit>>20)
}

// foreign returns the error for a response that no OpenStack service sends: it came from something between drover and the cloud, or
// from something that answers instead of the cloud. Whether the request was carried out is unknown.
func foreign(format string, args ...any) *fault.Error {
	return fault.New(fault.Transient, fault.CodeForeignAnswer, format, args...)
}

// noRedirect refuses to follow a redirect: OpenStack's APIs send none, and the target of a redirect is not a URL that an operator
// has allowed.
func noRedirect(next *http.Request, via []*http.Request) error {
	asked := via[len(via)-1].URL
	if next.URL.Scheme == "https" && asked.Scheme == "http" && next.URL.Hostname() == asked.Hostname() {
		return foreign("http://%s redirects to https, and drover follows no redirect; use https:// in identityEndpoint", asked.Host)
	}
	return foreign("%s answered with a redirect, which drover does not follow", asked.Host)
}
