package contract

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	openstackclient "github.com/drover-project/drover/machines/openstack/client"
)

// doc is a JSON object.
type doc = map[string]any

// Services, by their type in the service catalog.
const (
	identity = "identity"
	compute  = "compute"
	network  = "network"
	image    = "image"
	volume   = "volumev3"
)

// client sends plain HTTP requests, so that no library changes the cloud's answers.
type client struct {
	t         *testing.T
	keystone  string
	token     string
	project   string
	user      string
	endpoints map[string]string
}

// answer is the response to a call. err is set when no response came.
type answer struct {
	status int
	header http.Header
	text   string
	body   any
	err    error
}

// request is one HTTP call. version is Nova's microversion for the call.
type request struct {
	method, url string
	version     string
	token       string
	header      doc
	body        any
}

var web = &http.Client{Timeout: 2 * time.Minute}

func send(t *testing.T, in request) answer {
	t.Helper()
	var body io.Reader
	if in.body != nil {
		raw, err := json.Marshal(in.body)
		if err != nil {
			t.Fatal(err)
		}
		body = bytes.NewReader(raw)
	}
	// The request must not end with the test's context, because the test still deletes its resources after the context
	// has ended.
	r, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), in.method, in.url, body)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json")
	if in.token != "" {
		r.Header.Set("X-Auth-Token", in.token)
	}
	if in.version != "" {
		r.Header.Set("OpenStack-API-Version", "compute "+in.version)
		r.Header.Set("X-OpenStack-Nova-API-Version", in.version)
	}
	for key, value := range in.header {
		r.Header.Set(key, value.(string))
	}
	resp, err := web.Do(r)
	if err != nil {
		return answer{err: err}
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return answer{err: err}
	}
	a := answer{status: resp.StatusCode, header: resp.Header, text: string(raw)}
	_ = json.Unmarshal(raw, &a.body)
	return a
}

// at returns the value at a path in the body, such as servers.0.id. It returns nil if there is no value.
func (a answer) at(path string) any {
	v := a.body
	for _, step := range strings.Split(path, ".") {
		switch in := v.(type) {
		case doc:
			v = in[step]
		case []any:
			n, err := strconv.Atoi(step)
			if err != nil || n >= len(in) {
				return nil
			}
			v = in[n]
		default:
			return nil
		}
	}
	return v
}

// word returns the string at a path in the body. It returns an empty text if there is no string.
func (a answer) word(path string) string {
	text, _ := a.at(path).(string)
	return text
}

// rows returns the list of objects at a path in the body.
func (a answer) rows(path string) []doc {
	list, _ := a.at(path).([]any)
	out := make([]doc, 0, len(list))
	for _, item := range list {
		if row, ok := item.(doc); ok {
			out = append(out, row)
		}
	}
	return out
}

// signIn requests a token.
func signIn(t *testing.T, endpoint string, auth doc) answer {
	t.Helper()
	return send(t, request{method: http.MethodPost, url: keystone(endpoint) + "/auth/tokens", body: doc{"auth": auth}})
}

func keystone(endpoint string) string {
	endpoint = strings.TrimRight(endpoint, "/")
	if !strings.HasSuffix(endpoint, "/v3") {
		endpoint += "/v3"
	}
	return endpoint
}

func domain(c openstackclient.Credentials, own string) doc {
	for _, name := range []string{own, c.DomainName, "Default"} {
		if name != "" {
			return doc{"name": name}
		}
	}
	return nil
}

// byPassword returns the request body for signing in with the names of user and project, and a password.
func byPassword(c openstackclient.Credentials) doc {
	return doc{
		"identity": doc{"methods": []string{"password"}, "password": doc{"user": doc{
			"name": c.Username, "password": c.Password, "domain": domain(c, c.UserDomainName),
		}}},
		"scope": doc{"project": doc{"name": c.ProjectName, "domain": domain(c, c.ProjectDomainName)}},
	}
}

// newClient returns a client that has signed in by password.
func newClient(t *testing.T, c openstackclient.Credentials) *client {
	t.Helper()
	a := signIn(t, c.IdentityEndpoint, byPassword(c))
	if a.status != http.StatusCreated {
		t.Fatalf("signing in: %d %s %v", a.status, a.text, a.err)
	}
	return clientOf(t, c, a)
}

// clientOf returns a client that uses the token and the service catalog in Keystone's answer.
func clientOf(t *testing.T, c openstackclient.Credentials, a answer) *client {
	t.Helper()
	cl := &client{
		t: t, keystone: keystone(c.IdentityEndpoint), token: a.header.Get("X-Subject-Token"),
		project: a.word("token.project.id"), user: a.word("token.user.id"), endpoints: map[string]string{},
	}
	for _, entry := range a.rows("token.catalog") {
		for _, e := range (answer{body: entry}).rows("endpoints") {
			if e["interface"] == "public" && e["region"] == c.Region {
				cl.endpoints[entry["type"].(string)] = strings.TrimRight(e["url"].(string), "/")
			}
		}
	}
	for service, version := range map[string]string{network: "/v2.0", image: "/v2"} {
		if !strings.HasSuffix(cl.endpoints[service], version) {
			cl.endpoints[service] += version
		}
	}
	if url, there := cl.endpoints[volume]; there && !strings.HasSuffix(url, cl.project) {
		cl.endpoints[volume] = url + "/" + cl.project
	}
	cl.endpoints[identity] = cl.keystone
	return cl
}

// do makes a call to a service. Its optional arguments are the body, and the microversion as a value of type at.
func (c *client) do(method, service, path string, in ...any) answer {
	c.t.Helper()
	r := request{method: method, url: c.endpoints[service] + path, token: c.token}
	for _, extra := range in {
		switch v := extra.(type) {
		case at:
			r.version = string(v)
		default:
			r.body = v
		}
	}
	return send(c.t, r)
}

// at is the type in which Nova's microversion is passed to the client's methods.
type at string

func (c *client) get(service, path string, in ...any) answer {
	c.t.Helper()
	return c.do(http.MethodGet, service, path, in...)
}

func (c *client) post(service, path string, in ...any) answer {
	c.t.Helper()
	return c.do(http.MethodPost, service, path, in...)
}

func (c *client) delete(service, path string) answer {
	c.t.Helper()
	return c.do(http.MethodDelete, service, path)
}
