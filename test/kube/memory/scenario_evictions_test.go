//go:build cluster

package memory_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

func (s *script) evict(what, name, uid string) {
	e := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: s.namespace}, DeleteOptions: &metav1.DeleteOptions{}}
	if uid != "" {
		e.DeleteOptions.Preconditions = metav1.NewUIDPreconditions(uid)
	}
	err := s.client.SubResource("eviction").Create(s.ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: s.namespace}}, e)
	if err != nil {
		s.say("evict %s %s: %s", name, what, verdict(err))
		return
	}
	s.say("evict %s %s: OK", name, what)
}

// rawEvict evicts a pod without the client, which would retry an eviction that is refused for now.
func (s *script) rawEvict(name string) string {
	resp := s.postEviction(name)
	defer func() { _ = resp.Body.Close() }()
	return fmt.Sprintf("%d, retry after %q", resp.StatusCode, resp.Header.Get("Retry-After"))
}

// evictionAnswer evicts a pod without the client, and returns the HTTP status and the Status of the
// answer.
func (s *script) evictionAnswer(name string) string {
	resp := s.postEviction(name)
	defer func() { _ = resp.Body.Close() }()
	var status metav1.Status
	if err := json.NewDecoder(resp.Body).Decode(&status); err != nil {
		s.t.Fatal(err)
	}
	return fmt.Sprintf("HTTP %d: %s %s, %s, code %d, reason %q, %q, details %v", resp.StatusCode, status.APIVersion, status.Kind, status.Status,
		status.Code, status.Reason, status.Message, status.Details)
}

func (s *script) postEviction(name string) *http.Response {
	s.t.Helper()
	hc, err := rest.HTTPClientFor(s.config)
	if err != nil {
		s.t.Fatal(err)
	}
	body := `{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"` + name + `","namespace":"` + s.namespace + `"}}`
	resp, err := hc.Post(s.config.Host+"/api/v1/namespaces/"+s.namespace+"/pods/"+name+"/eviction", "application/json", strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	return resp
}
