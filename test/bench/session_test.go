package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/drover-project/drover/machines/openstack/client"
)

// object is a JSON object.
type object = map[string]any

// session is a client that has signed in to a cloud. It uses plain HTTP.
type session struct {
	token, project string
	// services are the endpoints by their service type in the catalog.
	services map[string]string
}

// refused is an answer with a status of 400 or more.
type refused struct {
	name   string
	status int
	body   string
}

func (r *refused) Error() string { return fmt.Sprintf("%s: %d %s", r.name, r.status, r.body) }

// signIn gets a token from Keystone with a user name and a password.
func signIn(ctx context.Context, as client.Credentials, keystone string) (*session, error) {
	s := &session{services: map[string]string{"identity": keystone}}
	domain := func(own string) object {
		if own == "" {
			own = as.DomainName
		}
		return object{"name": own}
	}
	user := object{"name": as.Username, "password": as.Password, "domain": domain(as.UserDomainName)}
	scope := object{"project": object{"name": as.ProjectName, "domain": domain(as.ProjectDomainName)}}
	body := object{"auth": object{"identity": object{"methods": []string{"password"}, "password": object{"user": user}}, "scope": scope}}
	var answer struct {
		Token struct {
			Project struct{ ID string }
			Catalog []struct {
				Type      string
				Endpoints []struct{ URL, Interface, Region string }
			}
		}
	}
	header, err := s.send(ctx, http.MethodPost, strings.TrimSuffix(keystone, "/")+"/auth/tokens", body, &answer)
	if err != nil {
		return nil, fmt.Errorf("signing in: %w", err)
	}
	s.token, s.project = header.Get("X-Subject-Token"), answer.Token.Project.ID
	for _, service := range answer.Token.Catalog {
		for _, e := range service.Endpoints {
			if e.Interface == "public" && (as.Region == "" || e.Region == as.Region) {
				s.services[service.Type] = strings.TrimRight(e.URL, "/")
			}
		}
	}
	for service, version := range map[string]string{"network": "/v2.0", "image": "/v2"} {
		if !strings.HasSuffix(s.services[service], version) {
			s.services[service] += version
		}
	}
	return s, nil
}

// post, get and remove make one call to a service. into may be nil. The error is a *refused when the service answered with a
// status of 400 or more; otherwise it says that there was no answer.
func (s *session) post(ctx context.Context, service, path string, body, into any) error {
	_, err := s.send(ctx, http.MethodPost, s.services[service]+path, body, into)
	return err
}

func (s *session) get(ctx context.Context, service, path string, into any) error {
	_, err := s.send(ctx, http.MethodGet, s.services[service]+path, nil, into)
	return err
}

func (s *session) remove(ctx context.Context, service, path string) error {
	_, err := s.send(ctx, http.MethodDelete, s.services[service]+path, nil, nil)
	return err
}

func (s *session) send(ctx context.Context, method, to string, body, into any) (http.Header, error) {
	var raw []byte
	if body != nil {
		var err error
		if raw, err = json.Marshal(body); err != nil {
			return nil, err
		}
	}
	r, err := http.NewRequestWithContext(ctx, method, to, bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json")
	r.Header.Set("X-Auth-Token", s.token)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer func() { _ = answer.Body.Close() }()
	if raw, err = io.ReadAll(answer.Body); err != nil {
		return nil, err
	}
	if answer.StatusCode >= http.StatusBadRequest {
		return nil, &refused{name: method + " " + to, status: answer.StatusCode, body: string(raw)}
	}
	if into != nil {
		err = json.Unmarshal(raw, into)
	}
	return answer.Header, err
}

// row holds the fields that the benchmark reads from a server, a port, a floating IP or another
// named resource.
type row struct {
	ID, Name, Status, Description string
	// PortID is the port of a floating IP.
	PortID string `json:"port_id"`
}

// find returns the ID of the only resource with that name. kind is the name of the list in the
// answer.
func (s *session) find(ctx context.Context, service, path, kind, name string) (string, error) {
	rows, err := s.list(ctx, service, path, kind)
	if err != nil {
		return "", err
	}
	for _, r := range rows {
		if r.Name == name {
			return r.ID, nil
		}
	}
	return "", fmt.Errorf("the cloud has no %s %q", strings.TrimSuffix(kind, "s"), name)
}

// list returns the first page of a list.
func (s *session) list(ctx context.Context, service, path, kind string) ([]row, error) {
	var answer map[string]json.RawMessage
	if err := s.get(ctx, service, path, &answer); err != nil {
		return nil, err
	}
	var rows []row
	if err := json.Unmarshal(answer[kind], &rows); err != nil {
		return nil, fmt.Errorf("reading the list of %s: %w", kind, err)
	}
	return rows, nil
}

func byName(path, name string) string { return path + "?name=" + url.QueryEscape(name) }
