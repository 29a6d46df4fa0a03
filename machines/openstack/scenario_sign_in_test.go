package openstack

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/drover-project/drover/machines/openstack/client"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/fault"
	sim "github.com/drover-project/drover/test/openstack"
)

func TestEveryWayOfSigningIn(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	if _, err := b.cloud.Shape(b.ctx, "kube-system", templateOf(newMachine(t, "a", seedFields()))); err != nil {
		t.Fatal(err)
	}
	b.synced(newMachine(t, "a", seedFields()))
	var token string
	if err := b.connectionOf("uid-a").session.Do(b.ctx, client.Call{Service: client.Compute}, func(_ context.Context, api *gophercloud.ServiceClient) error {
		token = api.Token()
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for name, own := range map[string]fields{
		"signs in by password":                                                            {"username": sim.MetaKubeUser, "password": sim.MetaKubePassword, "projectName": sim.MetaKubeProject, "domainName": sim.MetaKubeDomain},
		"signs in by password in the default domain":                                      {"username": sim.MetaKubeUser, "password": sim.MetaKubePassword, "tenantName": sim.MetaKubeProject},
		"signs in by application credential":                                              {"applicationCredentialID": sim.MetaKubeAppCredentialID, "applicationCredentialSecret": sim.MetaKubeAppCredentialSecret},
		"signs in by application credential with the credential's name instead of its ID": {"applicationCredentialName": sim.MetaKubeAppCredentialName, "applicationCredentialSecret": sim.MetaKubeAppCredentialSecret, "username": sim.MetaKubeUser, "domainName": sim.MetaKubeDomain},
		"signs in by token":                                                               {"tokenId": token},
		"signs in by password when username and password are JSON objects that have one field named value (MC-10)": {"username": map[string]string{"value": sim.MetaKubeUser}, "password": map[string]string{"value": sim.MetaKubePassword}, "projectName": sim.MetaKubeProject},
		"signs in by password at an endpoint URL without a version":                                                {"identityEndpoint": b.sim.AuthURL()[:len(b.sim.AuthURL())-len("/v3")], "username": sim.MetaKubeUser, "password": sim.MetaKubePassword, "projectName": sim.MetaKubeProject},
	} {
		t.Run(name, func(t *testing.T) {
			b.t = t
			b.options.Configured = client.Credentials{}
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

const wrongSecret = "wrong-secret"

// bySecret returns a Machine with a MachineClass whose credentials are in a Secret, the MachineClass, and the Secret.
func bySecret(t *testing.T, name string, data map[string]string) (*v1alpha1.Machine, *v1alpha1.MachineClass, *corev1.Secret) {
	t.Helper()
	meta := metav1.ObjectMeta{Namespace: "kube-system", Name: name}
	secret := &corev1.Secret{ObjectMeta: meta, Data: map[string][]byte{}}
	for key, text := range data {
		secret.Data[key] = []byte(text)
	}
	class := &v1alpha1.MachineClass{ObjectMeta: meta, CredentialsSecretRef: &corev1.SecretReference{Namespace: meta.Namespace, Name: name}}
	m := newMachine(t, name, seedFields())
	m.Spec.ProviderSpec.ValueFrom = &v1alpha1.ProviderSpecSource{MachineClass: &v1alpha1.MachineClassRef{ObjectReference: corev1.ObjectReference{Name: name}}}
	return m, class, secret
}

func TestErrorOfARefusedSignInNamesTheSourceOfTheCredentials(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	password := map[string]string{
		"identityEndpoint": b.sim.AuthURL(), "username": sim.MetaKubeUser, "password": wrongSecret, "projectName": sim.MetaKubeProject,
		"domainName": sim.MetaKubeDomain,
	}
	inSpec := seedFields()
	for key, text := range password {
		inSpec[key] = text
	}
	fromSecret, class, secret := bySecret(t, "from-secret", password)
	b.options.Configured.Password = wrongSecret
	b.withReader(newReader(t, class, secret))
	application := seedFields().with("identityEndpoint", b.sim.AuthURL()).
		with("applicationCredentialID", sim.MetaKubeAppCredentialID).with("applicationCredentialSecret", wrongSecret)
	token := seedFields().with("identityEndpoint", b.sim.AuthURL()).with("tokenId", wrongSecret)
	for _, c := range []struct {
		machine *v1alpha1.Machine
		says    string
	}{
		{newMachine(t, "in-spec", inSpec), "Machine kube-system/in-spec: spec.providerSpec.value.cloudProviderSpec.password: signing in at"},
		{fromSecret, "Machine kube-system/from-secret: Secret kube-system/from-secret"},
		{newMachine(t, "configured", seedFields()), "Machine kube-system/configured: the configured cloud"},
		{newMachine(t, "application", application), "Machine kube-system/application: spec.providerSpec.value.cloudProviderSpec.applicationCredentialSecret: signing in at"},
		{newMachine(t, "token", token), "Machine kube-system/token: spec.providerSpec.value.cloudProviderSpec.tokenId: signing in at"},
	} {
		err := b.bringUp(c.machine)
		if fault.Of(err) == nil || fault.Of(err).Code != fault.CodeUnauthorized || !strings.HasPrefix(err.Error(), c.says) {
			t.Errorf("%s: %v", c.machine.Name, err)
		}
		if err != nil && strings.Contains(err.Error(), wrongSecret) {
			t.Errorf("the secret is shown: %v", err)
		}
	}
	if got := b.calls("POST /auth/tokens"); got > 4 {
		t.Errorf("%d sign-ins for four sets of credentials (the password of a spec and of a Secret are one)", got)
	}
}

func TestErrorForRevokedCredentialsNamesTheirSource(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	i := b.synced(newMachine(t, "a", seedFields()))
	b.sim.Inject(sim.Fault{Call: "POST /auth/tokens", Status: http.StatusUnauthorized})
	b.sim.Inject(sim.Fault{Service: "compute", Status: http.StatusUnauthorized})
	err := i.ensurePorts(b.ctx)
	if !fault.Is(err, fault.Auth) || !strings.HasPrefix(err.Error(), "Machine kube-system/a: the configured cloud") || strings.Contains(err.Error(), ".flavor") {
		t.Errorf("got %v", err)
	}
}

func TestRenewalOfATokenIsTriedOncePerBackOffAfterItFailed(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var machines []*instance
	for n := range 9 {
		machines = append(machines, b.synced(newMachine(t, fmt.Sprintf("m-%d", n), seedFields())))
	}
	b.sim.RevokeTokens()
	refusal := b.sim.Inject(sim.Fault{Call: "POST /auth/tokens", Status: http.StatusUnauthorized})
	b.sim.ForgetCalls()
	fail := func(t *testing.T) {
		t.Helper()
		for _, i := range machines {
			if err := i.ensurePorts(b.ctx); !fault.Is(err, fault.Auth) || fault.Of(err).Code != fault.CodeUnauthorized {
				t.Fatalf("got %v", err)
			}
		}
	}
	t.Run("the renewal is not repeated before the back-off ends, however many Machines make calls (F-23)", func(t *testing.T) {
		fail(t)
		if n := b.calls("POST /auth/tokens"); n != 1 {
			t.Errorf("%d sign-ins for 9 Machines, want one", n)
		}
		if n := b.calls("POST /ports"); n > 1 {
			t.Errorf("%d calls were made with a token that is refused", n)
		}
	})
	t.Run("the renewal is tried once more after the back-off (F-23)", func(t *testing.T) {
		b.clock.Step(client.SignInAgain)
		fail(t)
		if n := b.calls("POST /auth/tokens"); n != 2 {
			t.Errorf("%d sign-ins, want one more", n)
		}
	})
	t.Run("calls succeed after the next back-off when Keystone accepts the renewal (F-23)", func(*testing.T) {
		refusal()
		b.clock.Step(client.SignInAgain)
		b.eventually("the calls succeed", func() bool { return machines[0].ensurePorts(b.ctx) == nil })
	})
}

func TestRenewalThatFailsBeforeTheTokenExpires(t *testing.T) {
	t.Parallel()
	t.Run("the current token stays in use, and the renewal is tried once per back-off (F-23)", func(t *testing.T) {
		b := newBench(t)
		i := b.synced(newMachine(t, "a", seedFields()))
		b.sim.Inject(sim.Fault{Call: "POST /auth/tokens", Status: http.StatusUnauthorized})
		b.sim.ForgetCalls()
		b.clock.Step(55 * time.Minute)
		for range 5 {
			if err := i.ensurePorts(b.ctx); err != nil {
				t.Fatal(err)
			}
		}
		if n := b.calls("POST /auth/tokens"); n != 1 {
			t.Errorf("%d sign-ins, want one", n)
		}
	})
}
