package kubelet

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// metadata speaks to the cloud's metadata service in the name of one server.
type metadata struct {
	url, instanceID string
}

// get fetches one document. The header is what Neutron's metadata proxy adds on the way, from the port that asked.
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

// identity is the part of meta_data.json that matters here.
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
