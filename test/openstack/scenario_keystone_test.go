package openstack_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	gopher "github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/applicationcredentials"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/regions"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"
	"github.com/gophercloud/gophercloud/v2/openstack/utils"
	testclock "k8s.io/utils/clock/testing"

	"github.com/drover-project/drover/test/openstack"
)

func TestWhichCredentialsTheSimulatedKeystoneAccepts(t *testing.T) {
	cloud := start(t, openstack.Config{})
	project := cloud.AddProject(openstack.MetaKubeProject, "")
	user := cloud.AddUser(openstack.User{Name: "corp-user", Password: "p", Domain: "corp", Projects: []string{openstack.MetaKubeProject}})
	base := password(cloud)
	edit := func(f func(*gophercloud.AuthOptions)) gophercloud.AuthOptions { o := base; f(&o); return o }
	app := gophercloud.AuthOptions{IdentityEndpoint: cloud.AuthURL(), ApplicationCredentialSecret: openstack.MetaKubeAppCredentialSecret}
	unversioned := strings.TrimSuffix(cloud.AuthURL(), "/v3")

	for name, tc := range map[string]struct {
		o      gophercloud.AuthOptions
		status int
	}{
		"a user signs in with a password and the names of user and project":     {o: base},
		"a user signs in through Keystone's unversioned address":                {o: edit(func(o *gophercloud.AuthOptions) { o.IdentityEndpoint = unversioned })},
		"a user signs in with the ID of the project":                            {o: edit(func(o *gophercloud.AuthOptions) { o.TenantName, o.TenantID = "", project })},
		"a user signs in with the ID of the user, and gets the default project": {o: gophercloud.AuthOptions{IdentityEndpoint: cloud.AuthURL(), UserID: user, Password: "p"}},
		"a user whose domain is not the domain of the project signs in": {o: edit(func(o *gophercloud.AuthOptions) {
			o.Username, o.Password, o.DomainName = "corp-user", "p", "corp"
			o.TenantName, o.Scope = "", &gophercloud.AuthScope{ProjectName: openstack.MetaKubeProject, DomainName: "Default"}
		})},
		"a user signs in with the ID of an application credential": {o: with(app, func(o *gophercloud.AuthOptions) { o.ApplicationCredentialID = openstack.MetaKubeAppCredentialID })},
		"a user signs in with the name of an application credential": {o: with(app, func(o *gophercloud.AuthOptions) {
			o.ApplicationCredentialName, o.Username, o.DomainName = openstack.MetaKubeAppCredentialName, openstack.MetaKubeUser, "Default"
		})},
		"the wrong secret of an application credential is refused": {status: 401, o: with(app, func(o *gophercloud.AuthOptions) {
			o.ApplicationCredentialID, o.ApplicationCredentialSecret = openstack.MetaKubeAppCredentialID, "wrong"
		})},
		"an application credential that does not exist is refused": {status: 404, o: with(app, func(o *gophercloud.AuthOptions) { o.ApplicationCredentialID = "gone" })},
		"a wrong password is refused":                              {status: 401, o: edit(func(o *gophercloud.AuthOptions) { o.Password = "wrong" })},
		"an unknown user is refused":                               {status: 401, o: edit(func(o *gophercloud.AuthOptions) { o.Username = "nobody" })},
		"an unknown project is refused":                            {status: 401, o: edit(func(o *gophercloud.AuthOptions) { o.TenantName = "nowhere" })},
		"an unknown domain is refused":                             {status: 401, o: edit(func(o *gophercloud.AuthOptions) { o.DomainName = "nowhere" })},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := gopher.AuthenticatedClient(t.Context(), tc.o)
			if tc.status != 0 {
				refused(t, err, tc.status)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			c, err := gopher.NewComputeV2(p, gophercloud.EndpointOpts{Region: openstack.MetaKubeRegion})
			if err != nil {
				t.Fatal(err)
			}
			extract(t, servers.List(c, nil).AllPages, servers.ExtractServers)
		})
	}
}

func with(o gophercloud.AuthOptions, f func(*gophercloud.AuthOptions)) gophercloud.AuthOptions {
	f(&o)
	return o
}

func TestInTheSimulatedCloudARegionThatIsNotInKeystonesCatalogHasNoEndpoint(t *testing.T) {
	cloud := start(t, openstack.Config{})
	c := login(t, cloud, nil)
	if _, err := gopher.NewComputeV2(c.provider, gophercloud.EndpointOpts{Region: "nowhere"}); err == nil {
		t.Error("region nowhere has an endpoint")
	}
	identity, err := gopher.NewIdentityV3(c.provider, gophercloud.EndpointOpts{})
	if err != nil {
		t.Fatal(err)
	}
	list := extract(t, regions.List(identity, nil).AllPages, regions.ExtractRegions)
	if len(list) != 1 || list[0].ID != openstack.MetaKubeRegion {
		t.Errorf("regions %+v", list)
	}
}

