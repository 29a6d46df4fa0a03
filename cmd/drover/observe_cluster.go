package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// errObserving is the answer to a write that another program requests in --observe mode, such as an increase by the autoscaler.
var errObserving = errors.New("drover only observes (--observe): nothing is changed")

// mostDetail bounds the recorded detail of a write, in bytes.
const mostDetail = 1024

// observedManager is a manager whose clients write nothing.
type observedManager struct {
	manager.Manager
	client observedClient
}

// observing returns the manager with clients that write nothing. answer is the error that a write returns.
func observing(mgr manager.Manager, o *observer, answer error) manager.Manager {
	return observedManager{mgr, observedClient{mgr.GetClient(), o, answer}}
}

// GetClient returns the client that writes nothing.
func (m observedManager) GetClient() client.Client { return m.client }

// observedTarget is the target cluster with clients that write nothing.
type observedTarget struct {
	cluster.Cluster
	client observedClient
}

// GetClient returns the client that writes nothing.
func (t observedTarget) GetClient() client.Client { return t.client }

// observedClient reads and does not write. A write returns success, so that drover also makes the decisions that follow from
// the write.
type observedClient struct {
	client.Client
	observer *observer
	answer   error
}

func (c observedClient) note(verb string, o client.Object, detail string) error {
	if _, secret := o.(*corev1.Secret); secret {
		detail = ""
	}
	c.observer.note("kubernetes", verb, nameOf(o), detail[:min(len(detail), mostDetail)])
	return c.answer
}

// Create changes nothing. Only access reviews are sent, because they are queries in the form of a creation.
func (c observedClient) Create(ctx context.Context, o client.Object, options ...client.CreateOption) error {
	if _, question := o.(*authorizationv1.SubjectAccessReview); question {
		return c.Client.Create(ctx, o, options...)
	}
	return c.note("create", o, "")
}

// Update changes nothing.
func (c observedClient) Update(_ context.Context, o client.Object, _ ...client.UpdateOption) error {
	return c.note("update", o, "")
}

// Delete changes nothing.
func (c observedClient) Delete(_ context.Context, o client.Object, _ ...client.DeleteOption) error {
	return c.note("delete", o, "")
}

// DeleteAllOf changes nothing.
func (c observedClient) DeleteAllOf(_ context.Context, o client.Object, _ ...client.DeleteAllOfOption) error {
	return c.note("deletecollection", o, "")
}

// Patch changes nothing.
func (c observedClient) Patch(_ context.Context, o client.Object, p client.Patch, _ ...client.PatchOption) error {
	return c.note("patch", o, dataOf(p, o))
}

// Apply changes nothing.
func (c observedClient) Apply(_ context.Context, o runtime.ApplyConfiguration, _ ...client.ApplyOption) error {
	return c.apply("apply", o)
}

func (c observedClient) apply(verb string, configuration runtime.ApplyConfiguration) error {
	raw, err := json.Marshal(configuration)
	if err != nil {
		return fmt.Errorf("encoding what is applied: %w", err)
	}
	u := &unstructured.Unstructured{}
	if err := json.Unmarshal(raw, &u.Object); err != nil {
		return fmt.Errorf("reading what is applied: %w", err)
	}
	return c.note(verb, u, string(raw))
}

// Status returns a status writer that writes nothing.
func (c observedClient) Status() client.SubResourceWriter { return observedPart{c, "status"} }

// SubResource returns a client of subresources that writes nothing.
func (c observedClient) SubResource(name string) client.SubResourceClient {
	return observedReadable{observedPart{c, name}, c.Client.SubResource(name)}
}

// observedPart is a client of a subresource that writes nothing.
type observedPart struct {
	client observedClient
	name   string
}

// observedReadable is an observedPart that can also read.
type observedReadable struct {
	observedPart
	client.SubResourceReader
}

// Create changes nothing.
func (p observedPart) Create(_ context.Context, o, _ client.Object, _ ...client.SubResourceCreateOption) error {
	return p.client.note("create "+p.name, o, "")
}

// Update changes nothing.
func (p observedPart) Update(_ context.Context, o client.Object, _ ...client.SubResourceUpdateOption) error {
	return p.client.note("update "+p.name, o, "")
}

// Patch changes nothing.
func (p observedPart) Patch(_ context.Context, o client.Object, patch client.Patch, _ ...client.SubResourcePatchOption) error {
	return p.client.note("patch "+p.name, o, dataOf(patch, o))
}

// Apply changes nothing.
func (p observedPart) Apply(_ context.Context, o runtime.ApplyConfiguration, _ ...client.SubResourceApplyOption) error {
	return p.client.apply("apply "+p.name, o)
}

func dataOf(p client.Patch, o client.Object) string {
	data, err := p.Data(o)
	if err != nil {
		return "unreadable: " + err.Error()
	}
	return string(data)
}

// nameOf returns an object's name for users: kind namespace/name.
func nameOf(o client.Object) string {
	kind := o.GetObjectKind().GroupVersionKind().Kind
	if kind == "" {
		kind = strings.TrimPrefix(fmt.Sprintf("%T", o), "*")
		kind = kind[strings.LastIndexByte(kind, '.')+1:]
	}
	name := o.GetName()
	if name == "" {
		name = o.GetGenerateName() + "*"
	}
	if o.GetNamespace() != "" {
		name = o.GetNamespace() + "/" + name
	}
	return kind + " " + name
}

// refusing is a RoundTripper that refuses every write to the API server. It catches the writes of clients that observedManager
// and observedTarget do not cover. It answers Events as if the API server had accepted them.
type refusing struct {
	next     http.RoundTripper
	observer *observer
}

// RoundTrip refuses requests that would change something.
func (r refusing) RoundTrip(req *http.Request) (*http.Response, error) {
	question := req.Method == http.MethodPost && strings.HasPrefix(req.URL.Path, "/apis/authorization.k8s.io/")
	switch {
	case req.Method == http.MethodGet, req.Method == http.MethodHead, question:
		return r.next.RoundTrip(req)
	case strings.HasPrefix(req.URL.Path, "/apis/events.k8s.io/"), strings.HasSuffix(req.URL.Path, "/events"):
		return r.takeEvent(req)
	}
	return nil, fmt.Errorf("%s %s: %w", req.Method, req.URL.Path, errObserving)
}

// takeEvent records an Event and answers as the API server would.
func (r refusing) takeEvent(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, fmt.Errorf("reading an Event: %w", err)
	}
	var event eventsv1.Event
	if json.Unmarshal(body, &event) == nil && event.Regarding.Name != "" {
		about := event.Regarding
		r.observer.note("kubernetes", "event", about.Kind+" "+about.Namespace+"/"+about.Name, event.Reason+": "+event.Note)
	}
	return &http.Response{
		Status: "201 Created", StatusCode: http.StatusCreated, Proto: req.Proto, ProtoMajor: 1, ProtoMinor: 1, Request: req,
		Header: http.Header{"Content-Type": req.Header["Content-Type"]}, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
	}, nil
}

// dryClient is the client that determines the cluster id without storing it.
type dryClient struct{ client.Client }

// Create changes nothing. It returns AlreadyExists when the object exists, like a real client.
func (c dryClient) Create(ctx context.Context, o client.Object, _ ...client.CreateOption) error {
	stored := &corev1.ConfigMap{}
	err := c.Get(ctx, client.ObjectKeyFromObject(o), stored)
	if err == nil {
		return apierrors.NewAlreadyExists(corev1.Resource("configmaps"), o.GetName())
	}
	return client.IgnoreNotFound(err)
}
