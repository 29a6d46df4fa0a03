//go:build cluster

package memory_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// script runs the operations of a case on one server and records the answers, in a form in which both servers' answers can be compared.
type script struct {
	t         testing.TB
	ctx       context.Context
	config    *rest.Config
	client    client.WithWatch
	namespace string
	lines     []string
	// nobody is a transport for requests without an identity. When it is nil, such requests use the configuration without credentials.
	nobody http.RoundTripper
	// seen holds the last resource version of each object, by name.
	seen map[string]string
}

func newScript(t testing.TB, config *rest.Config, mapper meta.RESTMapper, namespace string) *script {
	t.Helper()
	config = rest.CopyConfig(config)
	config.UserAgent = "contract/1"
	c, err := client.NewWithWatch(config, client.Options{Mapper: mapper})
	if err != nil {
		t.Fatal(err)
	}
	s := &script{t: t, ctx: t.Context(), config: config, client: c, namespace: namespace, seen: map[string]string{}}
	if err := c.Create(s.ctx, s.object("v1", "Namespace", namespace, "")); err != nil {
		t.Fatalf("making namespace %s: %v", namespace, err)
	}
	return s
}

func (s *script) say(format string, args ...any) {
	s.lines = append(s.lines, strings.ReplaceAll(fmt.Sprintf(format, args...), s.namespace, "NAMESPACE"))
}

// object returns an object in the case's namespace. rest is the JSON of its other fields.
func (s *script) object(apiVersion, kind, name, rest string) *unstructured.Unstructured {
	s.t.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{}}
	if rest != "" {
		if err := json.Unmarshal([]byte(rest), &o.Object); err != nil {
			s.t.Fatalf("%s: %v", rest, err)
		}
	}
	o.SetAPIVersion(apiVersion)
	o.SetKind(kind)
	o.SetName(name)
	if !slices.Contains([]string{"Namespace", "Node", "CertificateSigningRequest"}, kind) {
		o.SetNamespace(s.namespace)
	}
	return o
}

// answered records the answer to an operation on an object: the error, or the parts of the object that must be equal on both servers.
func (s *script) answered(what string, o *unstructured.Unstructured, err error) {
	if err != nil {
		s.say("%s: %s", what, verdict(err))
		return
	}
	s.say("%s: %s", what, s.digest(o))
}

// verdict returns an error in a form that is the same for both servers: code, reason, and the types of its causes.
func verdict(err error) string {
	status, ok := err.(apierrors.APIStatus)
	if !ok {
		return "error " + err.Error()
	}
	st := status.Status()
	out := fmt.Sprintf("%d %s", st.Code, st.Reason)
	if st.Details != nil {
		// Causes that come from schema validation are left out, because the in-memory server does not validate.
		for _, cause := range st.Details.Causes {
			if cause.Type == "DisruptionBudget" || cause.Type == metav1.CauseTypeFieldManagerConflict {
				out += fmt.Sprintf(" %s(%s)", cause.Type, cause.Field)
			}
		}
	}
	return out
}

// digest returns the parts of an object that must be the same on both servers.
func (s *script) digest(o *unstructured.Unstructured) string {
	name := o.GetKind() + "/" + o.GetName()
	rv := "new"
	if before, ok := s.seen[name]; ok {
		rv = "changed"
		if before == o.GetResourceVersion() {
			rv = "unchanged"
		}
	}
	s.seen[name] = o.GetResourceVersion()
	rest := o.DeepCopy()
	for _, field := range []string{"managedFields", "resourceVersion", "uid", "creationTimestamp", "deletionTimestamp"} {
		unstructured.RemoveNestedField(rest.Object, "metadata", field)
	}
	for _, ref := range rest.GetOwnerReferences() {
		ref.UID = types.UID("of " + ref.Name)
		rest.SetOwnerReferences([]metav1.OwnerReference{ref})
	}
	unstructured.RemoveNestedField(rest.Object, "metadata", "labels", "kubernetes.io/metadata.name")
	raw, err := json.Marshal(rest.Object)
	if err != nil {
		s.t.Fatal(err)
	}
	created := o.GetCreationTimestamp()
	return fmt.Sprintf("version %s, uid %t, created %t, deleting %t, owners [%s]\n    %s",
		rv, o.GetUID() != "", !created.IsZero(), o.GetDeletionTimestamp() != nil, owners(o), raw)
}

// uids matches UIDs, which are different on every server.
var uids = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

// owners returns the field managers of an object, with the fields that each of them owns.
func owners(o *unstructured.Unstructured) string {
	var out []string
	for _, m := range o.GetManagedFields() {
		fields := ""
		if m.FieldsV1 != nil {
			fields = string(m.FieldsV1.GetRawBytes())
		}
		out = append(out, fmt.Sprintf("%s %s %q %s", m.Manager, m.Operation, m.Subresource, fields))
	}
	slices.Sort(out)
	return uids.ReplaceAllString(strings.Join(out, "; "), "UID")
}

func (s *script) create(what string, o *unstructured.Unstructured) *unstructured.Unstructured {
	s.answered("create "+what, o, s.client.Create(s.ctx, o))
	return o
}

func (s *script) update(what string, o *unstructured.Unstructured) *unstructured.Unstructured {
	s.answered("update "+what, o, s.client.Update(s.ctx, o))
	return o
}

func (s *script) get(what string, o *unstructured.Unstructured) *unstructured.Unstructured {
	out := &unstructured.Unstructured{}
	out.SetGroupVersionKind(o.GroupVersionKind())
	s.answered("get "+what, out, s.client.Get(s.ctx, client.ObjectKeyFromObject(o), out))
	return out
}

