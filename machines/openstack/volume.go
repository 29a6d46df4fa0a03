package openstack

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/client"
	"github.com/drover-project/drover/machines/openstack/inventory"
	"github.com/drover-project/drover/machines/openstack/inventory/state"
	"github.com/drover-project/drover/machines/openstack/provider"
)

// volume is a volume as Cinder returns it.
type volume struct {
	Name        string `json:"name"`
	Status      string `json:"status"`
	Attachments []struct {
		ServerID string `json:"server_id"`
	} `json:"attachments"`
}

// releasedVolumes is the result of releaseVolumes. ended are the IDs of the volumes that are done. waiting names the others that are being
// deleted, with their state, and left those that drover does not delete.
type releasedVolumes struct{ ended, waiting, left []string }

// releaseVolumes deletes the volumes that the Machine's status names. The Machine must have no server. Nova deletes the volumes
// together with their server. When Nova has not deleted a volume, releaseVolumes deletes the volume if it was the Machine's. A volume is
// done when Cinder answers 404 for it. It is also done when it is attached to another server, because then it does not belong to the
// Machine any more. In a cloud whose catalog has no volume service nobody can look, and only the names of the volumes are left.
func (i *instance) releaseVolumes(ctx context.Context, p *inventory.Project) (out releasedVolumes, err error) {
	servers, own := i.goneServers(p)
	scope, _ := i.connection.session.Known()
	unseen := scope != nil && scope.Endpoint(client.Volume) == ""
	for _, id := range i.recorded.VolumeIDs {
		if unseen {
			out.ended = append(out.ended, id)
			out.left = append(out.left, fmt.Sprintf("volume %.64q was not looked up, because the cloud's catalog has no volume service: Nova deletes it with its server", id))
			continue
		}
		if !provider.IsUUID(id) {
			out.left = append(out.left, fmt.Sprintf("status.providerStatus.volumeIDs: %.64q is not the ID of a volume", id))
			continue
		}
		seen, err := lookUp[volume](ctx, i, client.Volume, fmt.Sprintf("looking up volume %s of server %s", id, i.machine.ServerName), "volume", id)
		if err != nil {
			return out, err
		}
		fate := judgeVolume(seen, servers)
		switch {
		case fate == volumeEnded:
			out.ended = append(out.ended, id)
		case !own[id] && !i.trusted:
			out.left = append(out.left, fmt.Sprintf("volume %s exists and was not deleted: the Machine's status names it, but nothing in the cloud shows that it belonged to this Machine's server", id))
		case fate == volumeGoing:
			out.waiting = append(out.waiting, seen.describe(id))
		default:
			gone, err := i.delete(ctx, client.Volume, fmt.Sprintf("deleting volume %s of server %s", id, i.machine.ServerName), "volumes", id)
			if err != nil {
				refused := *fault.Of(err)
				refused.Message = seen.describe(id) + "; " + refused.Message
				return out, &refused
			}
			if gone {
				out.ended = append(out.ended, id)
			} else {
				out.waiting = append(out.waiting, seen.describe(id))
			}
		}
	}
	return out, nil
}

// releaseFormerVolumes deletes what the Machine's former servers have left, before another server is created. It returns the IDs of the
// volumes that are gone. It returns an error only when so many volumes are left that the next server's could not be recorded.
func (i *instance) releaseFormerVolumes(ctx context.Context, p *inventory.Project) (ended []string, err error) {
	volumes, err := i.releaseVolumes(ctx, p)
	left := len(i.recorded.VolumeIDs) - len(volumes.ended)
	switch {
	case left < provider.MostVolumes && err != nil:
		log.FromContext(ctx).Info("Cannot delete the volumes of former servers; drover tries again before the next server, and when the Machine is deleted", "cause", err.Error())
	case left < provider.MostVolumes:
	case err != nil:
		return nil, err
	default:
		e := fault.New(fault.Conflict, fault.CodeConflict, "%d volumes of former servers of this Machine still exist; no further server is created before they are deleted: %s",
			left, strings.Join(slices.Concat(volumes.waiting, volumes.left), "; "))
		return nil, e
	}
	return volumes.ended, nil
}

// describe returns, for messages, the name, ID and state of the volume.
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

// goneServers returns the IDs of the Machine's former servers, and the volumes that were seen on these servers and are deleted
// together with their server. It includes a server that only the Machine's spec or status names if the admission policies guard
// both against other writers.
func (i *instance) goneServers(p *inventory.Project) (servers []string, volumes map[string]bool) {
	p.With(func(s *state.Project) { servers, volumes = s.GoneServers(i.machine.UID) })
	if i.trusted {
		servers = append(servers, i.machine.ServerID, i.recorded.ServerID)
	}
	return servers, volumes
}

// volumeFate is how drover handles a volume whose server is gone.
type volumeFate int

const (
	// volumeLeft means that Nova does not delete the volume any more, so drover must.
	volumeLeft volumeFate = iota
	// volumeGoing means that the volume is being detached or deleted.
	volumeGoing
	// volumeEnded means that the volume does not exist, or that it is attached to another server now.
	volumeEnded
)

// judgeVolume decides how drover handles a volume, by the volume's attachments and state; v is nil for one that does not exist. An attachment to one of the Machine's
// own servers may exist for a moment longer than the server. An attachment to any other server means that the volume is not the
// Machine's any more.
func judgeVolume(v *volume, servers []string) volumeFate {
	if v == nil {
		return volumeEnded
	}
	for _, a := range v.Attachments {
		if !slices.Contains(servers, a.ServerID) {
			return volumeEnded
		}
	}
	// Cinder leaves a volume in a state such as error_extending until somebody deletes or resets the volume.
	if v.Status == "available" || strings.HasPrefix(v.Status, "error") {
		return volumeLeft
	}
	return volumeGoing
}
