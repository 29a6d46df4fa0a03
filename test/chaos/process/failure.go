package process

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/drover-project/drover/test/chaos/calls"
	"github.com/drover-project/drover/test/chaos/schedule"
)

// scope is the set of later calls that a lasting failure applies to.
type scope int

const (
	// sameCall selects calls of the same name.
	sameCall scope = iota
	// sameService selects calls to the same API.
	sameService
	// wholeCloud selects all calls to the cloud.
	wholeCloud
)

// Failure is a way in which a call fails.
type Failure struct {
	Name string
	// Lasting is true when calls fail until Failing.Heal is called.
	Lasting bool
	// Cause is a regular expression that a condition or Event must match during a lasting failure. It is empty if none
	// is expected.
	Cause string
	// Rest is how much longer than other failures this one may delay the end of a run, for example because of a
	// Retry-After header.
	Rest  time.Duration
	scope scope
	// fits reports whether a call with this name can fail in this way.
	fits   func(name string) bool
	answer func(call) (*http.Response, error)
}

// Fits reports whether a call with this name can fail in this way.
func (f *Failure) Fits(name string) bool { return f.fits(name) }

// call is a call that is about to fail.
type call struct {
	request *http.Request
	name    string
	// carryOut sends the call to its service.
	carryOut func() (*http.Response, error)
}

// noDeadline is how long a call may hang before the test concludes that it has no deadline.
const noDeadline = 20 * time.Minute

// refuse returns the error of a connection to a port on which no process listens.
func refuse(call) (*http.Response, error) {
	return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: address, Err: syscall.ECONNREFUSED}
}

// address is the address in the errors of simulated connections.
var address = &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 443}

// reset returns the error of a connection that breaks before the response.
func reset(call) (*http.Response, error) {
	return nil, &net.OpError{Op: "read", Net: "tcp", Addr: address, Err: syscall.ECONNRESET}
}

// carriedOut returns a failure that first sends the call to its service, drops the response, and then fails as fail does.
func carriedOut(fail func(call) (*http.Response, error)) func(call) (*http.Response, error) {
	return func(c call) (*http.Response, error) {
		if resp, err := c.carryOut(); err == nil {
			_ = resp.Body.Close()
		}
		return fail(c)
	}
}

// hang blocks until the client's deadline.
func hang(c call) (*http.Response, error) {
	if schedule.Sleep(c.request.Context(), noDeadline) {
		return nil, errors.New("the call has no deadline")
	}
	return nil, c.request.Context().Err()
}

// pinged blocks, and then returns the error of client-go for a connection on which HTTP/2 pings stay unanswered.
func pinged(c call) (*http.Response, error) {
	if !schedule.Sleep(c.request.Context(), 45*time.Second) {
		return nil, c.request.Context().Err()
	}
	return nil, errors.New("http2: client connection lost")
}

// reply returns a response with a status, a body, and header fields given as pairs.
func reply(status int, body string, header ...string) func(call) (*http.Response, error) {
	return func(c call) (*http.Response, error) {
		h := http.Header{"Date": {time.Now().UTC().Format(http.TimeFormat)}}
		for pair := range slices.Chunk(header, 2) {
			h.Set(pair[0], pair[1])
		}
		return response(c, status, h, io.NopCloser(strings.NewReader(body)), int64(len(body))), nil
	}
}

func response(c call, status int, h http.Header, body io.ReadCloser, length int64) *http.Response {
	return &http.Response{
		Status: fmt.Sprintf("%d %s", status, http.StatusText(status)), StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: h, Body: body, ContentLength: length, Request: c.request,
	}
}

// edited sends the call to its service and changes the body of the response. The response then has no Content-Length.
func edited(edit func(body []byte) io.Reader) func(call) (*http.Response, error) {
	return func(c call) (*http.Response, error) {
		resp, err := c.carryOut()
		if err != nil {
			return nil, err
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil {
			return nil, err
		}
		resp.Body, resp.ContentLength = io.NopCloser(edit(body)), -1
		resp.Header.Del("Content-Length")
		return resp, nil
	}
}

// cut sends the call to its service and ends the body of the response immediately.
func cut(c call) (*http.Response, error) {
	resp, err := c.carryOut()
	if err == nil {
		_ = resp.Body.Close()
		resp.Body = io.NopCloser(failingReader{})
	}
	return resp, err
}

// broken returns the first half of a body followed by an error.
func broken(body []byte) io.Reader {
	return io.MultiReader(bytes.NewReader(body[:len(body)/2]), failingReader{})
}

type failingReader struct{}

// Read returns io.ErrUnexpectedEOF, as a connection does that is closed before the response is complete.
func (failingReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// endless returns a body that is longer than any client should read.
func endless(body []byte) io.Reader {
	return io.MultiReader(bytes.NewReader(body[:len(body)/2]), io.LimitReader(spaces{}, 1<<40))
}

type spaces struct{}

// Read fills p with spaces.
func (spaces) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

// htmlPage returns the response of a proxy in front of a service that it cannot reach.
func htmlPage(status int) func(call) (*http.Response, error) {
	page := fmt.Sprintf("<html><head><title>%d</title></head><body><h1>%d %s</h1>nginx</body></html>", status, status, http.StatusText(status))
	return reply(status, page, "Content-Type", "text/html")
}

// inCloud and inKube report whether the named call goes to the cloud, or to Kubernetes without being a watch.
func inCloud(name string) bool { return !calls.IsKube(name) }

func inKube(name string) bool { return calls.IsKube(name) && !calls.IsWatch(name) }

// answersWithBody reports whether the response to the named call has a body.
func answersWithBody(name string) bool {
	return inCloud(name) && !strings.HasPrefix(name, "cloud DELETE ")
}
