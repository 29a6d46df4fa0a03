package openstack_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	testclock "k8s.io/utils/clock/testing"

	"github.com/drover-project/drover/test/openstack"
)

func TestErrorsInTheFormsOfVendors(t *testing.T) {
	for form, says := range map[openstack.ErrorForm]string{
		openstack.OpenStackErrors: `{"badRequest":{"code":400,"message":"`,
		openstack.ErrorWithCode:   `{"error":{"message":"`,
		openstack.ErrorMsgAndCode: `{"error_msg":"`,
	} {
		t.Run("an error of Nova begins with "+says, func(t *testing.T) {
			cloud := start(t, openstack.Config{ErrorForm: form})
			c := login(t, cloud, nil)
			_, err := servers.Create(t.Context(), c.compute, servers.CreateOpts{Name: "a", FlavorRef: "none", Networks: "none"}, nil).Extract()
			var refusal gophercloud.ErrUnexpectedResponseCode
			if !errors.As(err, &refusal) || !strings.HasPrefix(string(refusal.Body), says) || !strings.Contains(string(refusal.Body), "could not be found.") {
				t.Errorf("got %s, %v", refusal.Body, err)
			}
		})
	}
}

func TestVolumesOfAFailedServer(t *testing.T) {
	for keep, left := range map[bool]int{false: 0, true: 1} {
		name := "are deleted with the server, if delete_on_termination is set"
		if keep {
			name = "outlive the server with FailedBuildsLeaveVolumes"
		}
		t.Run(name, func(t *testing.T) {
			clock := testclock.NewFakeClock(time.Now())
			cloud := start(t, openstack.Config{Clock: clock, FailedBuildsLeaveVolumes: keep})
			c := login(t, cloud, nil)
			k := c.known(t)
			s, err := servers.Create(t.Context(), c.compute, servers.CreateOpts{
				Name: "a", FlavorRef: k.flavor, Networks: []servers.Network{{UUID: k.network}},
				BlockDevice: []servers.BlockDevice{{SourceType: "image", DestinationType: "volume", UUID: k.image, VolumeSize: 20, DeleteOnTermination: true}},
			}, nil).Extract()
			if err != nil {
				t.Fatal(err)
			}
			clock.Step(time.Minute)
			if !cloud.FailServer(s.ID, "broken") || len(cloud.Leftovers().Volumes) != 1 {
				t.Fatalf("left %+v", cloud.Leftovers())
			}
			cloud.DeleteServer(s.ID)
			if got := len(cloud.Leftovers().Volumes); got != left {
				t.Errorf("%d volumes are left, want %d", got, left)
			}
		})
	}
}

func TestImageThatIsReplacedUnderItsName(t *testing.T) {
	t.Run("has another ID, and Nova refuses the old one", func(t *testing.T) {
		cloud := start(t, openstack.Config{})
		c := login(t, cloud, nil)
		k := c.known(t)
		next := cloud.ReplaceImage(k.image)
		if next == "" || next == k.image || c.known(t).image != next {
			t.Fatalf("got %q for %s; the list has %s", next, k.image, c.known(t).image)
		}
		_, err := servers.Create(t.Context(), c.compute, servers.CreateOpts{Name: "a", FlavorRef: k.flavor, ImageRef: k.image, Networks: "none"}, nil).Extract()
		if refused(t, err, http.StatusBadRequest); !strings.Contains(err.Error(), "Can not find requested image") {
			t.Errorf("got %v", err)
		}
	})
}

func TestAccessRulesOfAnApplicationCredential(t *testing.T) {
	cloud := start(t, openstack.Config{})
	id, err := cloud.AddAppCredential(openstack.AppCredential{
		Name: "limited", Secret: "s", User: openstack.MetaKubeUser, Project: openstack.MetaKubeProject, Rules: []openstack.AccessRule{
			{Service: "compute", Method: "GET", Path: "/compute/v2.1/servers/{id}"}, {Service: "network", Method: "GET", Path: "/network/**"},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	c := loginAs(t, gophercloud.AuthOptions{IdentityEndpoint: cloud.AuthURL(), ApplicationCredentialID: id, ApplicationCredentialSecret: "s"}, nil)
	for name, tc := range map[string]struct {
		api    *gophercloud.ServiceClient
		method string
		path   []string
		status int
	}{
		"permit a path with a placeholder":                          {c.compute, "GET", []string{"servers", "x"}, http.StatusNotFound},
		"do not permit a longer path":                               {c.compute, "GET", []string{"servers", "x", "metadata"}, http.StatusUnauthorized},
		"do not permit another method":                              {c.compute, "DELETE", []string{"servers", "x"}, http.StatusUnauthorized},
		"permit every path below a prefix with two asterisks":       {c.network, "GET", []string{"ports", "x"}, http.StatusNotFound},
		"do not permit calls of a service that no rule names":       {c.image, "GET", []string{"images"}, http.StatusUnauthorized},
		"do not permit another method of a path with two asterisks": {c.network, "POST", []string{"ports"}, http.StatusUnauthorized},
	} {
		t.Run(name, func(t *testing.T) {
			resp, err := tc.api.Request(t.Context(), tc.method, tc.api.ServiceURL(tc.path...), &gophercloud.RequestOpts{OkCodes: []int{200}})
			if err == nil {
				_ = resp.Body.Close()
			}
			refused(t, err, tc.status)
		})
	}
}

func TestVersionDocumentThatIsReplaced(t *testing.T) {
	t.Run("is the only call of Nova that has another answer", func(t *testing.T) {
		cloud := start(t, openstack.Config{})
		c := login(t, cloud, nil)
		cloud.Inject(openstack.VersionDocument(http.StatusMultipleChoices, `{"choices":[]}`))
		for address, status := range map[string]int{c.compute.Endpoint: http.StatusMultipleChoices, c.compute.ServiceURL("servers"): 0} {
			resp, err := c.compute.Get(t.Context(), address, nil, nil)
			if err == nil {
				_ = resp.Body.Close()
			}
			if status != 0 {
				refused(t, err, status)
			} else if err != nil {
				t.Error(err)
			}
		}
	})
}

func TestFilterByAPartOfAVolumesName(t *testing.T) {
	t.Run("is name~, while name compares the whole name", func(t *testing.T) {
		cloud := start(t, openstack.Config{})
		c := login(t, cloud, nil)
		for _, name := range []string{"boot-a", "boot-b", "data"} {
			body := map[string]any{"volume": map[string]any{"size": 1, "name": name}}
			resp, err := c.volume.Post(t.Context(), c.volume.ServiceURL("volumes"), body, nil, &gophercloud.RequestOpts{OkCodes: []int{202}})
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
		}
		for query, want := range map[string][]string{"name~=BOOT": {"boot-a", "boot-b"}, "name=boot": nil, "name=data": {"data"}} {
			var body struct{ Volumes []struct{ Name string } }
			var raw json.RawMessage
			resp, err := c.volume.Get(t.Context(), c.volume.ServiceURL("volumes")+"?"+query, &raw, nil)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			if err := json.Unmarshal(raw, &body); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, v := range body.Volumes {
				got = append(got, v.Name)
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s: got %q, want %q", query, got, want)
			}
		}
	})
}