func (s *script) patch(what string, o *unstructured.Unstructured, kind types.PatchType, body string, options ...client.PatchOption) *unstructured.Unstructured {
	out := o.DeepCopy()
	s.answered("patch "+what, out, s.client.Patch(s.ctx, out, client.RawPatch(kind, []byte(body)), options...))
	return out
}

func (s *script) patchStatus(what string, o *unstructured.Unstructured, kind types.PatchType, body string, options ...client.SubResourcePatchOption) *unstructured.Unstructured {
	out := o.DeepCopy()
	s.answered("patch status "+what, out, s.client.Status().Patch(s.ctx, out, client.RawPatch(kind, []byte(body)), options...))
	return out
}

// apply sends a server-side apply with the name of a field manager.
func (s *script) apply(what, manager string, o *unstructured.Unstructured, options ...client.PatchOption) *unstructured.Unstructured {
	s.t.Helper()
	raw, err := json.Marshal(o.Object)
	if err != nil {
		s.t.Fatal(err)
	}
	return s.patch(what, o, types.ApplyPatchType, string(raw), append(options, client.FieldOwner(manager))...)
}

func (s *script) delete(what string, o *unstructured.Unstructured, options ...client.DeleteOption) {
	err := s.client.Delete(s.ctx, o.DeepCopy(), options...)
	if err != nil {
		s.say("delete %s: %s", what, verdict(err))
		return
	}
	s.say("delete %s: OK", what)
}

// list records the objects in a list, in the order of the list.
func (s *script) list(what string, gvk schema.GroupVersionKind, options ...client.ListOption) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(gvk)
	err := s.client.List(s.ctx, list, append([]client.ListOption{client.InNamespace(s.namespace)}, options...)...)
	if err != nil {
		s.say("list %s: %s", what, verdict(err))
		return
	}
	var names []string
	for _, o := range list.Items {
		names = append(names, o.GetName())
	}
	s.say("list %s: %v, more %t", what, names, list.GetContinue() != "")
}

// metadata records an object that was requested with its metadata only. It checks the bytes of the response, because the
// metadata client would also accept a whole object.
func (s *script) metadata(what string, o *unstructured.Unstructured) {
	out := &metav1.PartialObjectMetadata{}
	out.SetGroupVersionKind(o.GroupVersionKind())
	if err := s.client.Get(s.ctx, client.ObjectKeyFromObject(o), out); err != nil {
		s.say("metadata %s: %s", what, verdict(err))
		return
	}
	raw := s.asMetadata("/"+resourceOf(o.GroupVersionKind())+"/"+o.GetName(), "PartialObjectMetadata")
	s.say("metadata %s: %s, labels %v, keys %v, kind %v", what, out.Name, out.Labels, slices.Sorted(maps.Keys(raw)), raw["kind"])
}

func (s *script) metadataList(what string, gvk schema.GroupVersionKind, options ...client.ListOption) {
	out := &metav1.PartialObjectMetadataList{}
	out.SetGroupVersionKind(gvk)
	if err := s.client.List(s.ctx, out, append([]client.ListOption{client.InNamespace(s.namespace)}, options...)...); err != nil {
		s.say("metadata %s: %s", what, verdict(err))
		return
	}
	var names []string
	for _, o := range out.Items {
		names = append(names, o.Name)
	}
	raw := s.asMetadata("/"+resourceOf(gvk), "PartialObjectMetadataList")
	s.say("metadata %s: %v, kind %v", what, names, raw["kind"])
}

func resourceOf(gvk schema.GroupVersionKind) string { return strings.ToLower(gvk.Kind) + "s" }

// asMetadata reads a path of the case's namespace in the group of the Machines. It requests metadata only, in the given
// form.
func (s *script) asMetadata(path, form string) map[string]any {
	s.t.Helper()
	transport, err := rest.TransportFor(s.config)
	if err != nil {
		s.t.Fatal(err)
	}
	url := s.config.Host + "/apis/cluster.k8s.io/v1alpha1/namespaces/" + s.namespace + path
	request, err := http.NewRequestWithContext(s.ctx, http.MethodGet, url, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	request.Header.Set("Accept", "application/json;as="+form+";g=meta.k8s.io;v=v1")
	response, err := transport.RoundTrip(request)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	out := map[string]any{}
	if err := json.NewDecoder(response.Body).Decode(&out); err != nil {
		s.t.Fatal(err)
	}
	return out
}

// eventually waits until wanted returns true for an object, because the garbage collector of the real server needs time.
func (s *script) eventually(what string, o *unstructured.Unstructured, wanted func(*unstructured.Unstructured, bool) bool) {
	ended := "not within 30 s"
	_ = wait.PollUntilContextTimeout(s.ctx, 50*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
		out := &unstructured.Unstructured{}
		out.SetGroupVersionKind(o.GroupVersionKind())
		err := s.client.Get(ctx, client.ObjectKeyFromObject(o), out)
		switch {
		case ctx.Err() != nil:
			return false, nil
		case client.IgnoreNotFound(err) != nil:
			ended = verdict(err)
			return true, nil
		case wanted(out, err == nil):
			ended = "yes"
			return true, nil
		}
		return false, nil
	})
	s.say("%s: %s", what, ended)
}

// gone is a condition for eventually: it reports whether the object no longer exists.
func gone(_ *unstructured.Unstructured, there bool) bool { return !there }
