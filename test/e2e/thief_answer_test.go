//go:build cluster

package e2e

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/test/openstack"
)

// turned is the character that turns the direction of the text that follows it.
const turned = "\u202e"

// answerAttempts returns further attacks that a cloud makes by its answers.
func answerAttempts() []attempt {
	return []attempt{
		{by: aCloud, to: "fill the memory: four clouds list 1000 servers each that have 66 kB of tags and metadata", finding: "F-98", stop: product,
			try: func(w *world, a attempt) error {
				var errs []error
				for i := range 4 {
					errs = append(errs, w.machine(fmt.Sprintf("%s-%d", a.key(), i), func(m *v1alpha1.Machine) {
						cloudSpec(&m.Spec, mallory(w.enemy.keystone(fmt.Sprintf("tagged-%d", i))))
					}))
				}
				return errors.Join(errs...)
			}},
		{by: aCloud, to: "fill the memory: a sign-in is answered with 1.5 GiB, compressed to 1.5 MiB", finding: "F-8", stop: product, try: at("bomb")},
		{by: aCloud, to: "fill the memory: a sign-in is answered with 8 MiB of headers", finding: "F-8", stop: product, try: at("headers")},
		{by: aCloud, to: "occupy all workers: a sign-in is answered with one byte a second", finding: "F-14", stop: product, slow: true, try: at("drips")},
		{by: aCloud, to: "keep drover from trying again: an answer has a Retry-After that no duration can hold", finding: "F-69", stop: product, slow: true, try: at("beyond")},
		{by: aCloud, to: "mislead the readers of a status: an error has a character that turns the text around", finding: "F-98", stop: product, try: at("mirrored"), after: readable},
		{by: aCloud, to: "fill the memory and the status: an error has a text of 1 MiB", finding: "F-10", stop: product, try: at("wordy"), after: readable},
	}
}

// readable returns an error when the status of an attempt's Machine is not short, or has a character that turns text around.
func readable(w *world, a attempt) error {
	var m v1alpha1.Machine
	if err := w.s.Client.Get(w.Context(), client.ObjectKey{Namespace: tenant, Name: a.key()}, &m); err != nil {
		return err
	}
	raw, err := json.Marshal(m.Status)
	if err != nil {
		return err
	}
	if text := string(raw); strings.Contains(text, turned) || len(text) > 32<<10 || !utf8.ValidString(text) {
		return fmt.Errorf("the status has %d bytes: %s", len(text), text[:min(len(text), 1000)])
	}
	return nil
}

// refused answers a request with an error of OpenStack.
func refused(w http.ResponseWriter, message string) {
	raw, err := json.Marshal(map[string]any{"error": map[string]any{"code": http.StatusBadRequest, "title": "Bad Request", "message": message}})
	if err != nil {
		panic(err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusBadRequest)
	_, _ = w.Write(raw)
}

func mirrored(w http.ResponseWriter, _ *http.Request) {
	refused(w, "the flavor is "+turned+"gnorw"+"\u2066 and \u200b hidden")
}

func wordy(w http.ResponseWriter, _ *http.Request) { refused(w, strings.Repeat("words ", 1<<20/6)) }

func beyond(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Retry-After", "9223372036854775807")
	http.Error(w, "{}", http.StatusServiceUnavailable)
}

func headers(w http.ResponseWriter, _ *http.Request) {
	for i := range 8 {
		w.Header().Set(fmt.Sprintf("X-Fat-%d", i), strings.Repeat("x", 1<<20))
	}
	w.WriteHeader(http.StatusCreated)
}

// bomb answers a sign-in with a body that a client with transparent decompression makes far too large.
func bomb(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("X-Subject-Token", "bomb")
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Encoding", "gzip")
	w.WriteHeader(http.StatusCreated)
	packed := gzip.NewWriter(w)
	_, err := io.WriteString(packed, `{"token":{"methods":["`)
	chunk := []byte(strings.Repeat("x", 1<<20))
	for n := 0; err == nil && n < hugeBody; n += len(chunk) {
		_, err = packed.Write(chunk)
	}
	_ = packed.Close()
}

// drip sends one byte of an answer each second, until the client or the test ends.
func (e *enemy) drip(w http.ResponseWriter, r *http.Request) {
	w.WriteHeader(http.StatusCreated)
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		_, _ = io.WriteString(w, " ")
		_ = http.NewResponseController(w).Flush()
		select {
		case <-r.Context().Done():
			return
		case <-e.ended:
			return
		case <-ticker.C:
		}
	}
}

