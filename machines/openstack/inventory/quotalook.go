package inventory

import (
	"context"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/client"
)

// ReserveQuota reserves room for what the Machine still needs. The error is the refusal that another Machine has met, of class
// Quota.
func (p *Project) ReserveQuota(machine types.UID, want Amounts) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.quota.take(machine, want, p.clock.Now())
}

// UseQuota notes that a part of what a Machine has reserved was made.
func (p *Project) UseQuota(machine types.UID, part Amounts) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.quota.made(machine, part)
}

// QuotaRefused notes the error of a create that wanted this much. Only an error of class Quota counts.
func (p *Project) QuotaRefused(machine types.UID, err error, want Amounts) {
	e := fault.Of(err)
	if e.Class != fault.Quota {
		return
	}
	p.mu.Lock()
	p.quota.refused(machine, e, want, p.clock.Now())
	p.mu.Unlock()
	p.Kick()
}

// faultyQuotas notes servers of ours that went to ERROR for a quota, as happens when the quota of volumes is hit. The caller holds the lock.
func (p *Project) faultyQuotas(ids []string) {
	for _, id := range ids {
		k := p.servers.byID[id]
		if k == nil || k.gone || k.Status != statusError || !p.isOurs(k) {
			continue
		}
		if e := client.JudgeServer(id, k.Fault.Message); e.Class == fault.Quota {
			want := Amounts{}
			for _, n := range counted[quotaOwner(e.Code)] {
				want[n] = 1
			}
			p.quota.refused(k.machine(), e, want, p.clock.Now())
		}
	}
}

// lookAtQuotas makes one GET for each service whose quota was hit and whose look is due. It reports whether there is room again.
func (p *Project) lookAtQuotas(ctx context.Context, s *client.Session) bool {
	p.mu.Lock()
	services, _ := p.quota.due(p.clock.Now())
	p.mu.Unlock()
	raised := false
	for _, service := range services {
		free, err := readLimits(ctx, s, service)
		p.mu.Lock()
		now := p.clock.Now()
		class := fault.Class("")
		if err != nil {
			class = fault.Of(err).Class
		}
		switch class {
		case "":
			raised = p.quota.looked(service, free, now) || raised
		case fault.RateLimited, fault.Transient:
			// Asked again with the next poll.
		default:
			raised = p.quota.unreadable(service, now) || raised
		}
		p.mu.Unlock()
	}
	if raised {
		log.FromContext(ctx).Info("there is room in a quota that had been hit")
	}
	return raised
}

// nextQuotaLook shortens the time until the next poll.
func (p *Project) nextQuotaLook(now time.Time, period time.Duration) time.Duration {
	services, next := p.quota.due(now)
	switch {
	case len(services) > 0:
		return min(period, FastPeriod)
	case next.IsZero():
		return period
	}
	return min(period, next.Sub(now))
}

// readLimits asks one service what the project may still have.
func readLimits(ctx context.Context, s *client.Session, of client.Service) (Amounts, error) {
	free := Amounts{}
	for n := range free {
		free[n] = plenty
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

// left is what is free of a limit; a negative limit is none.
func left(limit, used int) int {
	if limit < 0 {
		return plenty
	}
	return max(0, limit-used)
}

// readAbsolute reads Nova's or Cinder's limits.
func readAbsolute(ctx context.Context, s *client.Session, c client.Call, free *Amounts) error {
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
		Instances: {"maxTotalInstances", "totalInstancesUsed"}, Cores: {"maxTotalCores", "totalCoresUsed"},
		RAMMiB: {"maxTotalRAMSize", "totalRAMUsed"}, Volumes: {"maxTotalVolumes", "totalVolumesUsed"},
		VolumeGiB: {"maxTotalVolumeGigabytes", "totalGigabytesUsed"},
	} {
		if limit, ok := body.Limits.Absolute[names[0]]; ok {
			free[n] = left(limit, body.Limits.Absolute[names[1]])
		}
	}
	return err
}

// readDetails reads Neutron's quotas with what is used of them.
func readDetails(ctx context.Context, s *client.Session, c client.Call, free *Amounts) error {
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
		free[Ports] = left(d.Limit, d.Used+d.Reserved)
	}
	if d := body.Quota.FloatingIP; d != nil {
		free[FloatingIPs] = left(d.Limit, d.Used+d.Reserved)
	}
	return err
}
