package openstack

import (
	"context"
	"fmt"
	"slices"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/client"
	"github.com/drover-project/drover/machines/openstack/inventory"
	"github.com/drover-project/drover/machines/openstack/providerid"
)

// volume is a volume as Cinder returns it.
type volume struct {
	Name        string `json:"name"`
	Status      string `json:"status"`
	Attachments []struct {
		ServerID string `json:"server_id"`
	} `json:"attachments"`
}

// releaseVolumes sees the volumes gone that the Machine's status names. Nova deletes them with their server; one that it
// has left behind is deleted here when it was the Machine's, and named in left otherwise. Done when each of the Machine's
// answers 404; until then waiting names those that are left, each with its state. A volume that has found another server is not
// the Machine's any more.
func (i *instance) releaseVolumes(ctx context.Context, p *inventory.Project) (waiting, left []string, err error) {
	servers, own := i.past(p)
	for _, id := range i.recorded.VolumeIDs {
		if !providerid.IsUUID(id) {
			left = append(left, fmt.Sprintf("status.providerStatus.volumeIDs: %.64q is not the ID of a volume", id))
			continue
		}
		fate, seen, err := i.volumeFate(ctx, id, servers)
		if err != nil {
			return nil, nil, err
		}
		switch {
		case fate == volumeGone || fate == volumeForeign:
		case !own[id] && !i.trusted:
			left = append(left, fmt.Sprintf("volume %s exists and was left alone: the Machine's status names it, and nothing in the cloud shows that it was of this Machine's server", id))
		case fate == volumeGoing:
			waiting = append(waiting, seen.describe(id))
		default:
			gone, err := i.deleteVolume(ctx, id)
			if err != nil {
				refused := *fault.Of(err)
				refused.Message = seen.describe(id) + "; " + refused.Message
				return nil, nil, &refused
			}
			if !gone {
				waiting = append(waiting, seen.describe(id))
			}
		}
	}
	return waiting, left, nil
}

// describe names the volume of that ID and its state for people.
func (v *volume) describe(id string) string {
	name := id
	if v.Name != "" {
		name = fmt.Sprintf("%.64q (%s)", v.Name, id)
	}
	text := fmt.Sprintf("volume %s is %.64q in Cinder", name, v.Status)
	for _, a := range v.Attachments {
		text += ", attached to server " + a.ServerID
	}
	return text
}

// past returns the IDs of the servers that the Machine had, and the volumes that were seen on them and end with them. A server
// that only the Machine names is not among them, unless its status is guarded.
func (i *instance) past(p *inventory.Project) (servers []string, volumes map[string]bool) {
	servers, volumes = p.GoneServers(i.machine.UID)
	if i.trusted {
		servers = append(servers, i.machine.ServerID, i.recorded.ServerID)
	}
	return servers, volumes
}

// volumeFate looks a volume up and decides what is to be done about it.
func (i *instance) volumeFate(ctx context.Context, id string, servers []string) (volumeFate, *volume, error) {
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
		return volumeGone, nil, nil
	case err != nil:
		return volumeGoing, nil, err
	}
	return judgeVolume(&body.Volume, servers), &body.Volume, nil
}

// deleteVolume asks for the deletion of a volume. It reports whether the volume is gone already.
func (i *instance) deleteVolume(ctx context.Context, id string) (gone bool, err error) {
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
	// volumeLeft: Nova does not delete it any more, so drover does.
	volumeLeft volumeFate = iota
	// volumeGoing: it is being detached or deleted.
	volumeGoing
	// volumeForeign: it serves another server now.
	volumeForeign
	// volumeGone: it does not exist.
	volumeGone
)

// judgeVolume decides by the volume's state. An attachment may outlive one of the Machine's own servers for a moment.
// An attachment to another server means that the volume belongs to somebody else.
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

// ignoreNotFound returns err, or nil when what was to be deleted does not exist.
func ignoreNotFound(err error) error {
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	return err
}
