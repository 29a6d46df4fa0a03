package openstack

import (
	"context"
	"fmt"
	"slices"

	"github.com/drover-project/drover/machines/openstack/client"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/drover-project/drover/machines/fault"
)

// volume is what Cinder tells of one.
type volume struct {
	Status      string `json:"status"`
	Attachments []struct {
		ServerID string `json:"server_id"`
	} `json:"attachments"`
}

// releaseVolumes sees the volumes gone that the Machine's status names. Nova deletes them with their server; one that it
// has left behind is deleted here. Done when each ID answers 404. A volume that has found another server is not the
// Machine's any more.
func (i *instance) releaseVolumes(ctx context.Context, p *project) (bool, error) {
	done, servers := true, i.goneServers(p)
	for _, id := range i.volumes {
		gone, err := i.releaseVolume(ctx, id, servers)
		if err != nil {
			return false, err
		}
		done = done && gone
	}
	return done, nil
}

// goneServers are the IDs of the servers that the Machine had.
func (i *instance) goneServers(p *project) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	ids := []string{i.serverID}
	_, gone := p.inventory.ofMachine(i.subject.uid, i.serverID)
	for _, k := range gone {
		ids = append(ids, k.ID)
	}
	return ids
}

func (i *instance) releaseVolume(ctx context.Context, id string, servers []string) (bool, error) {
	var body struct {
		Volume volume `json:"volume"`
	}
	looking := client.Call{Service: client.Volume, Doing: fmt.Sprintf("looking up volume %s of server %s", id, i.subject.server)}
	err := i.do(ctx, looking, func(ctx context.Context, api *gophercloud.ServiceClient) error {
		_, err := api.Get(ctx, api.ServiceURL("volumes", id), &body, nil)
		return err
	})
	switch {
	case fault.Is(err, fault.NotFound):
		return true, nil
	case err != nil:
		return false, err
	}
	switch judgeVolume(&body.Volume, servers) {
	case volumeForeign:
		return true, nil
	case volumeGoing:
		return false, nil
	}
	deleting := client.Call{Service: client.Volume, Doing: fmt.Sprintf("deleting volume %s of server %s", id, i.subject.server)}
	err = i.do(ctx, deleting, func(ctx context.Context, api *gophercloud.ServiceClient) error {
		_, err := api.Delete(ctx, api.ServiceURL("volumes", id), nil)
		return err
	})
	return fault.Is(err, fault.NotFound), ignoreNotFound(err)
}

// volumeFate is what is to be done about a volume whose server is gone.
type volumeFate int

const (
	// volumeLeft: nobody deletes it, so drover does.
	volumeLeft volumeFate = iota
	// volumeGoing: it is being detached or deleted.
	volumeGoing
	// volumeForeign: it serves another server now.
	volumeForeign
)

// judgeVolume decides by the volume's state. An attachment may outlive one of the Machine's own servers for a moment; one
// to any other server makes the volume somebody else's.
func judgeVolume(v *volume, servers []string) volumeFate {
	for _, a := range v.Attachments {
		if !slices.Contains(servers, a.ServerID) {
			return volumeForeign
		}
	}
	switch v.Status {
	case "available", "error", "error_deleting":
		return volumeLeft
	}
	return volumeGoing
}

func ignoreNotFound(err error) error {
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	return err
}
