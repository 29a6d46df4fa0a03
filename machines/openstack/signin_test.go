package openstack

import (
	"encoding/json"
	"testing"
	"time"

	sim "github.com/drover-project/drover/test/openstack"
)

func TestEveryWayOfSigningIn(t *testing.T) {
	b := newBench(t)
	if _, err := b.cloud.Shape(b.ctx, "kube-system", templateOf(newMachine(t, "a", seedFields()))); err != nil {
		t.Fatal(err)
	}
	b.synced(newMachine(t, "a", seedFields()))
	token := b.connectionOf("uid-a").session.provider.Token()
	for name, own := range map[string]fields{
		"by password":                            {"username": sim.MetaKubeUser, "password": sim.MetaKubePassword, "projectName": sim.MetaKubeProject, "domainName": sim.MetaKubeDomain},
		"by password, in the default domain":     {"username": sim.MetaKubeUser, "password": sim.MetaKubePassword, "tenantName": sim.MetaKubeProject},
		"by application credential":              {"applicationCredentialID": sim.MetaKubeAppCredentialID, "applicationCredentialSecret": sim.MetaKubeAppCredentialSecret},
		"by application credential, by name":     {"applicationCredentialName": sim.MetaKubeAppCredentialName, "applicationCredentialSecret": sim.MetaKubeAppCredentialSecret, "username": sim.MetaKubeUser, "domainName": sim.MetaKubeDomain},
		"by token":                               {"tokenId": token},
		"MC-10 by values that are objects":       {"username": map[string]string{"value": sim.MetaKubeUser}, "password": map[string]string{"value": sim.MetaKubePassword}, "projectName": sim.MetaKubeProject},
		"with an endpoint that names no version": {"identityEndpoint": b.sim.AuthURL()[:len(b.sim.AuthURL())-len("/v3")], "username": sim.MetaKubeUser, "password": sim.MetaKubePassword, "projectName": sim.MetaKubeProject},
	} {
		t.Run(name, func(t *testing.T) {
			b.t = t
			b.options.Configured = Credentials{}
			b.restart()
			spec := seedFields().with("identityEndpoint", b.sim.AuthURL())
			for field, value := range own {
				spec[field] = value
			}
			if _, err := b.cloud.Shape(b.ctx, "kube-system", templateOf(newMachine(t, "a", spec))); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestBothFormsOfKeystonesTimes(t *testing.T) {
	want := time.Date(2026, 11, 20, 7, 40, 12, 0, time.UTC)
	for _, text := range []string{`"2026-11-20T07:40:12.000000Z"`, `"2026-11-20T07:40:12"`} {
		var s stamp
		if err := json.Unmarshal([]byte(text), &s); err != nil || !s.Equal(want) {
			t.Errorf("%s is %v, %v", text, s, err)
		}
	}
	if err := new(stamp).UnmarshalJSON([]byte(`"soon"`)); err == nil {
		t.Error("soon is a time")
	}
}
