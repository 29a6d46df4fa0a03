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

// scope says which later calls a lasting failure has fail as well.
type scope int

const (
	// sameCall: calls of the same name.
	sameCall scope = iota
	// sameService: calls to the same API.
	sameService
	// wholeCloud: all calls to the cloud.
	wholeCloud
)

// Failure is a way in which a call fails.
type Failure struct {
	Name string
	// Lasting: it goes on until Failing.Heal.
	Lasting bool
	// Cause is a regular expression that a text for people matches while a lasting failure goes on.
	Cause string
	// Rest is how much longer than others the failure may keep a run from its end: as long as the answer asks for, for instance.
	Rest  time.Duration
	scope scope
	// fits reports whether the call of that name can fail like this.
	fits   func(name string) bool
	answer func(call) (*http.Response, error)
}

// Fits reports whether the call of that name can fail like this.
func (f *Failure) Fits(name string) bool { return f.fits(name) }

// call is a call that fails.
type call struct {
	request *http.Request
	name    string
	// carryOut makes the call after all.
	carryOut func() (*http.Response, error)
}

// noDeadline is how long a call hangs before the test takes it for one without a deadline.
const noDeadline = 20 * time.Minute

// refuse is what a client sees when nobody listens.
func refuse(call) (*http.Response, error) {
	return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: address, Err: syscall.ECONNREFUSED}
}

// address is where the calls of the simulated services go.
var address = &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 443}

// reset is what a client sees when a connection breaks before the answer.
func reset(call) (*http.Response, error) {
	return nil, &net.OpError{Op: "read", Net: "tcp", Addr: address, Err: syscall.ECONNRESET}
}

// carriedOut carries a call out before it fails.
func carriedOut(fail func(call) (*http.Response, error)) func(call) (*http.Response, error) {
	return func(c call) (*http.Response, error) {
		if resp, err := c.carryOut(); err == nil {
			_ = resp.Body.Close()
		}
		return fail(c)
	}
}

// hang never answers. The client's deadline ends it.
func hang(c call) (*http.Response, error) {
	if schedule.Sleep(c.request.Context(), noDeadline) {
		return nil, errors.New("the call has no deadline")
	}
	return nil, c.request.Context().Err()
}

// pinged is what a client of Kubernetes sees of a connection on which nothing comes: HTTP/2 pings it and closes it.
func pinged(c call) (*http.Response, error) {
	if !schedule.Sleep(c.request.Context(), 45*time.Second) {
		return nil, c.request.Context().Err()
	}
	return nil, errors.New("http2: client connection lost")
}

// reply answers with a status, header fields in pairs, and a body.
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

// edited carries a call out and changes the body of its answer. The length is not said then.
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

// cut carries a call out, and ends the body of its answer at once.
func cut(c call) (*http.Response, error) {
	resp, err := c.carryOut()
	if err == nil {
		_ = resp.Body.Close()
		resp.Body = io.NopCloser(failingReader{})
	}
	return resp, err
}

// broken ends a body half way.
func broken(body []byte) io.Reader {
	return io.MultiReader(bytes.NewReader(body[:len(body)/2]), failingReader{})
}

type failingReader struct{}

// Read fails as a connection does that is closed before its answer is complete.
func (failingReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// endless is a body that goes on for longer than anybody should read.
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

// htmlPage is what a proxy says in the place of a service.
func htmlPage(status int) func(call) (*http.Response, error) {
	page := fmt.Sprintf("<html><head><title>%d</title></head><body><h1>%d %s</h1>nginx</body></html>", status, status, http.StatusText(status))
	return reply(status, page, "Content-Type", "text/html")
}

// inCloud and inKube report where a call goes.
func inCloud(name string) bool { return !calls.IsKube(name) }

func inKube(name string) bool { return calls.IsKube(name) && !calls.IsWatch(name) }

// answersWithBody reports whether the call of that name is answered with a body.
func answersWithBody(name string) bool {
	return inCloud(name) && !strings.HasPrefix(name, "cloud DELETE ")
}
