package kube

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// Between is a proxy between one client and the API server, and can misbehave as load balancers and proxies do. It signs in to the API server
// as the client, to which it speaks HTTP/1.1 without TLS. All answers are JSON.
type Between struct {
	// Config is the client's configuration.
	Config *rest.Config

	server  *http.Server
	refuses atomic.Pointer[string]
	// Refused counts the requests that were answered with 403 because of Refuse.
	Refused      atomic.Int64
	noBookmarks  atomic.Bool
	keepsBack    atomic.Int64
	toAPI        *httputil.ReverseProxy
	servingEnded chan struct{}
}

// NewBetween starts a Between for the client with the given configuration. The caller closes it.
func NewBetween(client *rest.Config) (*Between, error) {
	to, err := url.Parse(client.Host)
	if err != nil {
		return nil, fmt.Errorf("reading the address of the API server: %w", err)
	}
	transport, err := rest.TransportFor(client)
	if err != nil {
		return nil, fmt.Errorf("making the connection to the API server: %w", err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	b := &Between{Config: &rest.Config{Host: "http://" + listener.Addr().String(), QPS: -1}, servingEnded: make(chan struct{})}
	b.toAPI = &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			// The answers are read line by line, so they must be neither Protobuf nor compressed.
			r.Out.Header.Set("Accept", strings.ReplaceAll(r.Out.Header.Get("Accept"), "application/vnd.kubernetes.protobuf", "application/json"))
			r.Out.Header.Del("Accept-Encoding")
		},
		Transport: transport, FlushInterval: -1, ModifyResponse: b.filter,
	}
	b.server = &http.Server{Handler: b}
	go func() {
		defer close(b.servingEnded)
		_ = b.server.Serve(listener)
	}()
	return b, nil
}

// Close cuts all connections and accepts no more: the client has lost the API server for good.
func (b *Between) Close() error {
	err := b.server.Close()
	<-b.servingEnded
	return err
}

// Refuse makes each request for a resource, such as certificatesigningrequests, be answered like one that RBAC does not allow; "" ends that.
func (b *Between) Refuse(resource string) { b.refuses.Store(&resource) }

// DropBookmarks makes the bookmarks of all watches be dropped from now on.
func (b *Between) DropBookmarks() { b.noBookmarks.Store(true) }

// Buffer makes each watch keep its events back until they have so many bytes, as proxies do that buffer answers; 0 ends that, and the next event
// of a watch then comes with those before it.
func (b *Between) Buffer(bytes int64) { b.keepsBack.Store(bytes) }

// ServeHTTP implements http.Handler.
func (b *Between) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if name := b.refuses.Load(); name != nil && *name != "" && strings.Contains(r.URL.Path+"/", "/"+*name+"/") {
		b.Refused.Add(1)
		refusal := apierrors.NewForbidden(schema.GroupResource{Resource: *name}, "", errors.New("this user cannot list or watch it")).Status()
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		_ = json.NewEncoder(w).Encode(&refusal)
		return
	}
	b.toAPI.ServeHTTP(w, r)
}

// filter makes the events of a watch pass through a watchBody.
func (b *Between) filter(answer *http.Response) error {
	if watch, _ := strconv.ParseBool(answer.Request.URL.Query().Get("watch")); watch {
		answer.Body = &watchBody{between: b, lines: bufio.NewReader(answer.Body), Closer: answer.Body}
	}
	return nil
}

// watchBody is the body of a watch, one event a line, as the Between passes it on.
type watchBody struct {
	between *Between
	lines   *bufio.Reader
	// kept holds the events that are kept back, and left those that are passed on.
	kept, left []byte
	io.Closer
}

// Read implements io.Reader.
func (w *watchBody) Read(into []byte) (int, error) {
	for len(w.left) == 0 {
		line, err := w.lines.ReadBytes('\n')
		if err != nil {
			return copy(into, line), err
		}
		if w.between.noBookmarks.Load() && bytes.HasPrefix(line, []byte(`{"type":"BOOKMARK"`)) {
			continue
		}
		if w.kept = append(w.kept, line...); int64(len(w.kept)) >= w.between.keepsBack.Load() {
			w.left, w.kept = w.kept, nil
		}
	}
	n := copy(into, w.left)
	w.left = w.left[n:]
	return n, nil
}
