package openstack_test

import (
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack/blockstorage/v3/volumes"
	"github.com/gophercloud/gophercloud/v2/openstack/blockstorage/v3/volumetypes"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/volumeattach"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/images"

	"github.com/drover-project/drover/test/openstack"
)

// onVolume returns the options for a server that boots from a new volume. goesWithIt sets whether the volume is deleted
// with the server.
func (k known) onVolume(name string, goesWithIt bool) servers.CreateOpts {
	o := k.server(name, "")
	o.ImageRef = ""
	o.BlockDevice = []servers.BlockDevice{{
		SourceType: servers.SourceImage, DestinationType: servers.DestinationVolume, UUID: k.image, VolumeSize: 40,
		VolumeType: openstack.MetaKubeVolumeType, DeleteOnTermination: goesWithIt,
	}}
	return o
}

func TestInTheSimulatedCloudAServerBootsFromAVolume(t *testing.T) {
	cloud := start(t, openstack.Config{})
	c := login(t, cloud, nil)
	k := c.known(t)
	ctx := t.Context()
	gone := c.boot(t, k.onVolume("gone", true), nil)
	kept := c.boot(t, k.onVolume("kept", false), nil)
	eventually(t, "both ACTIVE", func() bool { return c.get(t, gone.ID).Status == "ACTIVE" && c.get(t, kept.ID).Status == "ACTIVE" })
	s := c.get(t, kept.ID)
	if len(s.AttachedVolumes) != 1 || s.Image != nil {
		t.Fatalf("server %+v", s)
	}
	attached := extract(t, volumeattach.List(c.compute, kept.ID).AllPages, volumeattach.ExtractVolumeAttachments)
	if len(attached) != 1 || attached[0].VolumeID != s.AttachedVolumes[0].ID || attached[0].DeleteOnTermination == nil || *attached[0].DeleteOnTermination {
		t.Errorf("attached %+v", attached)
	}
	v, err := volumes.Get(ctx, c.volume, s.AttachedVolumes[0].ID).Extract()
	if err != nil || v.Status != "in-use" || v.Size != 40 || v.VolumeType != openstack.MetaKubeVolumeType || v.Attachments[0].ServerID != kept.ID {
		t.Fatalf("volume %+v, %v", v, err)
	}
	refused(t, volumes.Delete(ctx, c.volume, v.ID, nil).ExtractErr(), 400)
	for _, id := range []string{gone.ID, kept.ID} {
		if err := servers.Delete(ctx, c.compute, id).ExtractErr(); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the servers gone", func() bool { return len(cloud.Servers()) == 0 })
	list := extract(t, volumes.List(c.volume, nil).AllPages, volumes.ExtractVolumes)
	if len(list) != 1 || list[0].ID != v.ID || list[0].Status != "available" {
		t.Errorf("only volumes with delete_on_termination are deleted with their server; left %+v", list)
	}
	if err := volumes.Delete(ctx, c.volume, v.ID, nil).ExtractErr(); err != nil {
		t.Error(err)
	}
	_, err = volumes.Get(ctx, c.volume, v.ID).Extract()
	refused(t, err, 404)
}

func TestTheVolumeQuotaOfTheSimulatedCloud(t *testing.T) {
	cloud := start(t, openstack.Config{Quota: openstack.Quota{Volumes: openstack.None}})
	c := login(t, cloud, nil)
	k := c.known(t)
	t.Run("Cinder refuses a volume beyond the quota with 413", func(t *testing.T) {
		_, err := volumes.Create(t.Context(), c.volume, volumes.CreateOpts{Size: 1}, nil).Extract()
		if text := refused(t, err, 413); !strings.Contains(text, `"overLimit"`) || !strings.Contains(text, "VolumeLimitExceeded") {
			t.Error(text)
		}
	})
	t.Run("Nova accepts a server beyond the volume quota, and the server goes to ERROR later", func(t *testing.T) {
		p := c.port(t, k, "port")
		o := k.onVolume("node-1", true)
		o.Networks = []servers.Network{{Port: p.ID}}
		s := c.boot(t, o, nil)
		eventually(t, "ERROR", func() bool { return c.get(t, s.ID).Status == "ERROR" })
		if text := c.get(t, s.ID).Fault.Message; !strings.Contains(text, "Build of instance "+s.ID+" aborted: VolumeLimitExceeded") {
			t.Error(text)
		}
	})
	if list := extract(t, volumetypes.List(c.volume, nil).AllPages, volumetypes.ExtractVolumeTypes); len(list) != 1 || list[0].Name != openstack.MetaKubeVolumeType {
		t.Errorf("types %+v", list)
	}
}

func TestInTheSimulatedCloudImagesAreFoundByIDAndByNameUnlessTheyBelongToAnotherProject(t *testing.T) {
	cloud := start(t, openstack.Config{})
	for range 30 {
		cloud.AddImage(openstack.Image{Name: "twin"})
	}
	cloud.AddImage(openstack.Image{Name: "private", Project: "other"})
	c := login(t, cloud, nil)
	k := c.known(t)
	i, err := images.Get(t.Context(), c.image, k.image).Extract()
	if err != nil || i.Name != openstack.MetaKubeImage || i.MinDiskGigabytes != 8 || i.Status != images.ImageStatusActive || i.Properties["os_distro"] != "ubuntu" {
		t.Errorf("image %+v, %v", i, err)
	}
	for name, want := range map[string]int{"twin": 30, "private": 0, "nope": 0, openstack.MetaKubeFlatcar: 1} {
		if list := extract(t, images.List(c.image, images.ListOpts{Name: name}).AllPages, images.ExtractImages); len(list) != want {
			t.Errorf("%d images named %s, want %d", len(list), name, want)
		}
	}
	_, err = images.Get(t.Context(), c.image, "nope").Extract()
	refused(t, err, 404)
}
