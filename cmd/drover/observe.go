package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/nodegroup/model"
)

const (
	// mostDecisions bounds how many different decisions an observer keeps. When there are more, it drops the oldest first.
	mostDecisions = 1000
	// mostDetail bounds the recorded detail of a write, in bytes.
	mostDetail = 1024
)

// decision is an action that drover would have taken.
type decision struct {
	// Where is the API of the action: kubernetes or openstack.
	Where string `json:"where"`
	// Verb is the API's verb of the action, and Object is its object.
	Verb   string `json:"verb"`
	Object string `json:"object"`
	// Detail is what would have been written, without secrets.
	Detail string `json:"detail,omitempty"`
	// First and Last are when drover made this decision for the first and the last time. Count is how many times drover made it.
	First time.Time `json:"first"`
	Last  time.Time `json:"last"`
	Count int       `json:"count"`
}

// observer is observe mode: it lets no request that would change something leave the process, and records each as a decision. Each decision
// is logged at its first occurrence, and all decisions are served over HTTP. A nil observer changes nothing.
type observer struct {
	clock clock.PassiveClock
	log   logr.Logger
	// kinds holds the kind of each resource of the API server.
	kinds map[string]string

	mu        sync.Mutex
	decisions []decision
}

// newObserver returns an observer in observe mode, or else nil.
func newObserver(o *options) *observer {
	if !o.observe {
		return nil
	}
	w := &observer{clock: clock.RealClock{}, log: ctrl.Log.WithName("observe"), kinds: map[string]string{}}
	for kind := range knownKinds().AllKnownTypes() {
		resource, _ := meta.UnsafeGuessKindToResource(kind)
		w.kinds[resource.Resource] = kind.Kind
	}
	return w
}

// kubernetes makes clients with this configuration send no write to the API server.
func (o *observer) kubernetes(config *rest.Config) {
	if o != nil {
		config.Wrap(func(next http.RoundTripper) http.RoundTripper { return observed{next, o} })
	}
}

// newClient returns a client that leaves the object of a patch as its caller has changed it. A plain client would empty the object, because
// the answer is not the object.
func (o *observer) newClient(config *rest.Config, options client.Options) (client.Client, error) {
	c, err := client.New(config, options)
	if o == nil || err != nil {
		return c, err
	}
	return patchesCopies{c}, nil
}

type patchesCopies struct{ client.Client }

// Patch patches a copy of the object.
func (c patchesCopies) Patch(ctx context.Context, o client.Object, p client.Patch, options ...client.PatchOption) error {
	return c.Client.Patch(ctx, o.DeepCopyObject().(client.Object), p, options...)
}

// openStack returns the function that records the writes that the client of OpenStack does not send; nil outside of observe mode.
func (o *observer) openStack() func(*http.Request) {
	if o == nil {
		return nil
	}
	return func(req *http.Request) {
		body, _ := contentOf(req)
		// The body of a new resource has one key, under which the resource has its name. The key of an action is the action.
		var content map[string]struct {
			Name string `json:"name"`
		}
		_ = json.Unmarshal(body, &content) // keys with another content have no name
		var detail []string
		for _, key := range slices.Sorted(maps.Keys(content)) {
			detail = append(detail, strings.TrimSpace(key+" "+content[key].Name))
		}
		o.note("openstack", req.Method, req.URL.Path, strings.Join(detail, ", "))
	}
}

// contentOf reads the body of a request.
func contentOf(req *http.Request) ([]byte, error) {
	if req.Body == nil {
		return nil, nil
	}
	defer func() { _ = req.Body.Close() }()
	return io.ReadAll(req.Body)
}

// observed is a RoundTripper that sends only reads to the API server. It answers a write as if the API server had accepted it and changed
// nothing else, so that drover also makes the decisions that follow from the write.
type observed struct {
	next     http.RoundTripper
	observer *observer
}

