package contract

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// row is a test of one behaviour of the cloud or of the driver. Its name describes the behaviour.
type row struct {
	name string
	need need
	run  func(*bench)
}

// topic is a group of tests.
type topic struct {
	name string
	rows []row
}

// topics holds all tests in the order in which they run: cheap ones first.
var topics = []topic{
	{"signing in", signInRows}, {"microversions", versionRows}, {"look-ups", lookupRows}, {"other projects", projectRows}, {"impossible requests for servers", refusalRows}, {"ports", portRows},
	{"floating IPs", floatingRows}, {"security groups and server groups", groupRows}, {"creating a server", createRows}, {"the life of a server", lifeRows},
	{"servers on one port", samePortRows}, {"listing servers", listRows}, {"timing", timeRows}, {"quota", quotaRows}, {"volumes", volumeRows},
	{"lost responses and rate limits", troubleRows}, {"drover's OpenStack driver", driverRows}, {"starting servers with drover's OpenStack driver", driverPowerRows}, {"errors of drover's OpenStack driver", driverErrorRows},
	{"outages", outageRows},
}

// bench is the state of a running test: the cloud, and a user who is signed in.
type bench struct {
	*testing.T
	*target
	user *client
}

// run runs every test that the cloud supports, each on the cloud that open returns.
func run(t *testing.T, open func(t *testing.T) *target, parallel bool) {
	t.Helper()
	runTopics(t, topics, open, parallel)
}

// runTopics runs the tests of some topics.
func runTopics(t *testing.T, topics []topic, open func(t *testing.T) *target, parallel bool) {
	t.Helper()
	for _, topic := range topics {
		for _, r := range topic.rows {
			t.Run(topic.name+"/"+r.name, func(t *testing.T) {
				if parallel && r.need != aQuietCloud {
					t.Parallel()
				}
				tg := open(t)
				if why := tg.missing(r.need); why != "" {
					t.Logf("left out: %s", why)
					return
				}
				r.run(&bench{T: t, target: tg, user: newClient(t, tg.credentials)})
			})
		}
	}
}

var serial atomic.Int64

// name returns a unique name for a resource that the test creates.
func (b *bench) name() string {
	return fmt.Sprintf("contract-%d-%d", os.Getpid(), serial.Add(1))
}

// want fails the test unless the response has the given status and contains all texts.
func (b *bench) want(a answer, status int, texts ...string) answer {
	b.Helper()
	if a.err != nil || a.status != status {
		b.Fatalf("got %d %.600s %v, want %d", a.status, a.text, a.err, status)
	}
	for _, text := range texts {
		if !strings.Contains(a.text, text) {
			b.Errorf("%q is not in %.600s", text, a.text)
		}
	}
	return a
}

// oneOf fails the test unless the response has one of the given statuses.
func (b *bench) oneOf(a answer, statuses ...int) answer {
	b.Helper()
	for _, s := range statuses {
		if a.err == nil && a.status == s {
			return a
		}
	}
	b.Fatalf("got %d %.600s %v, want one of %v", a.status, a.text, a.err, statuses)
	return a
}

// same fails the test when got and want differ.
func (b *bench) same(what string, got, want any) {
	b.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		b.Errorf("%s is %v, want %v", what, got, want)
	}
}

// until checks a condition repeatedly until it holds.
func (b *bench) until(what string, holds func() bool) {
	b.Helper()
	err := wait.PollUntilContextTimeout(context.WithoutCancel(b.Context()), b.pace, b.patience, true, func(context.Context) (bool, error) { return holds(), nil })
	if err != nil {
		b.Fatalf("never came true: %s", what)
	}
}

// nextSecond waits until the cloud's clock is in a later second than the given time, because Nova returns times in
// whole seconds.
func (b *bench) nextSecond(given string) {
	b.Helper()
	at, err := time.Parse(time.RFC3339, given)
	if err != nil {
		b.Fatal(err)
	}
	b.until("a later second than "+given, func() bool {
		now, err := http.ParseTime(b.user.get(compute, "/servers/detail?limit=1").header.Get("Date"))
		return err == nil && now.After(at)
	})
}

