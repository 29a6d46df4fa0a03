package kubelet

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// metadata is a client of the cloud's metadata service for one server.
type metadata struct {
	url, instanceID string
}

// get fetches one document. It sets the header that Neutron's metadata proxy derives from the port of the request.
func (m metadata) get(ctx context.Context, path string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(m.url, "/")+path, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("X-Instance-ID", m.instanceID)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers %s", path, response.Status)
	}
	return body, nil
}

func (m metadata) userData(ctx context.Context) ([]byte, error) {
	raw, err := m.get(ctx, "/openstack/latest/user_data")
	if err != nil {
		return nil, fmt.Errorf("fetching user data: %w", err)
	}
	return raw, nil
}

// identity holds the fields of meta_data.json that the kubelet uses.
type identity struct {
	UUID string `json:"uuid"`
	Name string `json:"name"`
}

func (m metadata) identity(ctx context.Context) (identity, error) {
	raw, err := m.get(ctx, "/openstack/latest/meta_data.json")
	if err != nil {
		return identity{}, fmt.Errorf("fetching instance metadata: %w", err)
	}
	var id identity
	if err := json.Unmarshal(raw, &id); err != nil {
		return identity{}, fmt.Errorf("reading instance metadata: %w", err)
	}
	return id, nil
}