// RoundTrip sends reads. It sends access reviews too: they are POST requests that change nothing. It records all other requests as writes, and
// answers them itself. It refuses the autoscaler's requests to resize a group, because no controller would create the Machines.
func (t observed) RoundTrip(req *http.Request) (*http.Response, error) {
	at := pathOf(req.URL.Path)
	if req.Method == http.MethodGet || req.Method == http.MethodHead || at.group == "authorization.k8s.io" {
		return t.next.RoundTrip(req)
	}
	body, err := contentOf(req)
	if err != nil {
		return nil, err
	}
	t.observer.noteWrite(req, at, body)
	answer := metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess, Code: http.StatusOK}
	if req.URL.Query().Get("fieldManager") == model.Manager {
		answer.Status, answer.Code, answer.Reason = metav1.StatusFailure, http.StatusForbidden, metav1.StatusReasonForbidden
		answer.Message = "drover only observes (--observe): nothing is changed"
	}
	contentType := req.Header.Get("Content-Type")
	if answer.Code != http.StatusOK || req.Method != http.MethodPost && req.Method != http.MethodPut {
		contentType = "application/json"
		if body, err = json.Marshal(answer); err != nil {
			return nil, err
		}
	}
	return &http.Response{
		Status: http.StatusText(int(answer.Code)), StatusCode: int(answer.Code), Proto: req.Proto, ProtoMajor: 1, ProtoMinor: 1, Request: req,
		Header: http.Header{"Content-Type": {contentType}}, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
	}, nil
}

// apiPath is the path of an object or of a list of objects at an API server, behind any path at which the API server itself is.
var apiPath = regexp.MustCompile(`/(?:api|apis/([^/]+))/v[^/]+/(?:namespaces/([^/]+)/)?([^/]+)(?:/([^/]+))?(?:/([^/]+))?$`)

// place is what the path of a request names.
type place struct{ group, namespace, resource, name, part string }

func pathOf(path string) place {
	found := apiPath.FindStringSubmatch(path)
	if found == nil {
		return place{resource: path}
	}
	return place{found[1], found[2], found[3], found[4], found[5]}
}

// noteWrite records a request that would change an object of Kubernetes. An Event is recorded under the object that it is about.
func (o *observer) noteWrite(req *http.Request, at place, body []byte) {
	if at.resource == "events" {
		var event eventsv1.Event
		if json.Unmarshal(body, &event) == nil && event.Regarding.Name != "" {
			about := event.Regarding
			o.note("kubernetes", "event", about.Kind+" "+about.Namespace+"/"+about.Name, event.Reason+": "+event.Note)
		}
		return
	}
	verb := strings.ToLower(req.Method)
	switch {
	case req.Method == http.MethodPost:
		verb = "create"
	case req.Method == http.MethodPut:
		verb = "update"
	case strings.HasPrefix(req.Header.Get("Content-Type"), "application/apply-patch"):
		verb = "apply"
	}
	name, detail := at.name, ""
	if name == "" {
		name = newName(body)
	}
	if at.namespace != "" {
		name = at.namespace + "/" + name
	}
	if req.Method == http.MethodPatch && at.resource != "secrets" {
		detail = string(body[:min(len(body), mostDetail)])
	}
	kind := o.kinds[at.resource]
	if kind == "" {
		kind = at.resource
	}
	o.note("kubernetes", strings.TrimSpace(verb+" "+at.part), kind+" "+name, detail)
}

// newName returns the name of an object that would be created. body is the object as sent, in any form.
func newName(body []byte) string {
	o, _, err := serializer.NewCodecFactory(knownKinds()).UniversalDeserializer().Decode(body, nil, nil)
	if err != nil {
		return ""
	}
	object, err := meta.Accessor(o)
	switch {
	case err != nil:
		return ""
	case object.GetName() == "":
		return object.GetGenerateName() + "*"
	}
	return object.GetName()
}

// note records one decision.
func (o *observer) note(where, verb, object, detail string) {
	now := o.clock.Now()
	o.mu.Lock()
	at := slices.IndexFunc(o.decisions, func(d decision) bool {
		return d.Where == where && d.Verb == verb && d.Object == object && d.Detail == detail
	})
	if at >= 0 {
		o.decisions[at].Last = now
		o.decisions[at].Count++
	} else {
		o.decisions = append(o.decisions, decision{Where: where, Verb: verb, Object: object, Detail: detail, First: now, Last: now, Count: 1})
		o.decisions = o.decisions[max(0, len(o.decisions)-mostDecisions):]
	}
	o.mu.Unlock()
	if at < 0 {
		o.log.Info("Not done, because drover only observes", "where", where, "verb", verb, "object", object, "detail", detail)
	}
}

// ServeHTTP writes all decisions as JSON, in the order of their first occurrence.
func (o *observer) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	o.mu.Lock()
	all := slices.Clone(o.decisions)
	o.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(map[string]any{"observing": true, "decisions": all}); err != nil {
		o.log.Info("Sending the page /observe failed", "cause", err.Error())
	}
}
