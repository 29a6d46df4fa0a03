package inventory

import (
	"context"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/drover-project/drover/machines/openstack/client"
	"github.com/drover-project/drover/machines/openstack/inventory/state"
)

// unlimited represents a quota without a limit.
const unlimited = 1 << 40

// readFree makes one GET and returns the quota of a service that the project has left.
func readFree(ctx context.Context, s *client.Session, of client.Service) (state.Amounts, error) {
	free := state.Amounts{}
	for n := range free {
		free[n] = unlimited
	}
	c := client.Call{Service: of, Doing: "reading the " + string(of) + " quotas"}
	var err error
	switch of {
	case client.Compute, client.Volume:
		err = readAbsolute(ctx, s, c, &free)
	default:
		err = readDetails(ctx, s, c, &free)
	}
	return free, err
}

// left returns the free part of a limit; a negative limit means no limit.
func left(limit, used int) int {
	if limit < 0 {
		return unlimited
	}
	return max(0, limit-used)
}

// readAbsolute reads Nova's or Cinder's limits.
func readAbsolute(ctx context.Context, s *client.Session, c client.Call, free *state.Amounts) error {
	var body struct {
		Limits struct {
			Absolute map[string]int `json:"absolute"`
		} `json:"limits"`
	}
	err := s.Do(ctx, c, func(ctx context.Context, api *gophercloud.ServiceClient) error {
		_, err := api.Get(ctx, api.ServiceURL("limits"), &body, nil)
		return err
	})
	for n, names := range map[int][2]string{
		state.Instances: {"maxTotalInstances", "totalInstancesUsed"}, state.Cores: {"maxTotalCores", "totalCoresUsed"},
		state.RAMMiB: {"maxTotalRAMSize", "totalRAMUsed"}, state.Volumes: {"maxTotalVolumes", "totalVolumesUsed"},
		state.VolumeGiB: {"maxTotalVolumeGigabytes", "totalGigabytesUsed"},
	} {
		if limit, ok := body.Limits.Absolute[names[0]]; ok {
			free[n] = left(limit, body.Limits.Absolute[names[1]])
		}
	}
	return err
}

// readDetails reads Neutron's quotas and their usage.
func readDetails(ctx context.Context, s *client.Session, c client.Call, free *state.Amounts) error {
	id, err := s.Scope(ctx)
	if err != nil {
		return err
	}
	type detail struct{ Limit, Used, Reserved int }
	var body struct {
		Quota struct {
			Port       *detail `json:"port"`
			FloatingIP *detail `json:"floatingip"`
		} `json:"quota"`
	}
	err = s.Do(ctx, c, func(ctx context.Context, api *gophercloud.ServiceClient) error {
		_, err := api.Get(ctx, api.ServiceURL("quotas", id.ProjectID, "details.json"), &body, nil)
		return err
	})
	if d := body.Quota.Port; d != nil {
		free[state.Ports] = left(d.Limit, d.Used+d.Reserved)
	}
	if d := body.Quota.FloatingIP; d != nil {
		free[state.FloatingIPs] = left(d.Limit, d.Used+d.Reserved)
	}
	return err
}
