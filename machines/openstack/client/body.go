package client

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"sync/atomic"

	"github.com/drover-project/drover/machines/fault"
)

const (
	// mostObject bounds the body of an answer, in bytes, decompressed: a token with the catalog of a large cloud has some
	// 100 KiB, and no single object has more.
	mostObject = 4 << 20
	// mostPage bounds a page of a list: Nova sends at most 1000 servers, each with up to 128 items of metadata of 510 bytes,
	// which is some 64 KiB a server.
	mostPage = 64 << 20
	// mostList bounds the bodies of all pages of a list together, in bytes: 20 000 servers of 3 KiB each.
	mostList = mostPage
	// MaxRows bounds the rows of a list.
	MaxRows = 50_000
)

type listKey struct{}

// ForList returns a context for the pages of one list, whose bodies are bounded together: otherwise a list that links to a next
// page for ever fills the memory.
func ForList(ctx context.Context) context.Context {
	left := new(atomic.Int64)
	left.Store(mostList)
	return context.WithValue(ctx, listKey{}, left)
}

// TooLong returns the error about a list of more than [MaxRows] rows; nil for a shorter one.
func TooLong(rows int) error {
	if rows <= MaxRows {
		return nil
	}
	return foreign("the list has more than %d rows, which drover does not read to their end", MaxRows)
}

type pageKey struct{}

// withPage marks the calls under ctx as those for pages of lists.
func withPage(ctx context.Context) context.Context { return context.WithValue(ctx, pageKey{}, true) }

// bound replaces the body of an answer by one that ends with an error beyond its bound.
func bound(req *http.Request, resp *http.Response) error {
	limit, list := int64(mostObject), (*atomic.Int64)(nil)
	if page, _ := req.Context().Value(pageKey{}).(bool); page && serviceOf(req) != Identity && resp.StatusCode == http.StatusOK {
		limit = mostPage
		list, _ = req.Context().Value(listKey{}).(*atomic.Int64)
	}
	left := limit
	if list != nil {
		left = min(limit, list.Load())
	}
	body := &boundedBody{ReadCloser: resp.Body, url: req.URL, limit: limit, left: left, list: list}
	if resp.ContentLength > left {
		_ = resp.Body.Close()
		return body.tooLarge()
	}
	resp.Body = body
	return nil
}

type boundedBody struct {
	io.ReadCloser
	url         *url.URL
	limit, left int64
	// list is what is left of the bound of the list that the body is a page of; nil: it is none.
	list *atomic.Int64
}

// Read reads at most what is left of the bound. One byte more is an error.
func (b *boundedBody) Read(into []byte) (int, error) {
	if b.left < 0 {
		return 0, b.tooLarge()
	}
	if int64(len(into)) > b.left+1 {
		into = into[:b.left+1]
	}
	n, err := b.ReadCloser.Read(into)
	if b.list != nil {
		b.list.Add(-int64(n))
	}
	if b.left -= int64(n); b.left < 0 {
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

// foreign returns the error about an answer that no OpenStack service gives: something else stands between drover and the cloud,
// or in its place. Whether a request was carried out is not known then.
func foreign(format string, args ...any) *fault.Error {
	return fault.New(fault.Transient, fault.CodeForeignAnswer, format, args...)
}

// noRedirect refuses to follow a redirect: OpenStack's APIs send none, and the URL to which one leads is nobody's choice.
func noRedirect(next *http.Request, via []*http.Request) error {
	asked := via[len(via)-1].URL
	if next.URL.Scheme == "https" && asked.Scheme == "http" && next.URL.Hostname() == asked.Hostname() {
		return foreign("http://%s redirects to https, and drover follows no redirect; write https:// in identityEndpoint", asked.Host)
	}
	return foreign("%s answered with a redirect, which drover does not follow", asked.Host)
}