func TestWhenTokensOfTheSimulatedKeystoneBecomeInvalid(t *testing.T) {
	fake := testclock.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	cloud := start(t, openstack.Config{Clock: fake, TokenTTL: time.Minute})
	o := password(cloud)
	list := func(c clients) error {
		_, err := servers.List(c.compute, nil).AllPages(t.Context())
		return err
	}
	t.Run("a token is invalid after its time to live, and a client that renews the token is not affected", func(t *testing.T) {
		renewing := loginAs(t, o, nil)
		o.AllowReauth = false
		plain := loginAs(t, o, nil)
		fake.Step(61 * time.Second)
		refused(t, list(plain), 401)
		if err := list(renewing); err != nil {
			t.Error(err)
		}
	})
	t.Run("a revoked token is invalid", func(t *testing.T) {
		c := loginAs(t, o, nil)
		identity, err := gopher.NewIdentityV3(c.provider, gophercloud.EndpointOpts{})
		if err != nil {
			t.Fatal(err)
		}
		if valid, err := tokens.Validate(t.Context(), identity, c.provider.Token()); err != nil || !valid {
			t.Errorf("valid %v, %v", valid, err)
		}
		if err := tokens.Revoke(t.Context(), identity, c.provider.Token()).Err; err != nil {
			t.Fatal(err)
		}
		refused(t, list(c), 401)
	})
	t.Run("all tokens are invalid after a call of RevokeTokens", func(t *testing.T) {
		c := loginAs(t, o, nil)
		cloud.RevokeTokens()
		refused(t, list(c), 401)
	})
	t.Run("a token is invalid once its application credential has been deleted", func(t *testing.T) {
		c := loginAs(t, o, nil)
		identity, err := gopher.NewIdentityV3(c.provider, gophercloud.EndpointOpts{})
		if err != nil {
			t.Fatal(err)
		}
		user, err := c.provider.GetAuthResult().(tokens.CreateResult).ExtractUser()
		if err != nil {
			t.Fatal(err)
		}
		made, err := applicationcredentials.Create(t.Context(), identity, user.ID, applicationcredentials.CreateOpts{Name: "mine"}).Extract()
		if err != nil {
			t.Fatal(err)
		}
		mine := loginAs(t, gophercloud.AuthOptions{IdentityEndpoint: cloud.AuthURL(), ApplicationCredentialID: made.ID, ApplicationCredentialSecret: made.Secret}, nil)
		if err := applicationcredentials.Delete(t.Context(), identity, user.ID, made.ID).ExtractErr(); err != nil {
			t.Fatal(err)
		}
		refused(t, list(mine), 401)
	})
}

func TestInTheSimulatedCloudAUserWithTheRoleReaderMayNotCreateAServer(t *testing.T) {
	cloud := start(t, openstack.Config{})
	cloud.AddUser(openstack.User{Name: "looker", Password: "p", Projects: []string{openstack.MetaKubeProject}, Roles: []string{"reader"}})
	o := password(cloud)
	o.Username, o.Password = "looker", "p"
	c := loginAs(t, o, nil)
	_, err := servers.Create(t.Context(), c.compute, c.known(t).server("node-1", ""), nil).Extract()
	refused(t, err, 403)
}

func TestInTheSimulatedCloudProjectsDoNotSeeEachOthersServers(t *testing.T) {
	cloud := start(t, openstack.Config{})
	mine := login(t, cloud, nil)
	s := mine.boot(t, mine.known(t).server("node-1", ""), nil)
	cloud.AddUser(openstack.User{Name: "other", Password: "p", Projects: []string{"other"}})
	o := password(cloud)
	o.Username, o.Password, o.TenantName = "other", "p", "other"
	theirs := loginAs(t, o, nil)
	_, err := servers.Get(t.Context(), theirs.compute, s.ID).Extract()
	refused(t, err, 404)
	if list := extract(t, servers.List(theirs.compute, nil).AllPages, servers.ExtractServers); len(list) != 0 {
		t.Errorf("list %+v", list)
	}
	refused(t, servers.Delete(t.Context(), theirs.compute, s.ID).ExtractErr(), 404)
}

func TestTheSimulatedNovaListsItsMicroversionsAndAnswersInTheRequestedOne(t *testing.T) {
	cloud := start(t, openstack.Config{ComputeMicroversion: "2.79"})
	c := login(t, cloud, nil)
	offered, err := utils.GetSupportedMicroversions(t.Context(), c.compute)
	if err != nil || offered.MaxMinor != 79 || offered.MinMinor != 1 {
		t.Fatalf("offered %+v, %v", offered, err)
	}
	c.compute.Microversion = "2.79"
	k := c.known(t)
	s := c.boot(t, k.server("node-1", ""), nil)
	for version, want := range map[string]bool{"2.1": false, "2.46": false, "2.47": true, "2.79": true} {
		c.compute.Microversion = version
		if _, embedded := c.get(t, s.ID).Flavor["original_name"]; embedded != want {
			t.Errorf("at %s the flavor is embedded: %v", version, embedded)
		}
	}
	c.compute.Microversion = "2.80"
	_, err = servers.Get(t.Context(), c.compute, s.ID).Extract()
	if text := refused(t, err, http.StatusNotAcceptable); !strings.Contains(text, "Version 2.80 is not supported by the API. Minimum is 2.1 and maximum is 2.79.") {
		t.Error(text)
	}
}
