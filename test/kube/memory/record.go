package memory

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	structuralpruning "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

// object is an API object as it travels.
type object = unstructured.Unstructured

// record is one stored state of an object. It does not change.
type record struct {
	object *object
	raw    []byte
	// partial is its metadata alone, once somebody has asked for that. The server's lock guards it.
	partial  []byte
	revision uint64
}

// event is one thing that happened to an object. object is its last state when it is gone.
type event struct {
	record   *record
	previous *record
	gone     bool
	at       time.Time
}

func key(namespace, name string) string { return namespace + "/" + name }

// find gives the object that a request names.
func (s *Server) find(q *request) (*record, error) {
	r, ok := s.stores[q.kind].records[key(q.namespace, q.name)]
	if !ok {
		return nil, apierrors.NewNotFound(q.kind.resource(), q.name)
	}
	return r, nil
}

func (s *Server) get(q *request) ([]byte, error) {
	r, err := s.find(q)
	if err != nil {
		return nil, err
	}
	return q.shown(r)
}

// keep stores a state of an object under the next revision, and shows it to those who watch.
func (s *Server) keep(k *kind, o *object) (*record, error) {
	return s.happen(k, o, false)
}

// drop takes an object away; what is told of it is its last state under a revision of its own.
func (s *Server) drop(k *kind, o *object) error {
	if _, err := s.happen(k, o, true); err != nil {
		return err
	}
	s.orphaned(o.GetUID())
	for _, ref := range o.GetOwnerReferences() {
		s.soon(func() { s.released(ref.UID) })
	}
	return nil
}

func (s *Server) happen(k *kind, o *object, gone bool) (*record, error) {
	s.revision++
	o.SetResourceVersion(strconv.FormatUint(s.revision, 10))
	raw, err := json.Marshal(o.Object)
	if err != nil {
		return nil, err
	}
	r := &record{object: o, raw: raw, revision: s.revision}
	st, id := s.stores[k], key(o.GetNamespace(), o.GetName())
	e := event{record: r, previous: st.records[id], gone: gone, at: time.Now()}
	if gone {
		delete(st.records, id)
	} else {
		st.records[id] = r
	}
	st.events = append(st.events, e)
	for w := range s.watches {
		if w.kind == k {
			w.ring()
		}
	}
	return r, nil
}

// read makes an object out of what a client sent. Built-in kinds go through their Go types, as in the real server;
// custom ones are pruned by their schema.
func (k *kind) read(body []byte) (*object, error) {
	if len(bytes.TrimSpace(body)) > 0 && bytes.TrimSpace(body)[0] != '{' {
		converted, err := yaml.YAMLToJSON(body)
		if err != nil {
			return nil, apierrors.NewBadRequest("error decoding YAML: " + err.Error())
		}
		body = converted
	}
	content := map[string]any{}
	if err := utiljson.Unmarshal(body, &content); err != nil {
		return nil, apierrors.NewBadRequest("couldn't get version/kind; json parse error: " + err.Error())
	}
	return k.take(content)
}

// take makes an object out of its content.
func (k *kind) take(content map[string]any) (*object, error) {
	o := &object{Object: content}
	if got := o.GroupVersionKind(); got.Kind != "" && got != k.GroupVersionKind {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the object provided is unrecognized: %s in the place of %s", got, k.GroupVersionKind))
	}
	o.SetGroupVersionKind(k.GroupVersionKind)
	return o, nil
}

// blank is an object of the kind that says nothing yet.
func (k *kind) blank() (*object, error) {
	o := &object{}
	o.SetGroupVersionKind(k.GroupVersionKind)
	if k.custom {
		return o, nil
	}
	return k.settle(o)
}

// settle brings an object into the form in which its kind is stored.
func (k *kind) settle(o *object) (*object, error) {
	if k.custom {
		structuralpruning.Prune(o.Object, k.structure, true)
		return o, nil
	}
	typed, err := scheme.Scheme.New(k.GroupVersionKind)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, typed); err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s: %v", k.Kind, k.Version, k.Kind, err))
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	out := &object{Object: content}
	out.SetGroupVersionKind(k.GroupVersionKind)
	return out, nil
}

// nextUID gives UIDs that are the same in every run.
func (s *Server) nextUID() types.UID {
	s.serial++
	return types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012d", s.serial))
}

const suffixLetters = "bcdfghjklmnpqrstvwxz2456789"

// nextName completes metadata.generateName, also the same in every run.
func (s *Server) nextName(prefix string) string {
	s.serial++
	n := s.serial*7919 + 104729*len(suffixLetters)
	var suffix strings.Builder
	for range 5 {
		suffix.WriteByte(suffixLetters[n%len(suffixLetters)])
		n /= len(suffixLetters)
	}
	return prefix + suffix.String()
}

// now is the time as metadata bears it: whole seconds.
func now() metav1.Time { return metav1.NewTime(time.Now().UTC().Truncate(time.Second)) }

// sortedKeys gives the keys of the records in the order of a list.
func (st *store) sortedKeys() []string {
	out := make([]string, 0, len(st.records))
	for id := range st.records {
		out = append(out, id)
	}
	slices.Sort(out)
	return out
}