// id returns the ID of a resource by its name.
func (b *bench) id(service, path, field, name string) string {
	b.Helper()
	for _, r := range b.want(b.user.get(service, path), http.StatusOK).rows(field) {
		if r["name"] == name || r["id"] == name {
			return r["id"].(string)
		}
	}
	b.Fatalf("%s has no %s", path, name)
	return ""
}

func (b *bench) flavorID(name string) string {
	b.Helper()
	return b.id(compute, "/flavors/detail", "flavors", name)
}

func (b *bench) imageID() string {
	b.Helper()
	return b.id(image, "/images", "images", b.image)
}

func (b *bench) networkID(name string) string {
	b.Helper()
	return b.id(network, "/networks", "networks", name)
}

func (b *bench) subnetID() string {
	b.Helper()
	return b.id(network, "/subnets", "subnets", b.subnet)
}

func (b *bench) groupID() string {
	b.Helper()
	return b.id(network, "/security-groups", "security_groups", b.group)
}

// discard deletes a resource when the test ends.
func (b *bench) discard(service, path string) {
	b.Cleanup(func() { b.user.delete(service, path) })
}

// port creates a port on the network; extra overrides fields of the request.
func (b *bench) port(extra doc) answer {
	b.Helper()
	body := doc{"network_id": b.networkID(b.network), "name": b.name()}
	for k, v := range extra {
		body[k] = v
	}
	a := b.user.post(network, "/ports", doc{"port": body})
	if id := a.word("port.id"); id != "" {
		b.discard(network, "/ports/"+id)
	}
	return a
}

// portID creates a port and returns its ID.
func (b *bench) portID() string {
	b.Helper()
	return b.want(b.port(nil), http.StatusCreated).word("port.id")
}

// wish describes the server that a test requests. fields override the usual fields of the request, and a nil value
// removes a field. hints are scheduler hints.
type wish struct {
	fields  doc
	hints   doc
	version string
}

// server requests a server on a new port of its own, unless the wish names networks.
func (b *bench) server(w wish) answer {
	b.Helper()
	body := doc{"name": b.name(), "flavorRef": b.flavorID(b.flavor), "imageRef": b.imageID()}
	if _, given := w.fields["networks"]; !given {
		body["networks"] = []doc{{"port": b.portID()}}
	}
	for k, v := range w.fields {
		body[k] = v
		if v == nil {
			delete(body, k)
		}
	}
	whole := doc{"server": body}
	if w.hints != nil {
		whole["os:scheduler_hints"] = w.hints
	}
	a := b.user.post(compute, "/servers", whole, at(w.version))
	if id := a.word("server.id"); id != "" {
		b.Cleanup(func() { b.remove(id) })
	}
	return a
}

// boot creates a server and waits until it is ACTIVE.
func (b *bench) boot(w wish) string {
	b.Helper()
	id := b.want(b.server(w), http.StatusAccepted).word("server.id")
	b.status(id, "ACTIVE")
	return id
}

// status waits until a server has a status, and returns the server.
func (b *bench) status(id, want string) answer {
	b.Helper()
	var a answer
	b.until("server "+id+" is "+want, func() bool {
		a = b.want(b.user.get(compute, "/servers/"+id), http.StatusOK)
		if got := a.word("server.status"); got == "ERROR" && want != "ERROR" {
			b.Fatalf("server %s: %v", id, a.at("server.fault"))
		}
		return a.word("server.status") == want
	})
	return a
}

// remove deletes a server and waits until it no longer exists.
func (b *bench) remove(id string) {
	b.Helper()
	b.user.delete(compute, "/servers/"+id)
	b.gone("/servers/" + id)
}

// gone waits until Nova answers 404 for the path.
func (b *bench) gone(path string) {
	b.Helper()
	b.until(path+" is gone", func() bool { return b.user.get(compute, path).status == http.StatusNotFound })
}
