package openstack

import (
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/openstack/client"
	sim "github.com/drover-project/drover/test/openstack"
)

// keyring is the source from which drover reads the credentials of the configured cloud. Reading them returns creds and err.
type keyring struct {
	mu    sync.Mutex
	creds client.Credentials
	err   error
	reads int
}

func (k *keyring) read() (client.Credentials, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.reads++
	return k.creds, k.err
}

func (k *keyring) set(creds client.Credentials, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.creds, k.err, k.reads = creds, err, 0
}

// seen waits until the driver has read the new credentials twice: before the second read, it has applied the credentials
// from the first.
func (k *keyring) seen(b *bench) {
	b.t.Helper()
	b.eventually("the credentials are read twice", func() bool {
		k.mu.Lock()
		defer k.mu.Unlock()
		return k.reads > 1
	})
}

// newRotating returns a bench that reads the credentials of its configured cloud from a keyring, the keyring, and its first
// credentials.
func newRotating(t *testing.T) (*bench, *keyring, client.Credentials) {
	t.Helper()
	b := newBench(t)
	first := client.Credentials{
		IdentityEndpoint: b.sim.AuthURL(), Region: sim.MetaKubeRegion,
		ApplicationCredentialID: sim.MetaKubeAppCredentialID, ApplicationCredentialSecret: sim.MetaKubeAppCredentialSecret,
	}
	k := &keyring{creds: first}
	b.options.Configured, b.options.Reread = first, k.read
	b.restart()
	return b, k, first
}

// refusals counts the calls that the cloud answered with 401.
func (b *bench) refusals() (n int) {
	for _, call := range b.sim.Calls() {
		if call.Status == http.StatusUnauthorized {
			n++
		}
	}
	return n
}

func TestRotatedCredentialsOfTheConfiguredCloudAreUsed(t *testing.T) {
	b, k, first := newRotating(t)
	i, _ := b.active(newMachine(t, "a", seedFields()))
	second := first
	second.ApplicationCredentialSecret = "second"
	var err error
	if second.ApplicationCredentialID, err = b.sim.AddAppCredential(sim.AppCredential{Name: "second", Secret: "second", User: sim.MetaKubeUser, Project: sim.MetaKubeProject}); err != nil {
		t.Fatal(err)
	}
	k.set(second, nil)
	k.seen(b)
	project := i.connection.attached()
	b.eventually("the project is listed with the new credentials", func() bool {
		b.instance(newMachine(t, "a", seedFields()))
		conn := b.connectionOf("uid-a")
		return conn != i.connection && conn.attached() == project
	})
	b.pass(time.Minute)
	b.sim.RevokeAppCredential(first.ApplicationCredentialID)
	b.sim.ForgetCalls()
	b.active(newMachine(t, "b", seedFields()))
	b.pass(20 * time.Minute)
	if n := b.refusals(); n > 0 {
		t.Errorf("%d calls were made with credentials that are revoked", n)
	}
	if s := b.observe(b.instance(newMachine(t, "a", seedFields()))).Server; s == nil || s.State != cloud.ServerActive {
		t.Errorf("the server that was made with the old credentials: %+v", s)
	}
}

func TestPreviousCredentialsOfTheConfiguredCloudStayInUse(t *testing.T) {
	b, k, first := newRotating(t)
	b.active(newMachine(t, "before", seedFields()))
	elsewhere, refused := first, first
	elsewhere.IdentityEndpoint = "https://elsewhere.example/v3"
	secure := first
	secure.IdentityEndpoint = strings.Replace(first.IdentityEndpoint, "http://", "https://", 1)
	refused.ApplicationCredentialSecret = wrongSecret
	b.sim.AddUser(sim.User{Name: "other", Password: "other-secret", Projects: []string{"other"}})
	otherProject := client.Credentials{
		IdentityEndpoint: first.IdentityEndpoint, Region: first.Region, Username: "other", Password: "other-secret", ProjectName: "other",
	}
	for name, now := range map[string]struct {
		creds client.Credentials
		err   error
	}{
		"when the credentials file cannot be read":                  {err: errors.New("reading --clouds-yaml: no such file")},
		"when the new credentials are for another cloud":            {creds: elsewhere},
		"when the identity service has moved to https (report 154)": {creds: secure},
		"when the new credentials are for another project":          {creds: otherProject},
		"when the new credentials have a wrong secret":              {creds: refused},
		"when the new credentials have no user":                     {creds: client.Credentials{IdentityEndpoint: first.IdentityEndpoint, Region: first.Region}},
	} {
		t.Run(name, func(t *testing.T) {
			b.t = t
			k.set(now.creds, now.err)
			k.seen(b)
			if got := b.cloud.specs.Configured(); got.Key() != first.Key() {
				t.Errorf("it is used: %s", got.IdentityEndpoint)
			}
		})
	}
	t.Run("an identity service that has moved to https leads to an error that asks for a restart (report 154)", func(t *testing.T) {
		if err := b.cloud.reconfigure(b.ctx, secure); err == nil || !strings.Contains(err.Error(), "restart drover") || !strings.Contains(err.Error(), secure.IdentityEndpoint) {
			t.Errorf("got %v", err)
		}
	})
	b.t = t
	b.active(newMachine(t, "a", seedFields()))
}

func TestCredentialsThatAreRotatedWhileDroverWaitsForItsLeaseAreUsed(t *testing.T) {
	b, k, first := newRotating(t)
	old := first
	old.ApplicationCredentialSecret = "rotated since this process began to wait for the lease"
	b.options.Configured = old
	b.stop() // first, because this process reads the credentials, too
	k.set(first, nil)
	b.sim.ForgetCalls()
	b.start()
	k.seen(b)
	b.active(newMachine(t, "a", seedFields()))
	if b.refusals() > 0 {
		t.Error("the old credentials were tried")
	}
}