// tagged answers with a list of 1000 servers that have 66 kB of tags and metadata each.
func tagged(w http.ResponseWriter) {
	long := strings.Repeat("x", 33_000)
	_, _ = io.WriteString(w, `{"servers":[`)
	for i := range 1000 {
		if i > 0 {
			_, _ = io.WriteString(w, ",")
		}
		_, _ = fmt.Fprintf(w, `{"id":"%08x-0000-4000-8000-000000000000","name":"tagged","status":"ACTIVE","tags":[%q],"metadata":{"machine-uid":%q,"drover-cluster-id":"x"}}`, i, long, long)
	}
	_, _ = io.WriteString(w, `]}`)
}

// sizeAttempts returns the attacks of an author with objects that are larger than needed.
func sizeAttempts() []attempt {
	large := strings.Repeat("x", 100_000)
	tags := map[string]string{}
	for i := range 40 {
		tags[fmt.Sprintf("tag-%d", i)] = "x"
	}
	return []attempt{
		{by: theAuthor, to: "fill the memory of drover: his Machine has a provider spec of 100 kB", finding: "F-96", stop: policies, after: hasNoServer,
			try: forge(func(_ *world, m *v1alpha1.Machine) {
				cloudSpec(&m.Spec, map[string]any{"tags": map[string]string{"large": large}})
			})},
		{by: theAuthor, to: "fill the memory of drover: his Machine has an annotation of 100 kB", finding: "F-96", stop: policies,
			try: forge(func(_ *world, m *v1alpha1.Machine) { m.Annotations = map[string]string{"large": large} })},
		{by: theAuthor, to: "make each list of servers large: his server has 40 tags", finding: "F-98", stop: product, shows: "InvalidSpec", after: hasNoServer,
			try: forge(func(_ *world, m *v1alpha1.Machine) { cloudSpec(&m.Spec, map[string]any{"tags": tags}) })},
	}
}

// hasNoServer returns an error when a server of the configured cloud has the name of the attempt's Machine.
func hasNoServer(w *world, a attempt) error {
	for _, s := range w.s.Cloud.Servers() {
		if strings.HasPrefix(s.Name, a.key()) {
			return fmt.Errorf("there is the server %s", s.Name)
		}
	}
	return nil
}

// customerAttempts returns the attacks of another customer of the same OpenStack, who shares resources with the configured project.
func customerAttempts() []attempt {
	shares := func(name string) func(*world, attempt) error {
		return func(w *world, a attempt) error {
			w.s.Cloud.AddProject(a.key(), openstack.MetaKubeDomain)
			network := w.s.Cloud.AddNetwork(openstack.Network{Name: name, Project: a.key(), SharedWith: []string{openstack.MetaKubeProject}})
			_, err := w.s.Cloud.AddSubnet(openstack.Subnet{Name: name, Network: network, CIDR: "10.66.0.0/24"})
			return err
		}
	}
	return []attempt{
		{by: aCustomer, to: "stop new servers: he shares a network with the name of the project's", finding: "F-93", stop: product, try: shares(openstack.MetaKubeNetwork)},
		{by: aCustomer, to: "stop new floating IPs: he shares a network with the name of the pool", finding: "F-93", stop: product, try: shares(openstack.MetaKubePool)},
	}
}
